// `lathe bench cuda`: generated kernels beside PyTorch on one GPU, in one run. Each contender is a child
// process; they take turns. Inputs are random and rotate beyond L2, times are medians of queued runs, results
// are compared with the plain formula in double. Every row that is done is a line of the results file, which
// a later run reads and does not measure again: so a run that was cut short goes on where it stopped.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "lathe/dev/machine.h"
#include "lathe/dev/terminal.h"
#include "lathe/error.h"
#include "tools/lathe/bench_cpu.h"
#include "tools/lathe/commands.h"
#include "tools/lathe/scratch_folder.h"

namespace lathe::tool {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

constexpr double kPrepareSeconds = 180, kRunSeconds = 60;
constexpr const char* kTorchScript = "bench/peers/torch_rows.py";

struct Options {
  bool json = false, list = false;
  std::string section, filter, results, python = "python3", device = "CUDA", save;
  int rounds = 3, seconds = 480, beam_seconds = 0;
  double slice = 0.2;
};

// ---- what is kept of a row

// What the compiler said of the kernels of a row, from the saved sources.
struct CompilerNotes {
  std::vector<std::string> resources, faults;
};
CompilerNotes compiler_notes(const std::string& folder) {
  CompilerNotes notes;
  std::error_code none;
  for (const auto& file : fs::directory_iterator(folder, none)) {
    std::ifstream in(file.path());
    for (std::string line; std::getline(in, line);) {
      if (line.rfind("// ", 0) != 0) continue;
      if (line.find("registers,") != std::string::npos) {
        notes.resources.push_back(line.substr(3));
        if (line.find(" 0 + 0 bytes spilled") == std::string::npos) notes.faults.push_back(line.substr(3));
      } else if (line.find("(C7") != std::string::npos) {
        notes.faults.push_back(line.substr(3));
      }
    }
  }
  return notes;
}

// ---- one row

// What a unit makes of work a second.
double scale_of(const std::string& unit) {
  constexpr std::pair<std::string_view, double> kUnits[] = {
      {"TFLOP/s", 1e-12}, {"TB/s", 1e-12}, {"kernels/us", 1e-6}, {"ktok/s", 1e-3}};
  for (const auto& [name, scale] : kUnits)
    if (unit == name) return scale;
  return 1;  // tok/s, images/s
}

class Runner {
 public:
  explicit Runner(const Options& options)
      : options_(options),
        sources_(options.save.empty() ? scratch_path("kernels") : options.save),
        own_sources_(options.save.empty()) {
    fs::create_directories(sources_);
    start_contenders();
  }
  ~Runner() {
    std::error_code ignored;
    if (own_sources_) fs::remove_all(sources_, ignored);
  }
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  Json roof() {
    if (!roof_.is_object())
      roof_ = contenders_[0]->ask({{"do", "roof"}, {"device", options_.device}}, kPrepareSeconds);
    return roof_;
  }

  Json run(const CpuRow& row, const std::string& section) {
    const auto begin = Clock::now();
    Json out{{"section", section}, {"name", row.name}, {"unit", row.unit}, {"reach", row.reach}};
    if (row.variant == kColdNet) {
      run_cold(row, out);
      return out;
    }
    const ScratchFolder folder("inputs");
    write_inputs(row, folder.path());
    std::set<std::string> before = sources();
    std::vector<ContenderProcess*> ready = prepare(row, folder.path(), out);
    if (ready.empty() || ready[0]->name() != "lathe") {
      out["wrong"] = "Lathe could not run it";
      return out;
    }
    compare(row, ready, folder.path(), out);
    take_turns(row, ready, out);
    const Json kernels = ready[0]->ask({{"do", "kernels"}}, kRunSeconds);
    out["kernels"] = kernels.value("kernels", Json::array());
    note_compiler(before, out);
    judge(row, out);
    out["seconds"] = std::round(since(begin) * 10) / 10;
    return out;
  }

 private:
  using Variables = std::vector<std::pair<std::string, std::string>>;

