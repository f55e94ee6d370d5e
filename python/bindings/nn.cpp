// The layers of include/lathe/nn.h.
#include <nanobind/stl/shared_ptr.h>

#include "bind.h"
#include "lathe/nn/parameters.h"
#include "layers.h"

namespace lathe::python {
namespace {

using namespace lathe::nn;

// A module written in Python: its parts are attributes of the Python object.
class OwnModule : public Module {
 public:
  void parts(Parts&) override {}
};

// padding="same" and "valid" as numbers.
Ints padding_of(nb::handle padding, const Ints& kernel, const Ints& stride, const Ints& dilation) {
  if (!PyUnicode_Check(padding.ptr())) return nb::cast<Ints>(padding);
  const auto word = nb::cast<std::string>(padding);
  if (word == "valid") return 0;
  if (word != "same")
    throw UserError("padding", "'" + word + "' is not a padding").help("same, valid, or numbers");
  for (std::int64_t s : stride)
    if (s != 1) throw UserError("padding", "padding 'same' needs stride 1");
  std::vector<std::int64_t> out;  // pairs, from the last axis on
  for (std::size_t i = kernel.size(); i-- > 0;) {
    const std::int64_t all = dilation[dilation.size() == 1 ? 0 : i] * (kernel[i] - 1);
    out.push_back(all / 2);
    out.push_back(all - all / 2);
  }
  return Ints(std::move(out));
}

Ints per_axis(const Ints& given, std::size_t axes) {
  return given.size() == 1 ? Ints(std::vector<std::int64_t>(axes, given[0])) : given;
}

template <class L>
std::vector<Field<L>> weight_and_bias() {
  return {tensor_field<L>("weight", &L::weight), tensor_field<L>("bias", &L::bias)};
}

template <class L, class O>
std::vector<Field<L>> convolution_fields(O L::* options) {
  std::vector<Field<L>> fields = weight_and_bias<L>();
  fields.push_back(option_field<L>("groups", options, &O::groups));
  fields.push_back(option_field<L>("stride", options, &O::stride));
  fields.push_back(option_field<L>("dilation", options, &O::dilation));
  fields.push_back(option_field<L>("padding", options, &O::padding));
  return fields;
}

template <class C>
void kernel_size(C& c, std::size_t axes) {
  c.def_prop_ro("kernel_size", [axes](nb::handle self) {
    const Shape shape = nb::cast<Tensor>(self.attr("weight")).shape();
    return Shape(shape.end() - static_cast<std::ptrdiff_t>(axes), shape.end());
  });
}

template <class L>
void convolution(nb::module_& m, const char* name, std::size_t axes, std::function<L()> blank) {
  std::vector<Field<L>> fields;
  for (const auto& f : convolution_fields<Convolution>(&Convolution::options))
    fields.push_back(
        {f.name, [f](L& l, nb::handle s) { return f.get(l, s); }, [f](L& l, nb::handle v) { f.set(l, v); }});
  auto c = layer<L>(m, name, std::move(fields), std::move(blank));
  c.def(
       "__init__",
       [axes](L* self, std::int64_t in, std::int64_t out, const Ints& kernel, const Ints& stride,
              nb::handle padding, const Ints& dilation, std::int64_t groups, bool bias) {
         const Ints k = per_axis(kernel, axes);
         const ConvOptions options{groups, stride, dilation, padding_of(padding, k, stride, dilation)};
         if constexpr (std::is_same_v<L, Conv1d>)
           new (self) L(in, out, k[0], options, bias);
         else
           new (self) L(in, out, k, options, bias);
       },
       "in_channels"_a, "out_channels"_a, "kernel_size"_a, "stride"_a = 1, "padding"_a = 0, "dilation"_a = 1,
       "groups"_a = 1, "bias"_a = true)
      .def("__call__", [](const L& l, const Tensor& x) { return l(x); }, "x"_a);
  kernel_size(c, axes);
}

template <class L>
void transposed(nb::module_& m, const char* name, std::size_t axes, std::function<L()> blank) {
  using O = ConvTransposeOptions;
  std::vector<Field<L>> fields;
  auto base = convolution_fields<TransposedConvolution>(&TransposedConvolution::options);
  base.push_back(option_field<TransposedConvolution>("output_padding", &TransposedConvolution::options,
                                                     &O::output_padding));
  for (const auto& f : base)
    fields.push_back(
        {f.name, [f](L& l, nb::handle s) { return f.get(l, s); }, [f](L& l, nb::handle v) { f.set(l, v); }});
  auto c = layer<L>(m, name, std::move(fields), std::move(blank));
  c.def(
       "__init__",
       [axes](L* self, std::int64_t in, std::int64_t out, const Ints& kernel, const Ints& stride,
              const Ints& padding, const Ints& output_padding, const Ints& dilation, std::int64_t groups,
              bool bias) {
         const Ints k = per_axis(kernel, axes);
         const O options{groups, stride, dilation, padding, output_padding};
         if constexpr (std::is_same_v<L, ConvTranspose1d>)
           new (self) L(in, out, k[0], options, bias);
         else
           new (self) L(in, out, k, options, bias);
       },
       "in_channels"_a, "out_channels"_a, "kernel_size"_a, "stride"_a = 1, "padding"_a = 0,
       "output_padding"_a = 0, "dilation"_a = 1, "groups"_a = 1, "bias"_a = true)
      .def("__call__", [](const L& l, const Tensor& x) { return l(x); }, "x"_a);
  kernel_size(c, axes);
}

void bind_weighted(nb::module_& m) {
  m.def(
      "plainly",
      [](nb::handle kind, const nb::args& args, const nb::kwargs& kwargs) {
        making_plainly = true;
        try {
          nb::object made = kind(*args, **kwargs);
          making_plainly = false;
          return made;
        } catch (...) {
          making_plainly = false;
          throw;
        }
      },
      "kind"_a, "args"_a, "kwargs"_a);
  layer<Linear>(m, "Linear", weight_and_bias<Linear>(), [] { return Linear(1, 1); })
      .def(nb::init<std::int64_t, std::int64_t, bool>(), "in_features"_a, "out_features"_a, "bias"_a = true)
      .def("__call__", [](const Linear& l, const Tensor& x) { return l(x); }, "x"_a);
  convolution<Conv1d>(m, "Conv1d", 1, [] { return Conv1d(1, 1, 1); });
  convolution<Conv2d>(m, "Conv2d", 2, [] { return Conv2d(1, 1, 1); });
  transposed<ConvTranspose1d>(m, "ConvTranspose1d", 1, [] { return ConvTranspose1d(1, 1, 1); });
  transposed<ConvTranspose2d>(m, "ConvTranspose2d", 2, [] { return ConvTranspose2d(1, 1, 1); });
  layer<Embedding>(m, "Embedding", {tensor_field<Embedding>("weight", &Embedding::weight)},
                   [] { return Embedding(1, 1); })
      .def(nb::init<std::int64_t, std::int64_t>(), "vocab_size"_a, "embed_size"_a)
      .def(
          "__call__", [](const Embedding& l, const Tensor& idx) { return l(idx); }, "idx"_a)
      .def_prop_ro("vocab_sz", [](const Embedding& l) { return l.weight.size(0); })
      .def_prop_ro("embed_sz", [](const Embedding& l) { return l.weight.size(1); });
  layer<Dropout>(m, "Dropout", {value_field<Dropout>("p", &Dropout::p)}, [] { return Dropout(); })
      .def(nb::init<double>(), "p"_a = 0.5)
      .def("__call__", [](const Dropout& l, const Tensor& x) { return l(x); }, "x"_a);
}

void bind_norms(nb::module_& m) {
  using B = BatchNorm;
  using O = BatchNormOptions;
  std::vector<Field<B>> batch = weight_and_bias<B>();
  batch.push_back(tensor_field<B>("running_mean", &B::running_mean));
  batch.push_back(tensor_field<B>("running_var", &B::running_var));
  batch.push_back(tensor_field<B>("num_batches_tracked", &B::num_batches_tracked));
  batch.push_back(option_field<B>("eps", &B::options, &O::eps));
  batch.push_back(option_field<B>("momentum", &B::options, &O::momentum));
  batch.push_back(option_field<B>("affine", &B::options, &O::affine));
  batch.push_back(option_field<B>("track_running_stats", &B::options, &O::track_running_stats));
  layer<B>(m, "BatchNorm", batch, [] { return B(1); })
      .def(
          "__init__",
          [](B* self, std::int64_t sz, double eps, bool affine, bool track, std::optional<double> momentum) {
            new (self) B(sz, {eps, momentum, affine, track});
          },
          "sz"_a, "eps"_a = 1e-5, "affine"_a = true, "track_running_stats"_a = true,
          "momentum"_a.none() = 0.1)
      .def("__call__", [](B& l, const Tensor& x) { return l(x); }, "x"_a);

  std::vector<Field<GroupNorm>> group = weight_and_bias<GroupNorm>();
  group.push_back(value_field<GroupNorm>("num_groups", &GroupNorm::groups));
  group.push_back(value_field<GroupNorm>("eps", &GroupNorm::eps));
  layer<GroupNorm>(m, "GroupNorm", group, [] { return GroupNorm(1, 1); })
      .def(nb::init<std::int64_t, std::int64_t, double, bool>(), "num_groups"_a, "num_channels"_a,
           "eps"_a = 1e-5, "affine"_a = true)
      .def("__call__", [](const GroupNorm& l, const Tensor& x) { return l(x); }, "x"_a);
  using I = InstanceNorm;
  layer<I>(m, "InstanceNorm",
           {tensor_field<I>("weight", &I::weight), tensor_field<I>("bias", &I::bias),
            value_field<I>("num_features", &I::groups), value_field<I>("eps", &I::eps)},
           [] { return I(1); })
      .def(nb::init<std::int64_t, double, bool>(), "num_features"_a, "eps"_a = 1e-5, "affine"_a = true)
      .def("__call__", [](const I& l, const Tensor& x) { return l(x); }, "x"_a);
  using N = LayerNorm;
  layer<N>(m, "LayerNorm",
           {tensor_field<N>("weight", &N::weight), tensor_field<N>("bias", &N::bias),
            value_field<N>("normalized_shape", &N::normalized_shape), value_field<N>("eps", &N::eps)},
           [] { return N(1); })
      .def(nb::init<Ints, double, bool>(), "normalized_shape"_a, "eps"_a = 1e-5,
           "elementwise_affine"_a = true)
      .def("__call__", [](const N& l, const Tensor& x) { return l(x); }, "x"_a);
  using P = LayerNorm2d;
  layer<P>(m, "LayerNorm2d",
           {tensor_field<P>("weight", &P::weight), tensor_field<P>("bias", &P::bias),
            value_field<P>("normalized_shape", &P::normalized_shape), value_field<P>("eps", &P::eps)},
           [] { return P(1); })
      .def(nb::init<std::int64_t, double, bool>(), "normalized_shape"_a, "eps"_a = 1e-5,
           "elementwise_affine"_a = true)
      .def("__call__", [](const P& l, const Tensor& x) { return l(x); }, "x"_a);
  using R = RMSNorm;
  layer<R>(m, "RMSNorm", {tensor_field<R>("weight", &R::weight), value_field<R>("eps", &R::eps)},
           [] { return R(1); })
      .def(nb::init<std::int64_t, double, bool>(), "dim"_a, "eps"_a = 1e-6, "elementwise_affine"_a = true)
      .def("__call__", [](const R& l, const Tensor& x) { return l(x); }, "x"_a);
}

// ---- sequences

using StatePair = std::pair<Tensor, Tensor>;

template <class L>
std::vector<Field<L>> cell_fields() {
  return {tensor_field<L>("weight_ih", &L::weight_ih), tensor_field<L>("weight_hh", &L::weight_hh),
          tensor_field<L>("bias_ih", &L::bias_ih), tensor_field<L>("bias_hh", &L::bias_hh)};
}
template <class L>
std::vector<Field<L>> sequence_fields() {
  return {layers_field<L>("cells", &L::cells), value_field<L>("batch_first", &L::batch_first),
          value_field<L>("dropout", &L::dropout)};
}

void bind_sequences(nb::module_& m) {
  layer<LSTMCell>(m, "LSTMCell", cell_fields<LSTMCell>(), [] { return LSTMCell(1, 1); })
      .def(nb::init<std::int64_t, std::int64_t, bool>(), "input_size"_a, "hidden_size"_a, "bias"_a = true)
      .def(
          "__call__",
          [](const LSTMCell& l, const Tensor& x, std::optional<StatePair> hc) {
            std::optional<LSTMState> state;
            if (hc) state = LSTMState{hc->first, hc->second};
            LSTMState out = l(x, state);
            return StatePair{out.hidden, out.cell};
          },
          "x"_a, "hc"_a.none() = nb::none());
  layer<GRUCell>(m, "GRUCell", cell_fields<GRUCell>(), [] { return GRUCell(1, 1); })
      .def(nb::init<std::int64_t, std::int64_t, bool>(), "input_size"_a, "hidden_size"_a, "bias"_a = true)
      .def(
          "__call__", [](const GRUCell& l, const Tensor& x, std::optional<Tensor> h) { return l(x, h); },
          "x"_a, "h"_a.none() = nb::none());
  layer<LSTM>(m, "LSTM", sequence_fields<LSTM>(), [] { return LSTM(1, 1); })
      .def(nb::init<std::int64_t, std::int64_t, std::int64_t, bool, double>(), "input_size"_a,
           "hidden_size"_a, "num_layers"_a = 1, "batch_first"_a = false, "dropout"_a = 0.0)
      .def(
          "__call__",
          [](const LSTM& l, const Tensor& x, const std::vector<StatePair>& state) {
            std::vector<LSTMState> before;
            for (const StatePair& s : state) before.push_back({s.first, s.second});
            auto [out, after] = l(x, before);
            std::vector<StatePair> pairs;
            for (const LSTMState& s : after) pairs.emplace_back(s.hidden, s.cell);
            return std::pair(out, pairs);
          },
          "x"_a, "state"_a = nb::list());
  layer<GRU>(m, "GRU", sequence_fields<GRU>(), [] { return GRU(1, 1); })
      .def(nb::init<std::int64_t, std::int64_t, std::int64_t, bool, double>(), "input_size"_a,
           "hidden_size"_a, "num_layers"_a = 1, "batch_first"_a = false, "dropout"_a = 0.0)
      .def(
          "__call__",
          [](const GRU& l, const Tensor& x, const std::vector<Tensor>& state) { return l(x, state); }, "x"_a,
          "state"_a = nb::list());
  using A = MultiHeadAttention;
  layer<A>(m, "MultiHeadAttention",
           {layer_field<A>("query", &A::query), layer_field<A>("key", &A::key),
            layer_field<A>("value", &A::value), layer_field<A>("out", &A::out),
            value_field<A>("heads", &A::heads), value_field<A>("dropout", &A::dropout)},
           [] { return A(1, 1); })
      .def(nb::init<std::int64_t, std::int64_t, bool, double>(), "dim"_a, "heads"_a, "bias"_a = true,
           "dropout"_a = 0.0)
      .def(
          "__call__",
          [](const A& l, const Tensor& x, const Tensor* context, bool causal, const Tensor* mask) {
            return l.attend(x, context == nullptr ? x : *context, causal, mask);
          },
          "x"_a, "context"_a.none() = nb::none(), "causal"_a = false, "mask"_a.none() = nb::none());
  using T = TransformerBlock;
  using O = TransformerOptions;
  layer<T>(m, "TransformerBlock",
           {layer_field<T>("attention", &T::attention), layer_field<T>("norm1", &T::norm1),
            layer_field<T>("norm2", &T::norm2), layer_field<T>("up", &T::up),
            layer_field<T>("down", &T::down), option_field<T>("norm_first", &T::options, &O::norm_first),
            option_field<T>("causal", &T::options, &O::causal),
            option_field<T>("dropout", &T::options, &O::dropout)},
           [] { return T(1, 1, 1); })
      .def(
          "__init__",
          [](T* self, std::int64_t dim, std::int64_t heads, std::int64_t feed_forward, bool norm_first,
             bool causal, double dropout) {
            new (self)
                T(dim, heads, feed_forward, {.norm_first = norm_first, .causal = causal, .dropout = dropout});
          },
          "dim"_a, "heads"_a, "feed_forward"_a, "norm_first"_a = true, "causal"_a = false, "dropout"_a = 0.0)
      .def(
          "__call__", [](const T& l, const Tensor& x, const Tensor* mask) { return l(x, mask); }, "x"_a,
          "mask"_a.none() = nb::none());
}

}  // namespace

void bind_nn(nb::module_& m) {
  set_parameters_ask(false);  // the optimizers do, or backward() finds them
  nb::class_<Module, OwnModule>(m, "Module", nb::dynamic_attr(), doc("nn.Module"))
      .def("__init__", [](Module* self) { new (self) OwnModule(); })
      .def("__getstate__", [](nb::handle self) { return nb::object(self.attr("__dict__")); })
      .def("__setstate__", [](nb::pointer_and_handle<Module> self, const nb::dict& state) {
        self.h.attr("__dict__").attr("update")(state);
        new (self.p) OwnModule();
      });
  m.def("module_parts", [](nb::handle module) {
    nb::dict out;
    if (!nb::inst_ready(module)) return out;  // a class of one's own that did not call super().__init__()
    for (const auto& [name, tensor] : get_state_dict(nb::cast<Module&>(module))) out[name.c_str()] = tensor;
    return out;
  });
  bind_weighted(m);
  bind_norms(m);
  bind_sequences(m);
}

}  // namespace lathe::python
