#include "lathe/dev/steps.h"

#include <algorithm>
#include <span>

#include "base/error.h"
#include "codegen/codegen.h"
#include "engine/compile_context.h"
#include "engine/steps.h"
#include "ir/text.h"
#include "ir/walk.h"
#include "runtime/devices.h"
#include "search/kernel_text.h"

namespace lathe::dev {
namespace {

// The nodes only one of two graphs has, one per line with its operands named by what they are.
std::string difference(std::span<const Node> before, std::span<const Node> after) {
  NodeMap<char> old, now;
  const std::vector<Node> first = toposort(before), second = toposort(after);
  for (Node n : first) old.try_emplace(n, 1);
  for (Node n : second) now.try_emplace(n, 1);
  std::string text;
  for (Node n : first)
    if (!now.contains(n)) text += "- " + print_node(n) + "\n";
  for (Node n : second)
    if (!old.contains(n)) text += "+ " + print_node(n) + "\n";
  return text;
}

class Recorder : public StepSink {
 public:
  Recorder(std::vector<CompileStep>& steps, Node kernel) : steps_(steps), last_{kernel} {}

  void kernel(const StepInfo& step, Node& kernel) override { record(step, {kernel}, print_graph(kernel)); }
  void program(const StepInfo& step, Program& program) override {
    record(step, {program.code.begin(), program.code.end()}, print_program(program));
  }

 private:
  void record(const StepInfo& step, std::vector<Node> roots, std::string text) {
    auto row =
        std::find_if(steps_.begin(), steps_.end(), [&](const CompileStep& s) { return s.name == step.name; });
    check_internal(row != steps_.end(), "inspect", "a step that is not in the list");
    row->shown = true;
    row->changed = roots != last_;
    row->text = std::move(text);
    row->difference = difference(last_, roots);
    last_ = std::move(roots);
  }

  std::vector<CompileStep>& steps_;
  std::vector<Node> last_;
};

}  // namespace

std::vector<CompileStep> inspect_steps(const std::string& path, const std::string& device,
                                       const std::string& options) {
  const Scope scope;
  const search::KernelText file = search::read_kernel_file(path);
  const OpenDevice& opened = open_device(device);
  if (opened.compiler == nullptr) throw UserError("inspect", opened.text + " compiles nothing");
  std::vector<CompileStep> steps;
  for (const engine::ListedStep& row : engine::all_steps())
    steps.push_back({row.part, row.step.name, row.step.purpose, row.step.optional, false, false, "", ""});
  Recorder recorder(steps, file.kernel);
  Compile compile = engine::compile_for(opened.compiler->target());
  compile.sink = &recorder;
  const std::vector<Opt> chosen = options == "file"      ? file.options
                                  : options == "default" ? choose_options(file.kernel, compile)
                                                         : parse_opts(options);
  lower_kernel(file.kernel, chosen, compile, file.name);
  return steps;
}

}  // namespace lathe::dev
