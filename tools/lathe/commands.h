// The sub-commands of `lathe`, one file each. A command adds itself to the parser and runs when it was
// chosen; it returns the exit status. Wrong words and values never get that far: main.cpp refuses them with
// status 2.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

namespace lathe::tool {

using Run = std::function<int()>;

// Each returns what to run when the sub-command it added to `app` was given.
struct Command {
  CLI::App* app;
  Run run;
};
std::vector<Command> add_devices(CLI::App& app);
std::vector<Command> add_demo(CLI::App& app);
std::vector<Command> add_bench(CLI::App& app);
std::vector<Command> add_bench_cpu(CLI::App& bench);  // below `bench`
std::vector<Command> add_bench_cuda(CLI::App& bench);
std::vector<Command> add_bench_check(CLI::App& bench);
std::vector<Command> add_bench_models(CLI::App& bench);
std::vector<Command> add_cache(CLI::App& app);
std::vector<Command> add_tune(CLI::App& app);
std::vector<Command> add_inspect(CLI::App& app);
std::vector<Command> add_quantize(CLI::App& app);  // none where the build has no language models
std::vector<Command> add_run(CLI::App& app);
std::vector<Command> add_chat(CLI::App& app);  // likewise
std::vector<Command> add_serve(CLI::App& app);
std::vector<Command> add_investigate(CLI::App& app);  // none where the build has no SQLite
std::vector<Command> add_mcp(CLI::App& app);          // likewise
std::vector<Command> add_faults(CLI::App& app);
std::vector<Command> add_fuzz(CLI::App& app);
std::vector<Command> add_help(CLI::App& app);

// The words after the first `--` of `lathe investigate`: a command of somebody else's, none of ours.
const std::vector<std::string>& words_after_dashes();

// Rows of cells printed as columns as wide as they need to be; numbers right, text left. The first row is the
// head.
void print_table(const std::vector<std::vector<std::string>>& rows);
// The widest line that fits a terminal of the usual width; longer texts are folded.
inline constexpr std::size_t kColumns = 80;
// Words of a text in lines of at most kColumns, all but the first indented. `begin` is there before it on the
// first line, which goes on at the indent.
std::string folded(const std::string& text, std::size_t indent, const std::string& begin = "");
// Folds what help says of every command and option below.
void fold_help(CLI::App& app);

// An integer from `low` to `high`; the parser's own check words its refusal differently in every version.
CLI::Validator between(long low, long high);
// A finite number above 0, such as seconds or a rate.
CLI::Validator above_zero();
// A file, a folder, or either, that is there.
CLI::Validator existing_file();
CLI::Validator existing_folder();
CLI::Validator existing_path();

}  // namespace lathe::tool
