// The layers of lathe/nn/transformer.h and the scaler of lathe/amp.h.
#include "bind.h"
#include "layers.h"
#include "released.h"

namespace lathe::python {
namespace {

using namespace lathe::nn;

// Functions by name: a layer is pickled with its name.
struct Activation {
  const char* name;
  Tensor (*function)(const Tensor&);
};
constexpr Activation kActivations[] = {
    {"relu", [](const Tensor& x) { return x.relu(); }},
    {"gelu", [](const Tensor& x) { return x.gelu("none"); }},
    {"silu", [](const Tensor& x) { return x.silu(); }},
};
auto activation_of(const std::string& name) {
  for (const Activation& a : kActivations)
    if (name == a.name) return a.function;
  throw UserError("transformer", "there is no activation '" + name + "'").help("relu, gelu or silu");
}

TransformerLayerOptions options_of(std::int64_t dim_feedforward, double dropout,
                                   const std::string& activation, double eps, bool batch_first,
                                   bool norm_first) {
  return {dim_feedforward, dropout, activation_of(activation), eps, batch_first, norm_first};
}

template <class L>
Field<L> activation_field() {
  return {"activation",
          [](L& l, nb::handle) -> nb::object {
            for (const Activation& a : kActivations)
              if (a.function == l.options.activation) return nb::cast(std::string(a.name));
            return nb::none();
          },
          [](L& l, nb::handle value) { l.options.activation = activation_of(nb::cast<std::string>(value)); }};
}

template <class L>
std::vector<Field<L>> layer_fields() {
  using O = TransformerLayerOptions;
  return {layer_field<L>("self_attn", &L::self_attn),
          layer_field<L>("linear1", &L::linear1),
          layer_field<L>("linear2", &L::linear2),
          layer_field<L>("norm1", &L::norm1),
          layer_field<L>("norm2", &L::norm2),
          activation_field<L>(),
          option_field<L>("dropout", &L::options, &O::dropout),
          option_field<L>("batch_first", &L::options, &O::batch_first),
          option_field<L>("norm_first", &L::options, &O::norm_first)};
}

template <class L, class Class>
void transformer_init(Class& c) {
  c.def(
      "__init__",
      [](L* self, std::int64_t d_model, std::int64_t nhead, std::int64_t dim_feedforward, double dropout,
         const std::string& activation, double layer_norm_eps, bool batch_first, bool norm_first) {
        new (self)
            L(d_model, nhead,
              options_of(dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first));
      },
      "d_model"_a, "nhead"_a, "dim_feedforward"_a = 2048, "dropout"_a = 0.1, "activation"_a = "relu",
      "layer_norm_eps"_a = 1e-5, "batch_first"_a = false, "norm_first"_a = false);
}

using optim::GradScaler;
using optim::Optimizer;

}  // namespace

void bind_transformer(nb::module_& m) {
  using A = MultiheadAttention;
  layer<A>(m, "MultiheadAttention",
           {tensor_field<A>("in_proj_weight", &A::in_proj_weight),
            tensor_field<A>("in_proj_bias", &A::in_proj_bias), layer_field<A>("out_proj", &A::out_proj),
            value_field<A>("num_heads", &A::num_heads), value_field<A>("dropout", &A::dropout),
            value_field<A>("batch_first", &A::batch_first)},
           [] { return A(1, 1); })
      .def(nb::init<std::int64_t, std::int64_t, double, bool, bool>(), "embed_dim"_a, "num_heads"_a,
           "dropout"_a = 0.0, "bias"_a = true, "batch_first"_a = false)
      .def(
          "__call__",
          [](const A& l, const Tensor& query, const Tensor& key, const Tensor& value, const Tensor* padding,
             const Tensor* mask, bool causal) { return l(query, key, value, {mask, padding, causal}); },
          "query"_a, "key"_a, "value"_a, "key_padding_mask"_a.none() = nb::none(),
          "attn_mask"_a.none() = nb::none(), "is_causal"_a = false);
  using E = TransformerEncoderLayer;
  auto encoder = layer<E>(m, "TransformerEncoderLayer", layer_fields<E>(),
                          [] { return E(1, 1, {.dim_feedforward = 1}); });
  transformer_init<E>(encoder);
  encoder.def(
      "__call__",
      [](const E& l, const Tensor& x, const Tensor* mask, const Tensor* padding, bool causal) {
        return l(x, {mask, padding, causal});
      },
      "src"_a, "src_mask"_a.none() = nb::none(), "src_key_padding_mask"_a.none() = nb::none(),
      "is_causal"_a = false);
  using D = TransformerDecoderLayer;
  std::vector<Field<D>> fields = layer_fields<D>();
  fields.push_back(layer_field<D>("multihead_attn", &D::multihead_attn));
  fields.push_back(layer_field<D>("norm3", &D::norm3));
  auto decoder =
      layer<D>(m, "TransformerDecoderLayer", fields, [] { return D(1, 1, {.dim_feedforward = 1}); });
  transformer_init<D>(decoder);
  decoder.def(
      "__call__",
      [](const D& l, const Tensor& x, const Tensor& memory, const Tensor* mask, const Tensor* memory_mask,
         const Tensor* padding, const Tensor* memory_padding,
         bool causal) { return l(x, memory, {mask, padding, causal}, {memory_mask, memory_padding, false}); },
      "tgt"_a, "memory"_a, "tgt_mask"_a.none() = nb::none(), "memory_mask"_a.none() = nb::none(),
      "tgt_key_padding_mask"_a.none() = nb::none(), "memory_key_padding_mask"_a.none() = nb::none(),
      "tgt_is_causal"_a = false);

  nb::class_<GradScaler, Module>(m, "GradScaler", doc("amp.GradScaler"))
      .def(
          "__init__",
          [](GradScaler* self, double init_scale, double growth_factor, double backoff_factor,
             std::int64_t growth_interval) {
            new (self) GradScaler({init_scale, growth_factor, backoff_factor, growth_interval});
          },
          "init_scale"_a = 65536.0, "growth_factor"_a = 2.0, "backoff_factor"_a = 0.5,
          "growth_interval"_a = 2000)
      .def("get_scale", [](const GradScaler& s) { return released([&] { return s.get_scale(); }); })
      .def("scale", &GradScaler::scale, "loss"_a)
      .def(
          "unscale_", [](GradScaler& s, Optimizer& o) { released([&] { s.unscale(o); }); }, "optimizer"_a)
      .def(
          "step", [](GradScaler& s, Optimizer& o) { return released([&] { return s.step(o); }); },
          "optimizer"_a)
      .def("update", [](GradScaler& s) { released([&] { s.update(); }); })
      .def("state_dict",
           [](GradScaler& self) {
             nb::dict out;
             for (const auto& [name, tensor] : get_state_dict(self))
               out[name.c_str()] = released([&] { return tensor.item(); });
             return out;
           })
      .def(
          "load_state_dict",
          [](GradScaler& self, const nb::dict& state) {
            StateDict values;
            for (auto [name, value] : state)
              values.emplace_back(nb::cast<std::string>(name),
                                  Tensor(Number(nb::cast<double>(value)), {.device = "CPU"}));
            load_state_dict(self, values);
          },
          "state"_a);
}

}  // namespace lathe::python
