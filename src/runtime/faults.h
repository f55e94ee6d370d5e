// Faults: indices found out of bounds, and the memory that depends on them. A launch that checks indices has
// a LaunchFault; the memory it writes, and everything computed from that, refers to it. So each read of such
// memory throws the fault, and reads of other memory do not.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/node.h"
#include "ir/program.h"
#include "lathe/memory.h"
#include "runtime/fault_cell.h"
#include "runtime/ordering.h"

namespace lathe {

struct LaunchFault {
  LaunchFault(OpenDevice& on, std::string_view kernel_name, std::string_view kernel_origin,
              std::span<const ProgramCheck> kernel_checks);

  bool reported() const { return cell.value() != 0; }
  // A skipped store: its target can be read again after the fault was thrown once.
  bool is_store() const;
  [[noreturn]] void raise();  // an IndexError that names the op, the index, the kernel and the line

  FaultCell cell;
  std::vector<ProgramCheck> checks;
  std::string kernel, origin, device;
  WorkPoint until;                  // the launch
  std::vector<PlaceRef> made;       // lines of the tensors that it was for
  std::atomic<bool> clean = false;  // it has ended and reported nothing
  std::atomic<bool> told = false;   // whether it was thrown

 private:
  const ProgramCheck& failed() const;
};
using LaunchFaultRef = std::shared_ptr<LaunchFault>;

// The launches some bytes depend on, oldest first, without those known to be clean; null for none.
using Faults = std::shared_ptr<const std::vector<LaunchFaultRef>>;

// Those of both. Waits for old launches where there would be many.
Faults join(const Faults& a, const Faults& b);
Faults with(const Faults& faults, const LaunchFaultRef& own);

// Throws where one of them reported. Whoever calls has waited for the bytes.
void check_faults(const Faults& faults);

// What a buffer's bytes depend on.
Faults faults_of(Node buffer);
void set_faults(Node buffer, const Faults& faults);
bool any_faults();  // whether a buffer may depend on any at all
// Throws where what a buffer depends on has reported; the caller has waited for its bytes.
void check_faults(Node buffer);

// While on, throwing the fault of a skipped store on this thread does not mark it as thrown. Returns what it
// was before.
bool keep_faults(bool on);

}  // namespace lathe
