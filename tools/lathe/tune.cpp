// `lathe tune`: searches better options for the kernels of a net or for one kernel from a file, within a
// budget, and keeps what it finds for every program that runs with LATHE_BEAM=1.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "lathe/dev/search.h"
#include "lathe/dev/terminal.h"
#include "lathe/device.h"
#include "lathe/error.h"
#include "models/benchmarks.h"
#include "tools/lathe/commands.h"

namespace lathe::tool {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string what, budget = "60s", device;
  int beam = 4;
  bool json = false, again = false;
};

// "90", "90s", "5m" or "1h" in seconds.
double seconds_of(const std::string& text) {
  std::istringstream in(text);
  double number = 0;
  std::string unit;
  in >> number;
  const bool read = !in.fail();
  in >> unit;
  const double factor = unit.empty() || unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : 0;
  if (!read || factor == 0 || number <= 0)
    throw UserError("tune", "the budget \"" + text + "\" is not a time")
        .help("write a time such as 60s, 10m or 1h");
  return number * factor;
}

std::string number(double value) { return fmt::format("{:.{}f}", value, value < 100 ? 2 : 1); }

Json json_of(const dev::TunedKernel& k) {
  Json curve = Json::array();
  for (const auto& [seconds, us] : k.curve) curve.push_back({{"seconds", seconds}, {"best_us", us}});
  return {{"name", k.name},
          {"uses", k.uses},
          {"default_us", k.default_us},
          {"best_us", k.best_us},
          {"gain", k.best_us > 0 ? k.default_us / k.best_us : 1},
          {"default_options", k.default_options},
          {"options", k.options},
          {"known", k.known},
          {"seconds", k.seconds},
          {"tried", k.tried},
          {"refused", k.refused},
          {"crashed", k.crashed},
          {"hung", k.hung},
          {"wrong", k.wrong},
          {"repros", k.repros},
          {"why", k.why},
          {"curve", curve}};
}

// Best time against search time: a line each time it fell, as long as the time is.
void print_curve(const dev::TunedKernel& k) {
  constexpr double kWidth = 50;
  double worst = 0;
  for (const auto& [seconds, us] : k.curve) worst = std::max(worst, us);
  fmt::print("\nbest time of {} during the search:\n", dev::bold(k.name));
  for (const auto& [seconds, us] : k.curve)
    fmt::print("{:>8.2f} s {:>10} us  {}\n", seconds, number(us),
               std::string(static_cast<std::size_t>(std::max(1.0, kWidth * us / worst)), '#'));
  if (k.options != k.default_options)
    fmt::print("  default: {}\n  found:   {}\n", k.default_options, k.options);
}

void print_rows(const std::vector<dev::TunedKernel>& rows) {
  constexpr std::size_t kCurves = 3;
  std::vector<std::vector<std::string>> table{
      {"kernel", "uses", "default us", "best us", "gain", "tried", "seconds", ""}};
  double before = 0, after = 0;
  for (const dev::TunedKernel& k : rows) {
    std::string note = !k.why.empty() ? "not searched: " + k.why : k.known ? "known" : "";
    for (const auto& [count, word] : {std::pair{k.crashed, "crashed"}, {k.hung, "hung"}, {k.wrong, "wrong"}})
      if (count > 0) note += fmt::format("{}{} {}", note.empty() ? "" : ", ", count, word);
    table.push_back({k.name, fmt::format("{}", k.uses), number(k.default_us), number(k.best_us),
                     k.best_us > 0 ? fmt::format("{:.2f}x", k.default_us / k.best_us) : "-",
                     fmt::format("{}", k.tried), fmt::format("{:.1f}", k.seconds), note});
    before += k.default_us * static_cast<double>(k.uses);
    after += k.best_us * static_cast<double>(k.uses);
  }
  print_table(table);
  std::size_t shown = 0;
  for (const dev::TunedKernel& k : rows)
    if (k.curve.size() > 1 && shown++ < kCurves) print_curve(k);
  for (const dev::TunedKernel& k : rows)
    for (const std::string& repro : k.repros) fmt::print("failed candidate: {}\n", repro);
  if (after > 0) fmt::print("\nall kernels: {} us by default, {} us now\n", number(before), number(after));
  if (!dev::tuned_folder().empty())
    fmt::print("stored in {}; programs use it with LATHE_BEAM=1\n", dev::tuned_folder());
}

std::vector<Tensor> net_named(const std::string& name) {
  std::vector<std::string> known;
  for (const models::BenchmarkNet& net : models::benchmark_nets()) {
    if (net.name == name) return net.build();
    known.emplace_back(net.name);
  }
  auto error = UserError("tune", name + " is neither a file nor a net");
  if (const auto meant = dev::nearest_word(name, known)) error.help("did you mean " + *meant + "?");
  error.help(fmt::format("nets: {}", fmt::join(known, " ")));
  throw error.help("LATHE_SAVE=<folder> writes a file for each kernel a program runs");
}

int run(const Options& options) {
  dev::TuneLimits limits;
  limits.seconds = seconds_of(options.budget);
  limits.beam = options.beam;
  limits.again = options.again;
  const std::string device = options.device.empty() ? default_device() : options.device;
  const bool is_file = std::filesystem::is_regular_file(options.what);
  if (!is_file) set_default_device(device);
  const std::vector<Tensor> net = is_file ? std::vector<Tensor>() : net_named(options.what);
  std::vector<dev::TunedKernel> rows;
  {
    dev::ProgressBar bar("tuning", static_cast<std::int64_t>(limits.seconds * 10));
    auto watch = [&](double seconds, const std::string& kernel, double best_us) {
      bar.update(static_cast<std::int64_t>(std::min(seconds, limits.seconds) * 10),
                 fmt::format("{} {} us", kernel, number(best_us)));
    };
    if (is_file)
      rows.push_back(dev::tune_kernel_file(options.what, device, limits, watch));
    else
      rows = dev::tune_tensors(net, limits, watch);
  }
  if (!options.json) {
    print_rows(rows);
    return 0;
  }
  Json out = Json::array();
  for (const dev::TunedKernel& row : rows) out.push_back(json_of(row));
  fmt::print("{}\n", out.dump(2));
  return 0;
}

}  // namespace

std::vector<Command> add_tune(CLI::App& app) {
  auto options = std::make_shared<Options>();  // shared: the parser's options and the command both hold it
  CLI::App* command = app.add_subcommand("tune", "search for better kernel options and store them");
  command->add_option("what", options->what, "a net, or a kernel file that LATHE_SAVE wrote")->required();
  std::vector<std::string_view> nets;
  for (const models::BenchmarkNet& net : models::benchmark_nets()) nets.push_back(net.name);
  command->footer(folded(fmt::format("nets: {}", fmt::join(nets, " ")), 6));
  command->add_option("--budget", options->budget, "time limit of the search, such as 60s or 10m");
  command->add_option("--beam", options->beam, "option lists kept in each round")->check(between(1, 1000));
  command->add_option("--device", options->device, "device to tune for");
  command->add_flag("--again", options->again,
                    "also search kernels with stored options, starting from those");
  command->add_flag("--json", options->json, "print an array of objects");
  return {{command, [options] { return run(*options); }}};
}

}  // namespace lathe::tool
