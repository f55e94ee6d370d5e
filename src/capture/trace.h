// The trace of one run of a function, and the comparison of two traces.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "capture/captured.h"
#include "lathe/tensor.h"
#include "tensor/impl.h"

namespace lathe::capture {

// The arguments of a call, in memory: handles for the function, their buffers, and the variables bound for
// it.
struct CallArguments {
  std::vector<Tensor> tensors;
  std::vector<NodeRef> buffers;
  std::vector<bool> copied;  // the handle was a view or no memory: the function gets a copy
  std::vector<Argument> kinds;
  Bound bound;
};
// Tensors are aliases where they have one storage. Two that are equal by chance may share memory: an argument
// gets memory of its own where another argument has the same, and, if it is to be `alone`, where any tensor
// has.
CallArguments call_arguments(
    const std::vector<Tensor>& inputs, const std::vector<Size>& bound,
    const std::function<bool(std::size_t argument)>& alone = [](std::size_t) { return true; });

// Whether a trace is being made on this thread: captures inside it run as part of it.
bool tracing();

struct Trace {
  Captured program;
  std::vector<std::vector<NodeRef>> targets;  // of each computation, over stand-ins
  std::vector<Tensor> outputs;
  OutsideReads outside;
  std::vector<bool> literal;  // for each state: made by the function from host data, and not written to
  std::string problem;        // why this one cannot be replayed, where it cannot
};
// Where it may not read data, doing so is a JitError; where it may, a trace that did is no capture.
Trace trace(const CallArguments& arguments, const std::function<std::vector<Tensor>()>& function,
            bool may_read);

// Why two traces are not one program; nothing where they are. Throws JitError for a constant that moved: no
// later trace will mend that.
std::optional<std::string> difference(const Trace& before, const Trace& now);

}  // namespace lathe::capture
