#include "ir/verify.h"

#include <fmt/format.h>

#include "base/error.h"
#include "ir/text.h"

namespace lathe {
namespace {

constexpr std::size_t kDumpLines = 30;

// The last lines of what is below a node: the node itself and its nearest operands.
std::string dump(Node node) {
  std::string text = print_graph(node);
  std::size_t at = text.size(), lines = 0;
  while (at > 0 && lines <= kDumpLines)
    if (text[--at] == '\n') ++lines;
  return at == 0 ? text : "...\n" + text.substr(at + 1);
}

}  // namespace

void throw_faults(const std::vector<VerifyFault>& faults, const char* form, std::string_view pass,
                  std::string_view rule) {
  if (faults.empty()) return;
  const VerifyFault& first = faults[0];
  std::string by = rule.empty() ? fmt::format("pass {}", pass) : fmt::format("pass {}, rule {}", pass, rule);
  InternalError error("verify", fmt::format("the {} is malformed after {}: {}", form, by, first.text));
  if (first.node) error.note("guilty: " + print_node(first.node)).note("below it:\n" + dump(first.node));
  if (faults.size() > 1) error.note(fmt::format("and {} more faults", faults.size() - 1));
  throw error;
}

void check_tensor(std::span<const Node> roots, std::string_view pass, std::string_view rule) {
  throw_faults(verify_tensor(roots), "tensor graph", pass, rule);
}
void check_kernel(Node kernel, std::string_view pass, std::string_view rule, KernelPhase phase) {
  throw_faults(verify_kernel(kernel, phase), "kernel", pass, rule);
}
void check_program(const Program& program, std::string_view pass, std::string_view rule) {
  throw_faults(verify_program(program), "program", pass, rule);
}
void check_closed(Node kernel, std::string_view pass, std::string_view rule) {
  throw_faults(open_ranges(kernel), "kernel", pass, rule);
}

}  // namespace lathe
