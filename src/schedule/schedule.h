// Scheduling turns a tensor graph into steps, each a kernel or a copy between devices over buffers, in an
// order that respects every read and write. docs/scheduling.md describes it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ir/node.h"
#include "pipeline/compile.h"
#include "schedule/cost.h"
#include "target/target.h"

namespace lathe {

struct Step {
  NodeRef ast;                   // kernel form: a Sink over Params; null for a copy between devices
  std::vector<NodeRef> buffers;  // Op::Buffer nodes, by param slot; for a copy: {to, from}
  std::int64_t from_offset = 0;  // of a copy: bytes into the source
  std::string device;            // where it runs; for a copy: the destination
  std::string name;              // "r_64_x32": from its ranges; for people
  std::string origin;            // the tensor ops it came from; for people
  std::string options;           // "[UPCAST(0, 4)]" where the user attached some; empty: the heuristic's
  bool is_copy() const { return !ast; }
};

// What was decided: steps in order, and how each requested value can be read once they have run.
struct Schedule {
  std::vector<Step> steps;
  std::vector<NodeRef> results;  // one per target: a buffer, movement ops over one, or a constant
  std::vector<std::pair<NodeRef, std::int64_t>> bindings;  // variables bound in the targets
};

// Who works through a row inside one kernel: reduces over it, then what uses them.
enum class Rows : std::uint8_t {
  Apart,   // nobody: each reduce is a kernel of its own
  Group,   // the threads of a group, each its share in every loop of the row: what a loop computed is there
  Thread,  // one thread, with memory for what several loops need
};
Rows rows_of(const Target& target);
bool has_unit_folds(const Target& target);

struct ScheduleOptions {
  std::string default_device = "CPU";  // for values made of constants alone
  int max_buffers = 0;                 // per kernel, of the device; 0 = no limit
  Rows rows = Rows::Thread;
  bool unit_folds = false;  // of groups: a sum weighted by a softmax is one kernel on a matrix unit
  double rebuilt_bytes = kRebuiltBytes;  // weights of attention smaller than this are stored for gradients
  // Of a device: whether its threads are few and fast (Target::has_fast_threads).
  std::function<bool(const std::string& device)> fast_threads = [](const std::string&) { return true; };
};

// Targets are values, or After(buffer, Store...) nodes whose stores must happen. Newly needed buffers are
// made as fresh Op::Buffer nodes on the value's device. In an invariant compile what a row's bits depend on
// is decided without looking at how many rows there are.
Schedule schedule(std::span<const Node> targets, const ScheduleOptions& options = {},
                  const Compile& compile = {});

// What it does, in order.
std::vector<StepInfo> schedule_steps();

}  // namespace lathe
