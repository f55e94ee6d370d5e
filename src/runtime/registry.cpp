#include "runtime/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "base/env.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/text.h"

namespace lathe {

namespace backends {
// Generated from the folders of src/backends. Weak, because a program may link no backend at all (tests of
// this folder bring their own devices); the engine refers to it strongly, so whoever links the engine has
// them all.
[[gnu::weak]] void register_all(Registry& registry);
}  // namespace backends

namespace {

constexpr int kMaxIndex = 4095;

std::string upper(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return result;
}

Registry& mutable_registry() {
  static Registry* all = [] {
    auto* made = new Registry;  // never destroyed: devices may be named during exit
    if (backends::register_all != nullptr) backends::register_all(*made);
    return made;
  }();
  return *all;
}

std::string known_names() {
  std::string list;
  for (const Backend& backend : registry().all()) list += (list.empty() ? "" : ", ") + backend.name;
  return list.empty() ? "none" : list;
}

UserError unknown_backend(std::string_view text, const std::string& name) {
  UserError error("device", fmt::format("no device \"{}\": this build knows {}", text, known_names()));
  std::vector<std::string_view> names;
  for (const Backend& backend : registry().all()) names.push_back(backend.name);
  if (auto near = nearest_word(name, names)) error.help(fmt::format("did you mean {}?", *near));
  return error;
}

bool all_digits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); });
}

}  // namespace

void Registry::add(Backend backend) {
  check_internal(find(backend.name) == nullptr, "registry", "two backends are named " + backend.name);
  backends_.push_back(std::move(backend));
}

const Backend* Registry::find(std::string_view name) const {
  const std::string wanted = upper(name);
  for (const Backend& backend : backends_)
    if (upper(backend.name) == wanted) return &backend;
  return nullptr;
}

const Registry& registry() { return mutable_registry(); }

void add_backend(Backend backend) { mutable_registry().add(std::move(backend)); }

std::string DeviceName::str() const {
  if (!target.empty()) return backend + ":" + target;
  return index == 0 ? backend : fmt::format("{}:{}", backend, index);
}

// What follows the colon is a number for devices that are counted, a path for those opened by one, and a
// target for those that only compile.
DeviceName parse_device_name(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string name = upper(text.substr(0, colon));
  const Backend* backend = registry().find(name);
  if (backend == nullptr) throw unknown_backend(text, name);

  DeviceName result{backend->name, 0, {}};
  if (colon == std::string_view::npos) return result;
  const std::string_view rest = text.substr(colon + 1);
  if (backend->open_path) {
    result.target = rest;
    return result;
  }
  if (all_digits(rest)) {
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), result.index);
    if (error != std::errc() || result.index > kMaxIndex)
      throw UserError("device", fmt::format("device number {} in \"{}\" is too large: the most is {}", rest,
                                            text, kMaxIndex));
    if (flag_on(Flag::OneDevice)) result.index = 0;
    return result;
  }
  const std::vector<std::string> targets = backend->targets ? backend->targets() : std::vector<std::string>();
  if (std::find(targets.begin(), targets.end(), rest) == targets.end()) {
    UserError error("device",
                    fmt::format("\"{}\" is neither a number nor a target of {}", text, backend->name));
    if (targets.empty()) throw std::move(error).help(fmt::format("write {0} or {0}:1", backend->name));
    throw std::move(error).help(fmt::format("targets of {} are {}", backend->name, fmt::join(targets, ", ")));
  }
  result.target = rest;
  return result;
}

Event Device::launch_all(Queue queue, std::span<const LaunchCall> calls, std::unique_ptr<LaunchList>&,
                         std::span<const Event> after) {
  Event last;
  for (const LaunchCall& call : calls) {
    last = launch(queue, *call.kernel, call.grid, call.args, after);
    run_left(last);
    after = {};  // a queue keeps its own order
  }
  return last;
}

std::vector<Binary> Compiler::compile_all(std::span<const Program> programs, const Counted& told) const {
  std::vector<Binary> result;
  result.reserve(programs.size());
  for (const Program& program : programs) {
    stop_before("compiled", program.name);
    result.push_back(compile(program));
    if (told) told(result.size());
  }
  return result;
}

}  // namespace lathe
