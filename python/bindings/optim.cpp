// Optimizers and learning-rate schedulers.
#include <nanobind/stl/function.h>
#include <nanobind/stl/shared_ptr.h>

#include <unordered_set>

#include "bind.h"
#include "released.h"

namespace lathe::python {
namespace {

using namespace lathe::nn::optim;
namespace schedulers = lathe::nn::schedulers;

// Every tensor once; those that never said whether they want a gradient want one now.
std::vector<Tensor> wanted(const std::vector<Tensor>& given) {
  std::vector<Tensor> out;
  std::unordered_set<const void*> seen;
  for (Tensor t : given) {
    if (!seen.insert(t.impl().get()).second) continue;
    if (!t.grad_wish() && t.is_floating_point()) t.requires_grad_();
    out.push_back(t);
  }
  return out;
}

// A number of the state with one axis, as tinygrad's are: a view, so that what is assigned to it is seen.
Tensor state_number(Optimizer& o, const char* name) {
  nn::StateDict state = nn::get_state_dict(o);
  return nn::find(state, name)->reshape({1});
}
Tensor rate_tensor(Optimizer& o) { return state_number(o, "lr"); }
// 1 less the sum of the weights: beta^t.
Tensor left_weight(Optimizer& o, const char* name) { return 1.0 - state_number(o, name); }

std::vector<Tensor> state_list(Optimizer& o, const std::string& name) {
  std::vector<Tensor> out;
  for (const auto& [full, tensor] : nn::get_state_dict(o))
    if (full.starts_with(name + ".")) out.push_back(tensor);
  return out;
}

using Parameters = const std::vector<Tensor>&;

// One tensor, or whatever can be iterated over.
std::vector<Tensor> parameters_of(nb::handle given) {
  if (nb::isinstance<PyTensor>(given)) return {*nb::inst_ptr<PyTensor>(given)};
  return tensors_argument(nb::borrow<nb::args>(nb::tuple(given)));
}

// tinygrad's `device` and `fused` say where and how the state is kept, which Lathe decides itself.
struct Hints {
  explicit Hints(const nb::kwargs& given) {
    for (auto [key, value] : given) {
      const auto name = nb::cast<std::string>(key);
      if (name != "device" && name != "fused")
        throw nb::type_error(("an optimizer got an unexpected keyword argument '" + name + "'").c_str());
    }
  }
};

// One with momentum.
template <class O>
nb::class_<O, Optimizer> optimizer(nb::module_& m, const char* name) {
  nb::class_<O, Optimizer> made(m, name, doc(std::string("nn.optim.") + name));
  made.def_prop_ro("b", [](O& o) { return state_list(o, "momentum"); }, doc("nn.optim.SGD.b"));
  return made;
}

void bind_kinds(nb::module_& m) {
  optimizer<SGD>(m, "SGD").def(
      "__init__",
      [](SGD* self, Parameters params, double lr, double momentum, double decay, bool nesterov, bool classic,
         double dampening, nb::kwargs hints) {
        const Hints checked(hints);
        made_in_place(self, [&](SGD* at) {
          return new (at) SGD(wanted(params), lr, {momentum, decay, nesterov, classic, dampening});
        });
      },
      "params"_a, "lr"_a = 0.001, "momentum"_a = 0.0, "weight_decay"_a = 0.0, "nesterov"_a = false,
      "classic"_a = false, "dampening"_a = 0.0, "hints"_a);
  optimizer<LARS>(m, "LARS").def(
      "__init__",
      [](LARS* self, Parameters params, double lr, double momentum, double decay, bool nesterov, bool classic,
         double tcoef, nb::kwargs hints) {
        const Hints checked(hints);
        made_in_place(self, [&](LARS* at) {
          return new (at) LARS(wanted(params), lr, {momentum, decay, nesterov, tcoef, classic});
        });
      },
      "params"_a, "lr"_a = 0.001, "momentum"_a = 0.9, "weight_decay"_a = 1e-4, "nesterov"_a = false,
      "classic"_a = true, "tcoef"_a = 0.001, "hints"_a);
  nb::class_<AdamW, Optimizer>(m, "AdamW", doc("nn.optim.AdamW"))
      .def_prop_ro(
          "m", [](AdamW& o) { return state_list(o, "m"); }, doc("nn.optim.AdamW.m"))
      .def_prop_ro(
          "v", [](AdamW& o) { return state_list(o, "v"); }, doc("nn.optim.AdamW.v"))
      .def_prop_ro(
          "b1_t", [](AdamW& o) { return left_weight(o, "weight_sum1"); }, doc("nn.optim.AdamW.b1_t"))
      .def_prop_ro(
          "b2_t", [](AdamW& o) { return left_weight(o, "weight_sum2"); }, doc("nn.optim.AdamW.b2_t"))
      .def(
          "__init__",
          [](AdamW* self, Parameters params, double lr, double b1, double b2, double eps, double decay,
             nb::kwargs hints) {
            const Hints checked(hints);
            made_in_place(
                self, [&](AdamW* at) { return new (at) AdamW(wanted(params), lr, {b1, b2, eps, decay}); });
          },
          "params"_a, "lr"_a = 0.001, "b1"_a = 0.9, "b2"_a = 0.999, "eps"_a = 1e-8, "weight_decay"_a = 0.01,
          "hints"_a);
  nb::class_<Adam, AdamW>(m, "Adam", doc("nn.optim.Adam"))
      .def(
          "__init__",
          [](Adam* self, Parameters params, double lr, double b1, double b2, double eps, double decay,
             nb::kwargs hints) {
            const Hints checked(hints);
            made_in_place(self,
                          [&](Adam* at) { return new (at) Adam(wanted(params), lr, {b1, b2, eps, decay}); });
          },
          "params"_a, "lr"_a = 0.001, "b1"_a = 0.9, "b2"_a = 0.999, "eps"_a = 1e-8, "weight_decay"_a = 0.0,
          "hints"_a);
  nb::class_<LAMB, AdamW>(m, "LAMB", doc("nn.optim.LAMB"))
      .def(
          "__init__",
          [](LAMB* self, Parameters params, double lr, double b1, double b2, double eps, double decay,
             nb::kwargs hints) {
            const Hints checked(hints);
            made_in_place(self,
                          [&](LAMB* at) { return new (at) LAMB(wanted(params), lr, {b1, b2, eps, decay}); });
          },
          "params"_a, "lr"_a = 0.001, "b1"_a = 0.9, "b2"_a = 0.999, "eps"_a = 1e-6, "weight_decay"_a = 0.0,
          "hints"_a);
  optimizer<Muon>(m, "Muon").def(
      "__init__",
      [](Muon* self, Parameters params, double lr, double momentum, double decay, std::int64_t steps,
         std::vector<double> coefficients, bool nesterov, nb::kwargs hints) {
        const Hints checked(hints);
        made_in_place(self, [&](Muon* at) {
          return new (at)
              Muon(wanted(params), lr, {momentum, decay, nesterov, steps, std::move(coefficients)});
        });
      },
      "params"_a, "lr"_a = 0.001, "momentum"_a = 0.95, "weight_decay"_a = 0.1, "ns_steps"_a = 5,
      "ns_coefficients"_a = nb::make_tuple(3.4445, -4.775, 2.0315), "nesterov"_a = true, "hints"_a);
}

void bind_schedulers(nb::module_& m) {
  using Unlocked = nb::call_guard<nb::gil_scoped_release>;  // making one sets the rate
  using namespace schedulers;
  nb::class_<Scheduler>(m, "Scheduler", nb::dynamic_attr(), doc("nn.schedulers.Scheduler"))
      .def("step", [](Scheduler& s) { released([&] { s.step(); }); })
      .def("at", &Scheduler::at, "step"_a)
      .def("get_lr", [](const Scheduler& s) { return s.at(s.steps()); })
      .def_prop_ro("steps", &Scheduler::steps)
      .def_prop_ro("base", &Scheduler::base);
  nb::class_<MultiStep, Scheduler>(m, "MultiStep", doc("nn.schedulers.MultiStep"))
      .def(nb::init<Optimizer&, std::vector<std::int64_t>, double>(), "optimizer"_a, "milestones"_a,
           "gamma"_a = 0.1, nb::keep_alive<1, 2>(), Unlocked());
  nb::class_<CosineAnnealing, Scheduler>(m, "CosineAnnealing", doc("nn.schedulers.CosineAnnealing"))
      .def(nb::init<Optimizer&, std::int64_t, double, std::int64_t>(), "optimizer"_a, "T_max"_a,
           "eta_min"_a = 0.0, "warmup"_a = 0, nb::keep_alive<1, 2>(), Unlocked());
  nb::class_<OneCycle, Scheduler>(m, "OneCycle", doc("nn.schedulers.OneCycle"))
      .def(
          "__init__",
          [](OneCycle* self, Optimizer& o, double max_lr, std::int64_t total, double div, double final_div,
             double pct, const std::string& anneal) {
            if (anneal != "cos" && anneal != "linear")
              throw UserError("OneCycle", "'" + anneal + "' is no way to anneal").help("cos or linear");
            made_in_place(self, [&](OneCycle* at) {
              return new (at) OneCycle(o, max_lr, total, {pct, div, final_div, anneal == "cos"});
            });
          },
          "optimizer"_a, "max_lr"_a, "total_steps"_a, "div_factor"_a = 25.0, "final_div_factor"_a = 1e4,
          "pct_start"_a = 0.3, "anneal_strategy"_a = "cos", nb::keep_alive<1, 2>());
  nb::class_<Polynomial, Scheduler>(m, "Polynomial", doc("nn.schedulers.Polynomial"))
      .def(nb::init<Optimizer&, std::int64_t, double, double, std::int64_t>(), "optimizer"_a, "total_steps"_a,
           "end_lr"_a = 0.0, "power"_a = 1.0, "warmup"_a = 0, nb::keep_alive<1, 2>(), Unlocked());
  nb::class_<Lambda, Scheduler>(m, "Lambda", doc("nn.schedulers.Lambda"))
      .def(nb::init<Optimizer&, std::function<double(std::int64_t)>>(), "optimizer"_a, "factor"_a,
           nb::keep_alive<1, 2>(), Unlocked());
  nb::class_<ReduceOnPlateau>(m, "ReduceOnPlateau", doc("nn.schedulers.ReduceOnPlateau"))
      .def(
          "__init__",
          [](ReduceOnPlateau* self, Optimizer& o, const std::string& mode, double factor,
             std::int64_t patience, double threshold) {
            if (mode != "min" && mode != "max")
              throw UserError("ReduceOnPlateau", "'" + mode + "' is not a mode").help("min or max");
            made_in_place(self, [&](ReduceOnPlateau* at) {
              return new (at) ReduceOnPlateau(o, {mode == "min", factor, patience, threshold});
            });
          },
          "optimizer"_a, "mode"_a = "min", "factor"_a = 0.1, "patience"_a = 10, "threshold"_a = 1e-4,
          nb::keep_alive<1, 2>())
      .def(
          "step",
          [](ReduceOnPlateau& s, nb::handle measurement) {
            const nb::object plain =
                nb::isinstance<PyTensor>(measurement) ? measurement.attr("item")() : nb::borrow(measurement);
            const double value = nb::cast<double>(plain);
            released([&] { s.step(value); });
          },
          "current"_a);
}

// An optimizer written in Python: its _step(params, grads) gives what is taken from each parameter, and a
// list of state that it assigned to.
class OwnOptimizer : public Optimizer {
 public:
  OwnOptimizer(std::vector<Tensor> parameters, double lr) : Optimizer(std::move(parameters), lr) { finish(); }
  const std::vector<Tensor>& also_changed() const { return also_changed_; }

