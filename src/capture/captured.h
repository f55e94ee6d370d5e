// A captured program as a value: prepared schedules in order, and the source of each of their buffers in a
// call. It holds only the memory of its state: arguments come with the call, and results are new every time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/prepared_schedule.h"
#include "ir/node.h"

namespace lathe::capture {

// Where a buffer comes from in one call.
struct Source {
  enum class Kind : std::uint8_t { Argument, State, Result, Fresh } kind = Kind::State;
  std::uint32_t index = 0;   // of the arguments, of the states, of the computations, of the fresh buffers
  std::uint32_t target = 0;  // of a Result: which of the computation's results
  bool operator==(const Source&) const = default;
};

// What an argument must be: the view of its buffer, with variables free.
struct Argument {
  NodeRef view;  // over a stand-in
  std::string device;
  std::uint32_t same_as = 0;  // the first argument with the same buffer: itself, where it is alone
  bool weak = false;          // a number, whose dtype gives way to others
};

struct Computation {
  std::shared_ptr<const engine::PreparedSchedule> prepared;
  std::vector<Source> slots;
  std::vector<std::pair<NodeRef, std::int64_t>>
      bindings;  // of the last trace: for variables no argument binds
};

// What is returned: a view over a stand-in for its buffer (none for a constant).
struct Output {
  NodeRef value, stand_in;
  Source source;
  std::string device;
};

struct Captured {
  std::vector<Argument> arguments;
  std::vector<NodeRef> variables;  // those the arguments bind, by name
  std::vector<NodeRef> states;     // buffers
  std::vector<NodeRef> fresh;      // stand-ins for buffers that each call makes and then writes to
  std::vector<Computation> computations;
  std::vector<Output> outputs;

  std::vector<Source> written() const;  // arguments and states it writes to, each once or more
  std::vector<NodeRef> written_states() const;
};

using Bound = std::vector<std::pair<NodeRef, std::int64_t>>;  // variables and their values in a call

// The same program with one computation, where it can be.
Captured joined(Captured program);

// Runs it over these argument buffers. Returns the values of the outputs.
std::vector<NodeRef> replay(const Captured& program, std::span<const Node> arguments, const Bound& bound);

// The program as bytes, with the contents of its state, and back. Throws UserError for bytes that are none.
std::string to_bytes(const Captured& program);
Captured from_bytes(std::string_view bytes);

}  // namespace lathe::capture
