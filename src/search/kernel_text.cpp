#include "search/kernel_text.h"

#include <fmt/format.h>

#include <sstream>

#include "base/atomic_file.h"
#include "base/error.h"
#include "ir/text.h"

namespace lathe::search {

KernelText read_kernel_file(const std::string& path) {
  const std::optional<std::string> text = read_file(path);
  if (!text)
    throw UserError("kernel file", "there is no " + path)
        .help("LATHE_SAVE=<folder> writes one for each kernel");
  return read_kernel_text(*text, path);
}

KernelText read_kernel_text(const std::string& text, const std::string& name) {
  constexpr std::string_view kSource = "\n# source\n", kOptions = "# options (";
  const std::size_t source = text.find(kSource);
  const std::string head = text.substr(0, source);
  KernelText out;
  bool options_found = false;
  std::istringstream lines(head);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(kOptions, 0) == 0) {
      const std::size_t end = line.find("): ");
      if (end == std::string::npos) break;
      out.options_from = line.substr(kOptions.size(), end - kOptions.size());
      out.options = parse_opts(line.substr(end + 3));
      options_found = true;
    } else if (line.rfind("# ", 0) == 0 && out.name.empty()) {
      out.name = line.substr(2);
    }
  }
  if (out.name.empty() || !options_found)
    throw UserError("kernel file", name + " does not begin with a kernel's name and options")
        .help("LATHE_SAVE=<folder> writes such files");
  out.kernel = parse_graph(head);
  if (out.kernel->op() != Op::Sink)
    throw UserError("kernel file", name + " has no kernel: its last line is not a sink");
  // The file ends with one line feed more than the source.
  if (source != std::string::npos) out.source = text.substr(source + kSource.size());
  if (!out.source.empty()) out.source.pop_back();
  return out;
}

}  // namespace lathe::search
