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
      fmt::print("== {} ({}): {}; done before\n", step.name, step.part, step.purpose);
      continue;
    }
    fmt::print("== {} ({}{}): {}{}\n", step.name, step.part, step.optional ? ", optional" : "", step.purpose,
               step.changed ? ""
               : step.shown ? "; changes nothing"
                            : "; left out");
    if (step.changed) fmt::print("{}", options.step.empty() ? step.text : step.difference + step.text);
  }
  if (!found)
    throw UserError("inspect", "there is no step named '" + options.step + "'")
        .help("--steps shows them all");
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
               : kernel.saved_source.empty() ? "the file holds no source"
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
      "inspect", "show what a model file holds, or a kernel that LATHE_SAVE wrote, compiled again");
  command
      ->add_option("file", options->file,
                   "a kernel file; or .gguf, .safetensors, a folder of a model, .pt, .npz, .npy")
      ->required()
      ->check(existing_path());
  command->add_option(
      "--options", options->options,
      "file: those it was made with; default: the heuristic's; or a list, such as \"UPCAST(0, 8)\"");
  command->add_option("--device", options->device, "device to compile for");
  command->add_flag("--json", options->json, "what a model file holds, as JSON");
  command->add_flag("--graph", options->graph, "only the kernel's graph");
  command->add_flag("--program", options->program, "only its program");
  command->add_flag("--source", options->source, "only its source");
  command->add_flag("--steps", options->steps, "the steps of its compile, with the graph after each");
  command->add_option("--step", options->step, "one of them, with the nodes it takes away and adds");
  command->add_flag("--check", options->check,
                    "compare the source with the one in the file: status 1 where they differ");
  return {{command, [options] { return run(*options); }}};
}

}  // namespace lathe::tool