  std::unique_ptr<ContenderProcess> lathe() const {
    Variables variables{{"LATHE_DEVICE", options_.device}, {"LATHE_SAVE", sources_}, {"LATHE_CACHE", "off"}};
    if (options_.beam_seconds > 0) {
      variables.emplace_back("LATHE_BEAM", "4");
      variables.emplace_back("LATHE_BEAM_SECONDS", std::to_string(options_.beam_seconds));
    }
    const std::vector<std::string> command{fs::read_symlink("/proc/self/exe").string(), "bench", "cpu",
                                           "--contender", "lathe"};
    return std::make_unique<ContenderProcess>("lathe", command, variables);
  }
  std::unique_ptr<ContenderProcess> torch(std::string name, bool compiled) const {
    const Variables variables{{"LATHE_DEVICE", options_.device},
                              {"LATHE_TORCH_COMPILE", compiled ? "1" : "0"}};
    return std::make_unique<ContenderProcess>(
        std::move(name), std::vector<std::string>{options_.python, kTorchScript}, variables);
  }
  void start_contenders() {
    contenders_.push_back(lathe());
    if (!fs::exists(kTorchScript)) return;
    contenders_.push_back(torch("torch", false));
    contenders_.push_back(torch("torch.compile", true));
  }

  // A process of its own for each round, from its start to its first result.
  void run_cold(const CpuRow& row, Json& out) {
    std::vector<double> seconds;
    for (int round = 0; round < options_.rounds; ++round) {
      const auto begin = Clock::now();
      const std::unique_ptr<ContenderProcess> child = lathe();
      const Json answer =
          child->ask({{"do", "prepare"}, {"row", to_json(row)}, {"folder", ""}}, kPrepareSeconds);
      if (!answer.contains("version")) {
        out["wrong"] = answer.value("error", "Lathe could not run it");
        return;
      }
      seconds.push_back(since(begin));
    }
    std::sort(seconds.begin(), seconds.end());
    out["lathe"] = std::round(seconds[seconds.size() / 2] * 1e3) / 1e3;
    out["spread"]["lathe"] = std::round((seconds.back() / seconds.front() - 1) * 1e3) / 1e3;
    out["reached"] = out["lathe"] <= row.reach;
  }

  std::set<std::string> sources() const {
    std::set<std::string> names;
    for (const auto& file : fs::directory_iterator(sources_)) names.insert(file.path().string());
    return names;
  }

  std::vector<ContenderProcess*> prepare(const CpuRow& row, const std::string& folder, Json& out) {
    std::vector<ContenderProcess*> ready;
    for (std::unique_ptr<ContenderProcess>& child : contenders_) {
      if (!child->alive()) continue;
      const auto begin = Clock::now();
      const Json answer = child->ask({{"do", "prepare"}, {"row", to_json(row)}, {"folder", folder}},
                                     kPrepareSeconds + options_.beam_seconds * 4.0);
      if (answer.contains("version"))
        ready.push_back(child.get());
      else if (answer.contains("error"))
        out["notes"].push_back(child->name() + ": " + answer["error"].get<std::string>());
      if (child->name() == "lathe") out["prepare_seconds"] = std::round(since(begin) * 100) / 100;
    }
    return ready;
  }

  // Every contender's values against the plain formula.
  void compare(const CpuRow& row, std::vector<ContenderProcess*>& ready, const std::string& folder,
               Json& out) {
    const std::vector<std::int64_t> places = sample_places(output_elements(row), 256);
    std::vector<double> expected = reference_values(row, folder, places);
    std::vector<ContenderProcess*> right;
    std::map<const ContenderProcess*, Json> answers;
    std::map<const ContenderProcess*, std::vector<double>> values_of;
    for (ContenderProcess* child : ready) {
      answers[child] = child->ask({{"do", "result"}, {"places", places}}, kPrepareSeconds);
      for (const Json& v : answers[child].value("values", Json::array()))  // what is no number comes as null
        values_of[child].push_back(v.is_number() ? v.get<double>() : NAN);
    }
    // Nets are compared with each other: there is no formula.
    if (row.net && ready.size() > 1) expected = values_of[ready[1]];
    if (row.net && ready.size() == 1) {
      out["notes"].push_back("nothing to compare the net with");
      return;
    }
    for (ContenderProcess* child : ready) {
      const Json& answer = answers[child];
      const double off = largest_difference(values_of[child], expected);
      out["error"][child->name()] =
          std::isfinite(off) ? Json(off) : Json(answer.value("error", "not a number"));
      const bool wrong = !(off <= row.tolerance);
      if (wrong && child == ready[0])
        out["wrong"] = fmt::format("off by {:.2g}, {:.0e} is allowed", off, row.tolerance);
      if (!wrong || child == ready[0]) right.push_back(child);
    }
    ready = right;
  }