 protected:
  bool counts_steps() const override { return true; }
  void begin_step() override {
    const nb::gil_scoped_acquire acquire;
    const nb::object self = nb::find(static_cast<Optimizer*>(this));
    if (!nb::hasattr(self, "_step"))
      throw UserError("optimizer", "an optimizer of one's own needs a method _step(params, grads)")
          .help("it returns what to take from each parameter, and a list of the state it assigned to");
    nb::list grads;  // None for those that stay as they are
    for (std::size_t i = 0; i < parameters().size(); ++i)
      grads.append(parameters()[i].grad() ? nb::cast(descent(i)) : nb::none());
    const nb::object result = self.attr("_step")(parameters(), grads);
    if (!nb::isinstance<nb::tuple>(result) || nb::len(result) != 2)
      throw TypeError("optimizer", "_step returns two lists: updates and state");
    updates_.clear();
    for (nb::handle update : nb::borrow<nb::sequence>(result[0]))
      updates_.push_back(update.is_none() ? Tensor() : nb::cast<Tensor>(update));
    also_changed_ = nb::cast<std::vector<Tensor>>(result[1]);
    if (updates_.size() != parameters().size())
      throw UserError("optimizer", "_step gave " + std::to_string(updates_.size()) + " updates for " +
                                       std::to_string(parameters().size()) + " parameters");
  }
  Tensor updated(std::size_t i, const Tensor& value, const Tensor&) override { return value - updates_[i]; }

