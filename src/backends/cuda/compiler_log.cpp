#include "backends/cuda/compiler_log.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>

namespace lathe::backends {
namespace {

constexpr std::string_view kFaults[] = {"C7508", "C7510", "C7511", "C7517", "C7602"};

template <class Visit>
void for_each_line(std::string_view text, Visit visit) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    visit(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

// The number in front of a word, or else 0: "16 bytes spill stores".
int number_before(std::string_view line, std::string_view words) {
  const std::size_t at = line.find(words);
  if (at == std::string_view::npos) return 0;
  std::size_t begin = at;
  while (begin > 0 && line[begin - 1] == ' ') --begin;
  const std::size_t end = begin;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  return std::atoi(std::string(line.substr(begin, end - begin)).c_str());
}

}  // namespace

std::vector<KernelResources> resources_in(std::string_view log) {
  constexpr std::string_view kEntry = "Compiling entry function '";
  std::vector<KernelResources> out;
  for_each_line(log, [&](std::string_view line) {
    if (const std::size_t at = line.find(kEntry); at != std::string_view::npos) {
      const std::string_view rest = line.substr(at + kEntry.size());
      out.push_back({std::string(rest.substr(0, rest.find('\''))), 0, 0, 0, 0});
    }
    if (out.empty()) return;
    KernelResources& kernel = out.back();
    kernel.stack = std::max(kernel.stack, number_before(line, "bytes stack frame"));
    kernel.spill_stores = std::max(kernel.spill_stores, number_before(line, "bytes spill stores"));
    kernel.spill_loads = std::max(kernel.spill_loads, number_before(line, "bytes spill loads"));
    kernel.registers = std::max(kernel.registers, number_before(line, "registers"));
  });
  return out;
}

std::vector<std::string> faults_in(std::string_view log) {
  std::vector<std::string> out;
  for_each_line(log, [&](std::string_view line) {
    const bool fault = std::any_of(std::begin(kFaults), std::end(kFaults), [&](std::string_view code) {
      return line.find(code) != std::string_view::npos;
    });
    if (fault) out.emplace_back(line);
  });
  return out;
}

}  // namespace lathe::backends