  void take_turns(const CpuRow& row, const std::vector<ContenderProcess*>& ready, Json& out) {
    std::map<std::string, std::vector<double>> seconds;
    for (int round = 0; round < options_.rounds; ++round)
      for (ContenderProcess* child : ready) {
        if (!child->alive()) continue;
        const Json answer = child->ask({{"do", "queue"}, {"seconds", options_.slice}}, kRunSeconds);
        if (answer.contains("given")) out["host_us"] = std::round(answer.value("given", 0.0) * 1e7) / 10;
        if (answer.contains("median"))
          seconds[child->name()].push_back(answer["median"]);
        else
          out["notes"].push_back(child->name() + ": " + answer.value("error", "no answer"));
      }
    for (auto& [name, turns] : seconds) {
      std::sort(turns.begin(), turns.end());
      const double rate = row.work / turns[turns.size() / 2] * scale_of(row.unit);
      out[name] = std::round(rate * 1e4) / 1e4;
      out["spread"][name] = std::round((turns.back() / turns.front() - 1) * 1e3) / 1e3;
    }
  }

  void note_compiler(const std::set<std::string>& before, Json& out) {
    const ScratchFolder fresh("fresh");
    for (const std::string& file : sources())
      if (!before.contains(file))
        fs::copy_file(file, fresh.path() + "/" + fs::path(file).filename().string(),
                      fs::copy_options::overwrite_existing);
    const CompilerNotes notes = compiler_notes(fresh.path());
    if (!notes.resources.empty()) out["compiler"] = notes.resources;
    if (!notes.faults.empty()) out["faults"] = notes.faults;
  }

  void judge(const CpuRow& row, Json& out) {
    double peer = 0;
    for (const char* name : {"torch", "torch.compile"}) peer = std::max(peer, out.value(name, 0.0));
    const double mine = out.value("lathe", 0.0);
    if (peer > 0) out["ratio"] = std::round(mine / peer * 1e3) / 1e3;
    const double best = roof().value(row.roof == RoofKind::Copy ? "bytes" : "flops", 0.0);
    if (best > 0 && !row.net) out["roof_share"] = std::round(mine / scale_of(row.unit) / best * 1e3) / 1e3;
    out["reached"] = row.reach <= 2 && (row.net || row.unit == "TFLOP/s")
                         ? peer > 0 && mine / peer >= row.reach
                         : mine >= row.reach;
  }

