// `lathe bench ir`, `lathe bench compile` and `lathe bench start`.
#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "lathe/dev/compile_bench.h"
#include "lathe/dev/ir_bench.h"
#include "lathe/dev/terminal.h"
#include "lathe/error.h"
#include "models/benchmarks.h"
#include "tools/lathe/commands.h"

namespace lathe::tool {
namespace {

using Json = nlohmann::ordered_json;

double rounded(double value) { return std::round(value * 1000) / 1000; }

// ---- ir

struct IrOptions {
  bool json = false, growth = false;
  std::uint64_t nodes = 200'000;
  int rounds = 5;
};

int print_growth(const IrOptions& options) {
  const std::vector<dev::GrowthRow> rows = dev::bench_ir_growth(1000, 1'000'000, options.rounds);
  if (options.json) {
    Json out = Json::array();
    for (const dev::GrowthRow& r : rows)
      out.push_back({{"name", r.name}, {"nodes", r.size}, {"ns", rounded(r.ns)}});
    fmt::print("{}\n", out.dump(2));
    return 0;
  }
  std::vector<std::vector<std::string>> table{{"operation", "nodes", "ns/node"}};
  for (const dev::GrowthRow& r : rows)
    table.push_back({r.name, fmt::format("{}", r.size), fmt::format("{:.1f}", r.ns)});
  print_table(table);
  return 0;
}

int run_ir(const IrOptions& options) {
  if (options.growth) return print_growth(options);
  const std::vector<dev::IrBenchRow> rows = dev::bench_ir({options.nodes, options.rounds});
  if (options.json) {
    Json out = Json::array();
    for (const dev::IrBenchRow& r : rows)
      out.push_back({{"name", r.name},
                     {"unit", r.unit},
                     {"count", r.count},
                     {"ns", rounded(r.ns)},
                     {"millions_per_second", rounded(r.millions_per_second())},
                     {"target", r.target}});
    fmt::print("{}\n", out.dump(2));
    return 0;
  }
  std::vector<std::vector<std::string>> table{{"operation", "ns", "M/s", "target", "of"}};
  for (const dev::IrBenchRow& r : rows)
    table.push_back({r.name, fmt::format("{:.1f}", r.ns), fmt::format("{:.2f}", r.millions_per_second()),
                     r.target > 0 ? fmt::format("{}", r.target) : "-", "a " + r.unit + ": " + r.meaning});
  print_table(table);
  return 0;
}

// ---- compile

struct CompileOptions {
  bool json = false, growth = false, passes = false, kernels = false, no_machine_code = false;
  std::vector<std::string> names;
  std::string peer, device = "CPU";
  int rounds = 1;
};

Json json_of(const dev::CompileReport& r) {
  Json out{{"name", r.name},
           {"kernels", r.kernels},
           {"unique_kernels", r.unique_kernels},
           {"nodes", r.nodes},
           {"instructions", r.instructions},
           {"tensor_ms", rounded(r.tensor_ms)},
           {"schedule_ms", rounded(r.schedule_ms)},
           {"codegen_ms", rounded(r.codegen_ms)},
           {"linearize_ms", rounded(r.linearize_ms)},
           {"compile_ms", rounded(r.compile_ms)},
           {"total_ms", rounded(r.total_ms())}};
  Json passes = Json::object();
  for (const auto& [name, ms] : r.passes) passes[name] = rounded(ms);
  out["passes"] = passes;
  return out;
}

// What a command prints, as JSON. Throws UserError where it fails.
Json output_of(const std::string& command) {
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string text;
  std::array<char, 4096> part{};
  while (pipe && std::fgets(part.data(), part.size(), pipe.get()) != nullptr) text += part.data();
  Json out = Json::parse(text, nullptr, false);
  if (out.is_discarded())
    throw UserError("bench", "the peer gave no result: " + command).help("make peers installs it");
  return out;
}

// tinygrad's time for the same nets, in milliseconds by name; nets it has no script for are left out.
Json peer_times(const CompileOptions& options, const std::vector<std::string>& names) {
  if (options.peer.empty()) return Json::object();
  Json times = Json::object();
  const Json rows = output_of(fmt::format(".venv-peers/bin/python bench/peers/{}_compile.py {}", options.peer,
                                          fmt::join(names, " ")));
  for (const Json& row : rows) times[row["name"].get<std::string>()] = row["total_ms"];
  return times;
}

dev::CompileReport best_of(int rounds, const std::string& name,
                           const std::function<std::vector<Tensor>()>& build,
                           const dev::CompileOptions& options) {
  dev::CompileReport best = dev::bench_compile(name, build, options);
  for (int i = 1; i < rounds; ++i) {
    dev::CompileReport next = dev::bench_compile(name, build, options);
    if (next.total_ms() < best.total_ms()) best = std::move(next);
  }
  return best;
}

struct Net {
  std::string name;
  std::function<std::vector<Tensor>()> build;
};

std::vector<Net> chosen_nets(const CompileOptions& options) {
  std::vector<Net> nets;
  if (options.growth) {
    for (std::int64_t layers = 1; layers <= 64; layers *= 2) {
      models::GPT2Config config;
      config.layers = layers;
      nets.push_back({fmt::format("gpt2_train_{}_layers", layers),
                      [config] { return models::gpt2_train(config, 4, 64); }});
    }
    return nets;
  }
  std::vector<std::string> known;
  for (const models::BenchmarkNet& net : models::benchmark_nets()) known.emplace_back(net.name);
  for (const std::string& name : options.names.empty() ? known : options.names) {
    bool found = false;
    for (const models::BenchmarkNet& net : models::benchmark_nets())
      if (net.name == name) {
        nets.push_back({name, net.build});
        found = true;
      }
    if (found) continue;
    auto error = UserError("bench compile", "unknown net " + name);
    if (const auto meant = dev::nearest_word(name, known)) error.help("did you mean " + *meant + "?");
    error.help(fmt::format("nets: {}", fmt::join(known, " ")));
    throw error;
  }
  return nets;
}

void print_kernels(dev::CompileReport report) {
  constexpr std::size_t kShown = 20;
  auto cost = [](const dev::KernelReport& k) { return k.lower_ms + k.compile_ms; };
  std::sort(report.by_kernel.begin(), report.by_kernel.end(),
            [&](const auto& a, const auto& b) { return cost(a) > cost(b); });
  std::vector<std::vector<std::string>> table{
      {"kernel", "uses", "instructions", "lower ms", "machine code", "options"}};
  for (std::size_t i = 0; i < std::min(kShown, report.by_kernel.size()); ++i) {
    const dev::KernelReport& k = report.by_kernel[i];
    table.push_back({k.name, fmt::format("{}", k.uses), fmt::format("{}", k.instructions),
                     fmt::format("{:.1f}", k.lower_ms), fmt::format("{:.1f}", k.compile_ms), k.options});
  }
  fmt::print("\n{}\n", report.name);
  print_table(table);
}

int run_compile(const CompileOptions& options) {
  const std::vector<Net> nets = chosen_nets(options);
  std::vector<std::string> names;
  for (const Net& net : nets) names.push_back(net.name);
  const Json peers = peer_times(options, names);

  std::vector<dev::CompileReport> reports;
  {
    dev::ProgressBar bar("compiling", static_cast<std::int64_t>(nets.size()));
    for (std::size_t i = 0; i < nets.size(); ++i) {
      bar.update(static_cast<std::int64_t>(i), nets[i].name);
      reports.push_back(
          best_of(options.rounds, nets[i].name, nets[i].build, {options.device, !options.no_machine_code}));
    }
    bar.update(static_cast<std::int64_t>(nets.size()));
  }
  if (options.json) {
    Json out = Json::array();
    for (const dev::CompileReport& r : reports) {
      Json row = json_of(r);
      if (peers.contains(r.name)) {
        row["peer_ms"] = peers[r.name];
        row["peer_ratio"] = rounded(peers[r.name].get<double>() / r.total_ms());
      }
      out.push_back(row);
    }
    fmt::print("{}\n", out.dump(2));
    return 0;
  }
  std::vector<std::vector<std::string>> table{{"net", "kernels", "unique", "nodes", "tensor", "schedule",
                                               "codegen", "linearize", "total ms", "machine code"}};
  if (!options.peer.empty()) table[0].insert(table[0].end(), {options.peer + " ms", "ratio"});
  for (const dev::CompileReport& r : reports) {
    std::vector<std::string> row{r.name, fmt::format("{}", r.kernels), fmt::format("{}", r.unique_kernels),
                                 fmt::format("{}", r.nodes)};
    for (double ms : {r.tensor_ms, r.schedule_ms, r.codegen_ms, r.linearize_ms, r.total_ms(), r.compile_ms})
      row.push_back(fmt::format("{:.1f}", ms));
    if (!options.peer.empty()) {
      const double peer = peers.value(r.name, 0.0);
      row.push_back(peer > 0 ? fmt::format("{:.0f}", peer) : "-");
      row.push_back(peer > 0 ? fmt::format("{:.1f}x", peer / r.total_ms()) : "-");
    }
    table.push_back(row);
  }
  print_table(table);
  if (options.passes)
    for (const dev::CompileReport& r : reports) {
      fmt::print("{}:", r.name);
      for (const auto& [name, ms] : r.passes) fmt::print(" {} {:.1f}", name, ms);
      fmt::print("\n");
    }
  if (options.kernels)
    for (const dev::CompileReport& r : reports) print_kernels(r);
  return 0;
}

// ---- start

struct StartOptions {
  bool json = false, ready_line = false;
  std::string name = "resnet50_forward";
  int rounds = 3;
};

// What each measured process does: everything before the first launch, then a line.
int get_ready(const StartOptions& options) {
  CompileOptions wanted;
  wanted.names = {options.name};
  fmt::print("ready {}\n", dev::prepare_to_run(chosen_nets(wanted).front().build()));
  return 0;
}

// Milliseconds from starting a process to its line.
double time_to_ready(const StartOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(
      popen(fmt::format("'{}' bench start {} --ready-line", program, options.name).c_str(), "r"), pclose);
  std::array<char, 256> line{};
  if (!pipe || std::fgets(line.data(), line.size(), pipe.get()) == nullptr ||
      std::string_view(line.data()).rfind("ready", 0) != 0)
    throw UserError("bench start", "the measured process did not get ready");
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

int run_start(const StartOptions& options) {
  if (options.ready_line) return get_ready(options);
  CompileOptions wanted;
  wanted.names = {options.name};
  chosen_nets(wanted);  // refuses an unknown name here, once
  const double first = time_to_ready(options);
  double warm = time_to_ready(options);
  for (int i = 1; i < options.rounds; ++i) warm = std::min(warm, time_to_ready(options));
  if (options.json)
    fmt::print(
        "{}\n",
        Json::array({{{"name", options.name}, {"first_ms", rounded(first)}, {"warm_ms", rounded(warm)}}})
            .dump(2));
  else
    print_table({{"net", "first ms", "warm ms"},
                 {options.name, fmt::format("{:.0f}", first), fmt::format("{:.0f}", warm)}});
  return 0;
}

}  // namespace

std::vector<Command> add_bench(CLI::App& app) {
  CLI::App* command = app.add_subcommand("bench", "measure Lathe itself");
  command->require_subcommand(1);

  auto ir = std::make_shared<IrOptions>();  // shared: the parser's options and the command both hold it
  CLI::App* on_ir =
      command->add_subcommand("ir", "the graph: creating, finding, traversing and simplifying nodes");
  on_ir->add_flag("--json", ir->json, "print an array of objects");
  on_ir->add_flag("--growth", ir->growth, "time per node for graphs of 1k to 1M nodes");
  on_ir->add_option("--nodes", ir->nodes, "size of the graphs")->check(between(100, 10'000'000));
  on_ir->add_option("--rounds", ir->rounds, "rounds to run; the best one is reported")
      ->check(between(1, 100));

  auto compile = std::make_shared<CompileOptions>();
  CLI::App* on_compile = command->add_subcommand(
      "compile", "compile times of nets, from tensors to machine code, without caches");
  on_compile->add_option("names", compile->names, "nets to compile (default: all)");
  on_compile->add_flag("--json", compile->json, "print an array of objects");
  on_compile->add_flag("--growth", compile->growth, "compile one net with 1 to 64 layers instead");
  on_compile->add_flag("--passes", compile->passes, "also print the time of each code generation pass");
  on_compile->add_flag("--kernels", compile->kernels, "also print the kernels that take longest");
  on_compile->add_flag("--no-machine-code", compile->no_machine_code,
                       "stop before compiling to machine code");
  on_compile->add_option("--device", compile->device, "device to compile for");
  on_compile->add_option("--rounds", compile->rounds, "rounds to run; the best one is reported")
      ->check(between(1, 100));
  on_compile->add_option("--peer", compile->peer, "also run a peer from .venv-peers on the same nets")
      ->check(CLI::IsMember({"tinygrad"}));

  auto start = std::make_shared<StartOptions>();
  CLI::App* on_start = command->add_subcommand(
      "start", "start-up time of a process until its first launch, with a warm cache");
  on_start->add_option("name", start->name, "net to prepare");
  on_start->add_flag("--json", start->json, "print an array of objects");
  on_start->add_option("--rounds", start->rounds, "rounds to run; the best one is reported")
      ->check(between(1, 100));
  on_start->add_flag("--ready-line", start->ready_line,
                     "run as a measured process: prepare and print a line");

  std::vector<Command> commands = add_bench_cpu(*command);
  for (auto* add : {add_bench_cuda, add_bench_check, add_bench_models})
    for (Command& more : add(*command)) commands.push_back(std::move(more));
  commands.push_back({on_ir, [ir] { return run_ir(*ir); }});
  commands.push_back({on_compile, [compile] { return run_compile(*compile); }});
  commands.push_back({on_start, [start] { return run_start(*start); }});
  return commands;
}

}  // namespace lathe::tool
