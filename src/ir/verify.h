// Verifies a graph against the definition of its form in docs/ir.md: dtypes, operands, shapes, gates, scopes,
// address spaces. It runs before and after lowering in every build, so that nothing malformed is printed, and
// after every pass in tests and debug builds, so that a malformed graph is reported for the pass and the rule
// that made it, not for a later one. Linear in the number of nodes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/node.h"
#include "ir/program.h"

namespace lathe {

struct VerifyFault {
  Node node;  // the guilty one
  std::string text;
};

// Planned: over the buffers of the graph, before they are numbered as params. Range ids need not be in order.
// Options: while options are applied, and before indices are simplified: ranges over the threads of a group
// may be open, and what is read where it is written may be so at an index that is written differently.
// Ranges: indices have the dtype Index and iteration spaces are ranges, from scheduling to expansion.
// Lowered: on the way to a program; indices may be machine integers and parallel ranges may be launch
// indices.
enum class KernelPhase : std::uint8_t { Planned, Options, Ranges, Lowered };

std::vector<VerifyFault> verify_tensor(std::span<const Node> roots);
std::vector<VerifyFault> verify_kernel(Node kernel, KernelPhase phase = KernelPhase::Ranges);
std::vector<VerifyFault> verify_program(const Program& program);
// That are closed nowhere on the way to the Sink.
std::vector<VerifyFault> open_ranges(Node kernel, KernelPhase phase = KernelPhase::Ranges);

// The same, throwing InternalError for the first fault: it names the pass, the rule (may be empty) and the
// guilty node.
void check_tensor(std::span<const Node> roots, std::string_view pass, std::string_view rule = "");
void check_kernel(Node kernel, std::string_view pass, std::string_view rule = "",
                  KernelPhase phase = KernelPhase::Ranges);
void check_program(const Program& program, std::string_view pass, std::string_view rule = "");
void throw_faults(const std::vector<VerifyFault>& faults, const char* form, std::string_view pass,
                  std::string_view rule);

// Only that every range of a kernel is closed, which takes no walk.
void check_closed(Node kernel, std::string_view pass, std::string_view rule = "");

}  // namespace lathe