  const Options& options_;
  std::string sources_;
  bool own_sources_;
  std::vector<std::unique_ptr<ContenderProcess>> contenders_;
  Json roof_;
};

// ---- all rows

std::vector<Json> read_results(const std::string& path) {
  std::vector<Json> rows;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (Json row = Json::parse(line, nullptr, false); row.is_object()) rows.push_back(std::move(row));
  return rows;
}

void print_rows(const std::vector<Json>& rows) {
  std::vector<std::vector<std::string>> table{
      {"row", "lathe", "unit", "torch", "compile", "ratio", "of roof", "error", "wanted", ""}};
  auto number = [](const Json& row, const char* key) {
    if (!row.contains(key) || !row[key].is_number()) return std::string("-");
    const double value = row[key];
    return fmt::format("{:.{}f}", value, value < 10 ? 3 : 1);
  };
  for (const Json& row : rows) {
    std::string remark = row.value("reached", false) ? "reached" : "";
    if (row.contains("wrong")) remark = "WRONG: " + row["wrong"].get<std::string>();
    if (row.contains("faults")) remark += fmt::format(" {} compiler faults", row["faults"].size());
    const Json error = row.value("error", Json::object());
    table.push_back({row.value("name", "?"), number(row, "lathe"), row.value("unit", ""),
                     number(row, "torch"), number(row, "torch.compile"), number(row, "ratio"),
                     number(row, "roof_share"),
                     error.contains("lathe") && error["lathe"].is_number()
                         ? fmt::format("{:.1e}", error["lathe"].get<double>())
                         : "-",
                     number(row, "reach"), remark});
  }
  print_table(table);
  for (const Json& row : rows)
    for (const Json& note : row.value("notes", Json::array()))
      fmt::print(stderr, "{}: {}\n", row.value("name", "?"), note.get<std::string>());
}

std::vector<std::pair<CpuRow, std::string>> chosen_rows(const Options& options) {
  std::vector<std::pair<CpuRow, std::string>> rows;
  std::vector<std::string_view> names;
  for (const CudaSection& section : cuda_sections()) names.push_back(section.name);
  if (!options.section.empty() && std::ranges::find(names, options.section) == names.end())
    throw UserError("bench cuda", fmt::format("there is no section '{}'", options.section))
        .help(fmt::format("sections: {}", fmt::join(names, ", ")));
  for (const CudaSection& section : cuda_sections()) {
    if (!options.section.empty() && options.section != section.name) continue;
    for (const CpuRow& row : section.rows)
      if (options.filter.empty() || row.name.find(options.filter) != std::string::npos)
        rows.emplace_back(row, section.name);
  }
  if (rows.empty())
    throw UserError("bench cuda", fmt::format("no row has '{}' in its name", options.filter))
        .help("lathe bench cuda --list shows the rows");
  return rows;
}

void need_device(const std::string& device) {
  for (const dev::DeviceRow& row : dev::devices())
    if (device.rfind(row.name, 0) == 0) {
      if (row.unavailable.empty()) return;
      throw UserError("bench cuda", fmt::format("{} cannot be used: {}", device, row.unavailable))
          .help("run it on a machine with an NVIDIA GPU, or name another device with --device");
    }
  throw UserError("bench cuda", "unknown device " + device);
}

int run_cuda(const Options& options) {
  const std::vector<std::pair<CpuRow, std::string>> rows = chosen_rows(options);
  if (options.list) {
    for (const auto& [row, section] : rows) fmt::print("{} {}\n", section, row.name);
    for (const auto& [name, why] : cuda_missing()) fmt::print("missing {}: {}\n", name, why);
    return 0;
  }
  need_device(options.device);
  std::vector<Json> done = options.results.empty() ? std::vector<Json>() : read_results(options.results);
  std::vector<Json> shown;
  Runner runner(options);
  fmt::print(stderr, "roof: {}\n", runner.roof().dump());
  const auto begin = Clock::now();
  int left = 0;
  for (const auto& [row, section] : rows) {
    const auto known = std::find_if(done.begin(), done.end(),
                                    [&](const Json& old) { return old.value("name", "") == row.name; });
    if (known != done.end()) {
      shown.push_back(*known);
      continue;
    }
    if (since(begin) > options.seconds) {
      ++left;
      continue;
    }
    shown.push_back(runner.run(row, section));
    fmt::print(stderr, "{}\n", shown.back().dump());
    if (!options.results.empty())
      std::ofstream(options.results, std::ios::app) << shown.back().dump() << "\n";
  }
  if (options.json)
    fmt::print("{}\n", Json(shown).dump(2));
  else
    print_rows(shown);
  if (left > 0)
    fmt::print(stderr, "{} rows are left: the time was over; the same command goes on there\n", left);
  for (const auto& [name, why] : cuda_missing())
    if (options.section.empty()) fmt::print(stderr, "missing: {} ({})\n", name, why);
  return std::any_of(shown.begin(), shown.end(),
                     [](const Json& row) { return row.contains("wrong") || row.contains("faults"); })
             ? 1
             : 0;
}

}  // namespace

std::vector<Command> add_bench_cuda(CLI::App& bench) {
  auto options = std::make_shared<Options>();  // shared: the parser's options and the command both hold it
  CLI::App* command = bench.add_subcommand("cuda", "kernels on a GPU, compared with PyTorch");
  command->add_option("--section", options->section,
                      "products, memory, odd, fused, launch, nets or cold (default: all)");
  command->add_option("--filter", options->filter, "only benchmarks whose names contain this text");
  command->add_option("--results", options->results, "file with results so far; new results are appended");
  command->add_option("--save", options->save, "save the sources of all kernels in this folder");
  command->add_option("--seconds", options->seconds, "start no benchmark after this many seconds")
      ->check(between(1, 36000));
  command->add_option("--rounds", options->rounds, "rounds per library")->check(between(1, 100));
  command->add_option("--python", options->python, "a Python with PyTorch");
  command->add_option("--device", options->device, "device to measure");
  command->add_option("--search", options->beam_seconds, "seconds to tune each kernel")
      ->check(between(0, 3600));
  command->add_flag("--list", options->list, "only print the names of the benchmarks");
  command->add_flag("--json", options->json, "print an array of objects");
  return {{command, [options] { return run_cuda(*options); }}};
}

}  // namespace lathe::tool
