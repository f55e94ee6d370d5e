// A saved capture, replayed on made-up arguments by the device and by REF.
#include "dev/saved_capture.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/atomic_file.h"
#include "base/env.h"
#include "base/error.h"
#include "capture/captured.h"
#include "engine/engine.h"
#include "investigate/small_integers.h"
#include "ir/build.h"
#include "ir/walk.h"
#include "reference/array.h"
#include "tensor/impl.h"

namespace lathe::dev {
namespace {

using reference::Array;

// Replays one after the other: each has arguments of its own, and what the one before left in the state.
constexpr int kReplays = 3;
// The device and REF round in another order.
constexpr double kRelative = 2e-3;

Node buffer_of(Node view) {
  for (Node n : toposort(view))
    if (n.is(Op::Buffer)) return n;
  throw UserError("capture", "an argument of the saved capture has no memory");
}

// Everything a program gives: its outputs, replay by replay, and then its state.
std::vector<std::vector<double>> replayed(std::string_view bytes) {
  const Scope scope;
  const capture::Captured program = capture::from_bytes(bytes);
  capture::Bound bound;
  for (const NodeRef& variable : program.variables) bound.emplace_back(variable, variable->hi());
  std::vector<std::vector<double>> out;
  for (int replay = 0; replay < kReplays; ++replay) {
    std::vector<NodeRef> arguments;
    for (std::size_t i = 0; i < program.arguments.size(); ++i) {
      const capture::Argument& argument = program.arguments[i];
      if (argument.same_as != i) {
        arguments.push_back(arguments[argument.same_as]);
        continue;
      }
      const Node like = buffer_of(argument.view);
      arguments.emplace_back(new_buffer(like.dtype(), buffer_size(like), argument.device));
      const Array contents = investigate::small_integers(like, i + 64 * static_cast<std::uint64_t>(replay));
      engine::buffer_write(arguments.back(), contents.data(), contents.byte_count());
    }
    const std::vector<Node> given(arguments.begin(), arguments.end());
    const std::vector<NodeRef> values = capture::replay(program, given, bound);
    for (std::size_t i = 0; i < values.size(); ++i)
      out.push_back(make_tensor(values[i], program.outputs[i].device).tolist());
  }
  for (const NodeRef& state : program.states) {
    Array array(state->dtype(), buffer_size(state));
    engine::buffer_to_host(state, array.data(), array.byte_count());
    out.push_back(array.numbers());
  }
  return out;
}

bool agree(double got, double want, double size) {
  return got == want || (std::isnan(got) && std::isnan(want)) ||
         std::fabs(got - want) <= kRelative * (size + 1);
}

}  // namespace

std::string differs_from_reference(const std::string& capture_file) {
  const std::optional<std::string> bytes = read_file(capture_file);
  if (!bytes) throw UserError("capture", "there is no " + capture_file);
  const std::vector<std::vector<double>> got = replayed(*bytes);
  const FlagScope wide(Flag::Wide, "1");
  const std::vector<std::vector<double>> want = replayed(*bytes);
  for (std::size_t v = 0; v < want.size(); ++v) {
    double size = 0;
    for (const double x : want[v]) size = std::isfinite(x) ? std::max(size, std::fabs(x)) : size;
    if (got[v].size() != want[v].size()) return fmt::format("value {} has another size", v);
    for (std::size_t i = 0; i < want[v].size(); ++i)
      if (!agree(got[v][i], want[v][i], size))
        return fmt::format("element {} of value {} is {}, and {} on REF", i, v, got[v][i], want[v][i]);
  }
  return "";
}

bool is_capture_file(const std::string& path) {
  const std::optional<std::string> bytes = read_file(path);
  return bytes && bytes->starts_with("lathe captured program");
}

int replay_main(const std::string& capture_file) {
  const FlagScope check(Flag::Check, "off");
  std::string wrong;
  try {
    if (const std::string differs = differs_from_reference(capture_file); !differs.empty())
      wrong = "lathe: replay: " + differs;
  } catch (const std::exception& error) {
    wrong = error.what();
  }
  if (!wrong.empty()) fmt::print(stderr, "{}\n", wrong);
  return wrong.empty() ? 0 : 1;
}

}  // namespace lathe::dev
