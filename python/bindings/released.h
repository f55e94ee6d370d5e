// Work without the interpreter's lock: whatever runs kernels, compiles, reads or writes files, or waits for
// any of these. No thread may wait for Lathe's own locks while it holds the interpreter's, because whoever
// holds them may want that one to call back or to put a line of the program into words.
#pragma once

#include <type_traits>

#include "casters.h"
#include "lathe/dev/interrupt.h"
#include "lathe/memory.h"

namespace lathe::python {

// Raises what a signal handler of the program raised.
inline void check_signals() {
  if (PyErr_CheckSignals() != 0) nb::raise_python_error();
}

// Calls f while other Python threads may run. A Ctrl-C meanwhile ends a compile, and is raised here.
template <class F>
auto released(F&& f) {
  auto run = [&] {
    const nb::gil_scoped_release release;
    const dev::InterruptibleScope interruptible;
    return f();
  };
  try {
    if constexpr (std::is_void_v<decltype(f())>) {
      run();
      check_signals();
    } else {
      auto result = run();
      check_signals();
      return result;
    }
  } catch (const UserError&) {
    check_signals();
    throw;
  }
}

// The same for what makes tensors: they belong to the line that is running now.
template <class F>
auto made_here(F&& f) {
  const MadeAt here(current_place());
  return released(f);
}

// Makes an object in memory that Python holds: `make` constructs a T there and returns it. Python frees that
// memory without a destructor where __init__ raises, so what a signal interrupts after it was made is unmade.
template <class T, class F>
void made_in_place(T* memory, F&& make) {
  T* made = nullptr;
  try {
    made_here([&] { made = make(memory); });
  } catch (...) {
    if (made != nullptr) made->~T();
    throw;
  }
}

}  // namespace lathe::python
