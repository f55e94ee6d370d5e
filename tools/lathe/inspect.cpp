// `lathe inspect`: a kernel file, compiled again with the options in it or with others; or a model file.
#include <fmt/format.h>

#include <memory>

#include "lathe/dev/search.h"
#include "lathe/dev/steps.h"
#include "lathe/device.h"
#include "lathe/error.h"
#include "tools/lathe/commands.h"
#include "tools/lathe/inspect_model.h"

namespace lathe::tool {
namespace {

struct Options {
  std::string file, options = "file", device;
  std::string step;
  bool json = false, graph = false, program = false, source = false, check = false, steps = false;
};

// Every step with what it made of the kernel, or one of them with what it changed.
int show_steps(const Options& options, const std::string& device) {
  bool found = options.step.empty();
  for (const dev::CompileStep& step : dev::inspect_steps(options.file, device, options.options)) {
    if (!options.step.empty() && step.name != options.step) continue;
    found = true;
    const bool before = step.part == "schedule" || step.part == "prove";  // it made what is in the file
    if (before) {
      fmt::print("== {} ({}): {}; done before the file was saved\n", step.name, step.part, step.purpose);
      continue;
    }
    fmt::print("== {} ({}{}): {}{}\n", step.name, step.part, step.optional ? ", optional" : "", step.purpose,
               step.changed ? ""
               : step.shown ? "; no change"
                            : "; disabled");
    if (step.changed) fmt::print("{}", options.step.empty() ? step.text : step.difference + step.text);
  }
  if (!found)
    throw UserError("inspect", "no step is named '" + options.step + "'").help("--steps lists all steps");
  return 0;
}

int run(const Options& options) {
  if (is_tensor_file(options.file)) return inspect_tensor_file(options.file, options.json);
  const std::string device = options.device.empty() ? default_device() : options.device;
  if (options.steps || !options.step.empty()) return show_steps(options, device);
  const dev::InspectedKernel kernel = dev::inspect_kernel_file(options.file, device, options.options);
  if (options.check) {
    const bool same = kernel.source == kernel.saved_source;
    fmt::print("{}: {}\n", kernel.name,
               same                          ? "the same source"
               : kernel.saved_source.empty() ? "the file has no source"
                                             : "the source differs from the saved one");
    return same ? 0 : 1;
  }
  const bool all = !options.graph && !options.program && !options.source;
  if (all)
    fmt::print("{}: {} ({})\n{} instructions, {:.4g} operations, {:.4g} bytes\n", kernel.name,
               kernel.options.empty() ? "no options" : kernel.options, kernel.options_from,
               kernel.instructions, kernel.flops, kernel.bytes);
  if (options.graph) fmt::print("{}", kernel.graph);
  if (options.program) fmt::print("{}", kernel.program);
  if (all || options.source) fmt::print("{}", kernel.source);
  return 0;
}

}  // namespace

std::vector<Command> add_inspect(CLI::App& app) {
  auto options = std::make_shared<Options>();  // shared: the parser's options and the command both hold it
  CLI::App* command = app.add_subcommand(
      "inspect", "show the contents of a model file, or recompile and show a kernel that LATHE_SAVE wrote");
  command
      ->add_option("file", options->file,
                   "a kernel file; or .gguf, .safetensors, .pt, .npz, .npy or a model folder")
      ->required()
      ->check(existing_path());
  command->add_option(
      "--options", options->options,
      "file: the options in the file; default: the heuristic's; or a list, such as \"UPCAST(0, 8)\"");
  command->add_option("--device", options->device, "device to compile for");
  command->add_flag("--json", options->json, "print the contents of a model file as JSON");
  command->add_flag("--graph", options->graph, "print only the kernel's graph");
  command->add_flag("--program", options->program, "print only its program");
  command->add_flag("--source", options->source, "print only its source");
  command->add_flag("--steps", options->steps, "print the compile steps, with the graph after each");
  command->add_option("--step", options->step, "print one step, with the nodes it removes and adds");
  command->add_flag("--check", options->check,
                    "compare the source with the one in the file; exit status 1 if they differ");
  return {{command, [options] { return run(*options); }}};
}

}  // namespace lathe::tool