 private:
  std::vector<Tensor> updates_, also_changed_;
};

void step_released(auto& o) {
  released([&] {
    std::vector<Tensor> changed = o.schedule_step();
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(o)>, Optimizer>)
      if (const auto* own = dynamic_cast<const OwnOptimizer*>(&o))
        changed.insert(changed.end(), own->also_changed().begin(), own->also_changed().end());
    Tensor::realize_all(changed);
  });
}

}  // namespace

void bind_optim(nb::module_& m) {
  nb::class_<Optimizer, nn::Module, OwnOptimizer>(m, "Optimizer", nb::dynamic_attr(),
                                                  doc("nn.optim.Optimizer"))
      .def(
          "__init__",
          [](Optimizer* self, Parameters params, double lr, nb::kwargs hints) {
            const Hints checked(hints);
            const std::vector<Tensor> all = wanted(params);
            made_in_place(self, [&](Optimizer* at) -> Optimizer* { return new (at) OwnOptimizer(all, lr); });
          },
          "params"_a, "lr"_a, "hints"_a)
      .def(
          "step", [](Optimizer& o) { step_released(o); }, doc("nn.optim.Optimizer.step"))
      .def("schedule_step", &Optimizer::schedule_step, doc("nn.optim.Optimizer.schedule_step"))
      .def("zero_grad", &Optimizer::zero_grad, doc("nn.optim.Optimizer.zero_grad"))
      .def_prop_ro("params", &Optimizer::parameters, doc("nn.optim.Optimizer.params"))
      .def_prop_ro(
          "device", [](Optimizer& o) { return o.parameters()[0].device(); }, doc("nn.optim.Optimizer.device"))
      .def_prop_rw("maximize", &Optimizer::maximize, &Optimizer::set_maximize,
                   doc("nn.optim.Optimizer.maximize"))
      .def_prop_rw(
          "lr", rate_tensor,
          [](Optimizer& o, nb::handle lr) {
            const nb::object plain = nb::isinstance<PyTensor>(lr) ? lr.attr("item")() : nb::borrow(lr);
            const double value = nb::cast<double>(plain);
            released([&] { o.set_learning_rate(value); });
          },
          doc("nn.optim.Optimizer.lr"));
  bind_kinds(m);
  nb::class_<OptimizerGroup, nn::Module>(m, "OptimizerGroup", nb::dynamic_attr(),
                                         doc("nn.optim.OptimizerGroup"))
      .def("__init__",
           [](OptimizerGroup* self, nb::args optimizers) {
             std::vector<std::shared_ptr<Optimizer>> all;
             for (nb::handle h : flat_arguments(optimizers))
               all.push_back(nb::cast<std::shared_ptr<Optimizer>>(h));
             new (self) OptimizerGroup(std::move(all));
           })
      .def("step", [](OptimizerGroup& o) { step_released(o); })
      .def("schedule_step", &OptimizerGroup::schedule_step)
      .def("zero_grad", &OptimizerGroup::zero_grad)
      .def("__len__", &OptimizerGroup::size)
      .def(
          "__getitem__",
          [](OptimizerGroup& o, std::size_t i) -> Optimizer& {
            if (i >= o.size()) throw nb::index_error();
            return o[i];
          },
          nb::rv_policy::reference_internal)
      .def_prop_ro("params", [](OptimizerGroup& o) {
        std::vector<Tensor> all;
        for (std::size_t i = 0; i < o.size(); ++i)
          all.insert(all.end(), o[i].parameters().begin(), o[i].parameters().end());
        return all;
      });
  m.def(
      "clip_grad_norm_",
      [](nb::handle parameters, double max_norm, double norm_type) {
        return clip_grad_norm(parameters_of(parameters), max_norm, norm_type);
      },
      "parameters"_a, "max_norm"_a, "norm_type"_a = 2.0, doc("nn.optim.clip_grad_norm_"));
  m.def(
      "clip_grad_value_",
      [](nb::handle parameters, double limit) { clip_grad_value(parameters_of(parameters), limit); },
      "parameters"_a, "clip_value"_a, doc("nn.optim.clip_grad_value_"));
  bind_schedulers(m);
}

}  // namespace lathe::python
