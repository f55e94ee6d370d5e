// Flags, counters, devices, scopes.
#include "bind.h"
#include "lathe/dev/investigate_kernel.h"
#include "lathe/dev/machine.h"
#include "lathe/modes.h"
#include "lathe/unsaid_mode.h"
#include "released.h"

namespace lathe::python {
namespace {

// A scope of the library as an object with enter and leave.
template <class Scope, class... Args>
class Held {
 public:
  explicit Held(Args... args) : args_(std::move(args)...) {}
  void enter() {
    std::apply([this](const auto&... a) { scope_ = std::make_unique<Scope>(a...); }, args_);
  }
  void leave() { scope_.reset(); }

 private:
  std::tuple<Args...> args_;
  std::unique_ptr<Scope> scope_;
};
using HeldFlag = Held<FlagOverride, std::string, std::string>;
using HeldTraining = Held<TrainingScope, bool>;
using HeldNoGrad = Held<NoGradScope>;
using HeldAutocast = Held<AutocastScope, std::optional<DataType>>;

}  // namespace

void bind_context(nb::module_& m) {
  nb::class_<HeldFlag>(m, "FlagScope")
      .def(nb::init<std::string, std::string>())
      .def("enter", &HeldFlag::enter)
      .def("leave", &HeldFlag::leave);
  nb::class_<HeldTraining>(m, "TrainingScope")
      .def(nb::init<bool>())
      .def("enter", &HeldTraining::enter)
      .def("leave", &HeldTraining::leave);
  nb::class_<HeldNoGrad>(m, "NoGradScope")
      .def(nb::init<>())
      .def("enter", &HeldNoGrad::enter)
      .def("leave", &HeldNoGrad::leave);
  nb::class_<HeldAutocast>(m, "AutocastScope")
      .def(nb::init<std::optional<DataType>>(), "dtype"_a.none())
      .def("enter", &HeldAutocast::enter)
      .def("leave", &HeldAutocast::leave);
  m.def("autocast_dtype", &AutocastScope::active);
  m.def("grad_enabled", &grad_enabled);
  m.def("set_grad_enabled", &set_grad_enabled, "on"_a);
  m.def(
      "check_text",
      [](const std::string& text) {
        const dev::TextCheck check = released([&] { return dev::check_text(text); });
        return nb::make_tuple(check.failed, check.outcome + ": " + check.text);
      },
      "text"_a);
  m.def("flags", [] {
    nb::dict out;
    for (const FlagRow& row : flags()) out[row.name.c_str()] = nb::make_tuple(row.value, row.help);
    return out;
  });
  m.def("counters", [] {
    const Counters c = counters();
    nb::dict out;
    out["kernels"] = c.kernels;
    out["copies"] = c.copies;
    out["flops"] = c.flops;
    out["bytes"] = c.bytes;
    out["bytes_copied"] = c.bytes_copied;
    out["schedules"] = c.schedules;
    out["compiles"] = c.compiles;
    out["memory_used"] = c.memory_used;
    out["memory_peak"] = c.memory_peak;
    out["seconds"] = c.seconds;
    return out;
  });
  m.def("reset_counters", &reset_counters);
  m.def("cache_folder", [] { return dev::cache_folder(); });
  m.def("heuristic_rules", [] {
    std::vector<std::string> names;
    for (const auto& [name, reason] : dev::heuristic_rules()) names.push_back(name);
    return names;
  });
  m.def("rules_used", &dev::rules_used, "kernel"_a, "device"_a);
  m.def("training", &Tensor::training);
  m.def("said_mode", [] { return mode_is_said() ? std::optional(Tensor::training()) : std::nullopt; });
  m.def("default_device", &default_device);
  m.def(
      "set_default_device", [](nb::handle device) { set_default_device(device_argument(device)); },
      "device"_a.none());
  m.def("available_devices", [] {
    std::vector<std::string> names;
    for (const dev::DeviceRow& row : dev::devices())
      if (row.unavailable.empty()) names.push_back(row.name);
    return names;
  });
  m.def("canonical_device", [](nb::handle name) { return canonical_device(device_argument(name)); });
  m.def("synchronize", [] { released([] { synchronize(); }); });
}

}  // namespace lathe::python
