// `lathe bench cpu`: generated kernels beside the libraries people would use instead, in one run. Contenders
// take turns, and the probe of the roof has a turn as well, so that all meet the same weather on the machine.
#include "tools/lathe/bench_cpu.h"

#include <fmt/format.h>
#include <glob.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include "lathe/dev/machine.h"
#include "lathe/dev/terminal.h"
#include "lathe/error.h"
#include "tools/lathe/commands.h"
#include "tools/lathe/scratch_folder.h"

namespace lathe::tool {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

constexpr double kPrepareSeconds = 300, kRunSeconds = 120;
constexpr int kMostKernels = 60;        // of a net, for the time its search may take
constexpr double kDriftFlagged = 0.05;  // first against last third of the rounds
constexpr double kBFloat16Tolerance = 0.01;
// Threads of an OpenMP library watch for work this long after they had some; a turn begins when they sleep.
constexpr int kPauseMs = 15;

struct Options {
  bool json = false, quick = false, tuned = false, list = false, ablation = false;
  std::string filter, peers = ".venv-peers", beside, contender, library;
  int threads = 0, rounds = 0;
  int budget = 20;  // seconds of search a kernel
};

// ---- contenders

struct PeerKind {
  const char* name;
  const char* file;    // below the folder of the peers; may have wildcards
  const char* prefix;  // of the library's symbols
};
constexpr PeerKind kLibraries[] = {
    {"openblas", "lib/python3*/site-packages/scipy_openblas32/lib/libscipy_openblas.so", "scipy_"},
    {"mkl", "lib/libmkl_rt.so*", ""},
    {"onednn", "lib/libdnnl.so", ""},
};
constexpr const char* kTorchScript = "bench/peers/torch_rows.py";

std::string first_match(const std::string& pattern) {
  glob_t found{};
  std::string path;
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0 && found.gl_pathc > 0)
    path = fs::absolute(found.gl_pathv[0]);
  globfree(&found);
  return path;
}

using Variables = std::vector<std::pair<std::string, std::string>>;

// What keeps the peers to the instructions Lathe is kept to by LATHE_CPU_LEVEL.
struct PeerLimit {
  std::string_view level, openblas, onednn, mkl, torch;
};
constexpr PeerLimit kPeerLimits[] = {
    {"x86-64-v2", "NEHALEM", "SSE41", "SSE4_2", "default"},
    {"x86-64-v3", "HASWELL", "AVX2", "AVX2", "avx2"},
    {"x86-64-v4", "SKYLAKEX", "AVX512_CORE", "AVX512", "avx512"},
};
void limit_peers(Variables& variables) {
  const char* level = std::getenv("LATHE_CPU_LEVEL");
  for (const PeerLimit& limit : kPeerLimits)
    if (level != nullptr && limit.level == level) {
      variables.emplace_back("OPENBLAS_CORETYPE", limit.openblas);
      variables.emplace_back("ONEDNN_MAX_CPU_ISA", limit.onednn);
      variables.emplace_back("MKL_ENABLE_INSTRUCTIONS", limit.mkl);
      variables.emplace_back("ATEN_CPU_CAPABILITY", limit.torch);
    }
}

Variables variables_of(const Options& options, int threads) {
  const std::string n = std::to_string(threads);
  Variables variables{{"LATHE_THREADS", n},   {"OMP_NUM_THREADS", n}, {"OPENBLAS_NUM_THREADS", n},
                      {"MKL_NUM_THREADS", n}, {"KMP_BLOCKTIME", "5"}, {"OPENBLAS_THREAD_TIMEOUT", "20"}};
  limit_peers(variables);
  const char* libraries = std::getenv("LD_LIBRARY_PATH");
  variables.emplace_back("LD_LIBRARY_PATH", fs::absolute(options.peers + "/lib").string() +
                                                (libraries == nullptr ? "" : ":" + std::string(libraries)));
  return variables;
}

// Lathe first, then every peer that is installed. The list says what is missing in `notes`.
std::vector<std::unique_ptr<ContenderProcess>> start_contenders(const Options& options, int threads,
                                                                std::set<std::string>& notes) {
  const std::string self = fs::read_symlink("/proc/self/exe").string();
  std::vector<std::unique_ptr<ContenderProcess>> all;
  auto start = [&](std::string name, std::vector<std::string> command, const Variables& variables) {
    all.push_back(std::make_unique<ContenderProcess>(std::move(name), std::move(command), variables));
  };
  Variables variables = variables_of(options, threads);
  Variables lathe = variables;
  if (options.tuned) {
    lathe.emplace_back("LATHE_BEAM", "4");
    lathe.emplace_back("LATHE_BEAM_SECONDS", std::to_string(options.budget));
  }
  const std::vector<std::string> ours{self, "bench", "cpu", "--contender", "lathe"};
  start("lathe", ours, lathe);
  if (const std::size_t equals = options.beside.find('='); equals != std::string::npos) {
    Variables other = lathe;
    other.emplace_back(options.beside.substr(0, equals), options.beside.substr(equals + 1));
    start(options.beside, ours, other);
  }
  if (options.ablation) {
    for (const auto& [rule, reason] : dev::heuristic_rules()) {
      Variables without = lathe;
      without.emplace_back("LATHE_WITHOUT", rule);
      start(rule, ours, without);
    }
    return all;
  }
  for (const PeerKind& peer : kLibraries) {
    const std::string library = first_match(options.peers + "/" + peer.file);
    if (library.empty())
      notes.insert(fmt::format("{} is not in {}: make peers installs it", peer.name, options.peers));
    else
      start(peer.name, {self, "bench", "cpu", "--contender", peer.name, "--library", library}, variables);
  }
  std::string python = first_match(options.peers + "/bin/python");
  if (python.empty()) {
    python = "/usr/bin/python3";
    notes.insert(fmt::format("no Python in {}: PyTorch is the system's, if there is one", options.peers));
  }
  if (fs::exists(kTorchScript))
    start("torch", {python, kTorchScript}, variables_of(options, threads));
  else
    notes.insert(fmt::format("{} is not below the current folder, so PyTorch is not run", kTorchScript));
  return all;
}

int run_contender(const Options& options) {
  std::unique_ptr<Contender> contender;
  if (options.contender == "lathe") contender = make_lathe_contender();
  if (options.contender == "onednn") contender = make_onednn_contender(options.library);
  for (const PeerKind& peer : kLibraries)
    if (contender == nullptr && options.contender == peer.name)
      contender = make_blas_contender(options.library, peer.prefix);
  if (contender == nullptr) throw UserError("bench cpu", "unknown contender " + options.contender);
  return serve_contender(*contender);
}

// ---- one row

struct Measured {
  CpuRow row;
  std::optional<double> lathe, peer;  // seconds
  std::string peer_name;
  std::map<std::string, double> peers;  // seconds by name
  double roof = 0;                      // work a second
  double drift = 0, load = 0;
  std::string wrong;  // what was found wrong with Lathe's result
  std::optional<double> ratio() const { return lathe && peer ? std::optional(*peer / *lathe) : std::nullopt; }
  double roof_share() const { return lathe && roof > 0 ? row.work / *lathe / roof : 0; }
};

double load_average() {
  double load = 0;
  return getloadavg(&load, 1) == 1 ? load : 0;
}

// How much slower or faster the last third of the rounds was than the first.
double drift_of(const std::vector<double>& seconds) {
  const std::size_t third = seconds.size() / 3;
  if (third == 0) return 0;
  const auto span = static_cast<std::ptrdiff_t>(third);
  const double first = *std::min_element(seconds.begin(), seconds.begin() + span),
               last = *std::min_element(seconds.end() - span, seconds.end());
  return last / first - 1;
}

class Runner {
 public:
  explicit Runner(const Options& options) : options_(options) {}

  Measured run(const CpuRow& row) {
    const ScratchFolder folder("rows");
    Measured measured;
    measured.row = row;
    measured.load = load_average();
    write_inputs(row, folder.path());
    std::vector<ContenderProcess*> ready = prepare(row, folder.path());
    if (ready.empty() || ready[0]->name() != "lathe") {
      measured.wrong = "Lathe could not run it";
      return measured;
    }
    compare(measured, ready, folder.path());
    take_turns(measured, ready);
    for (const auto& [name, seconds] : measured.peers)
      if (!measured.peer || seconds < *measured.peer) {
        measured.peer = seconds;
        measured.peer_name = name;
      }
    if (measured.peer && row.variant == "compiled") measured.peer_name += ".compile";
    return measured;
  }

  const std::set<std::string>& notes() const { return notes_; }
  const std::map<std::string, std::string>& versions() const { return versions_; }

 private:
  std::vector<std::unique_ptr<ContenderProcess>>& contenders(int threads) {
    auto found = contenders_.find(threads);
    if (found == contenders_.end())
      found = contenders_.emplace(threads, start_contenders(options_, threads, notes_)).first;
    return found->second;
  }

  void note_failure(const CpuRow& row, const ContenderProcess& child, const Json& answer) {
    notes_.insert(fmt::format("{}: {}: {}", row.name, child.name(), answer.value("error", "no answer")));
  }

  std::vector<ContenderProcess*> prepare(const CpuRow& row, const std::string& folder) {
    std::vector<ContenderProcess*> ready;
    for (std::unique_ptr<ContenderProcess>& child : contenders(row.threads)) {
      if (!child->alive()) continue;
      const Json answer =
          child->ask({{"do", "prepare"}, {"row", to_json(row)}, {"folder", folder}},
                     kPrepareSeconds +
                         (options_.tuned && child->name() == "lathe" ? options_.budget * kMostKernels : 0));
      if (answer.contains("version")) {
        ready.push_back(child.get());
        versions_[child->name()] = answer["version"];
      } else if (answer.contains("error")) {
        note_failure(row, *child, answer);
      }
    }
    return ready;
  }

  // Lathe's values against the plain formula, and every peer's against Lathe's.
  void compare(Measured& measured, std::vector<ContenderProcess*>& ready, const std::string& folder) {
    const CpuRow& row = measured.row;
    const std::vector<std::int64_t> places = sample_places(output_elements(row));
    const std::vector<double> expected = reference_values(row, folder, places);
    std::vector<double> lathe;
    std::vector<ContenderProcess*> answered;
    for (ContenderProcess* child : ready) {
      const Json answer = child->ask({{"do", "result"}, {"places", places}}, kPrepareSeconds);
      if (!answer.contains("values")) {
        note_failure(row, *child, answer);
        if (child == ready[0]) measured.wrong = "no result";
        continue;
      }
      const auto values = answer["values"].get<std::vector<double>>();
      if (child == ready[0]) lathe = values;
      const std::vector<double>& judge = expected.empty() ? lathe : expected;
      const double off = largest_difference(values, judge);
      // A peer may round its result to the type of its operands.
      const double allowed = child == ready[0] || row.dtype != "bf16" ? row.tolerance : kBFloat16Tolerance;
      if (off > allowed) {
        const std::string text =
            fmt::format("{}'s result is off by {:.2g} of {}, {:.0e} is allowed", child->name(), off,
                        expected.empty() ? "Lathe's" : "the plain formula's", allowed);
        notes_.insert(row.name + ": " + text);
        if (child == ready[0] || expected.empty()) measured.wrong = text;
        if (child != ready[0]) continue;  // a wrong peer is no measure
      }
      answered.push_back(child);
    }
    ready = answered;
  }

  void take_turns(Measured& measured, const std::vector<ContenderProcess*>& ready) {
    const CpuRow& row = measured.row;
    const int rounds = options_.rounds > 0 ? options_.rounds : options_.quick ? 4 : 12;
    const double slice = options_.quick ? 0.02 : 0.06;
    std::vector<double> mine;
    auto better = [](std::optional<double>& best, double now) { best = best ? std::min(*best, now) : now; };
    for (int round = 0; round < rounds; ++round) {
      for (const auto begin = Clock::now(); since(begin) < slice;)
        measured.roof = std::max(measured.roof, probe_roof(row.roof, row.threads, row.work));
      for (ContenderProcess* child : ready) {
        if (!child->alive()) continue;
        std::this_thread::sleep_for(std::chrono::milliseconds(kPauseMs));
        const Json answer = child->ask({{"do", "run"}, {"seconds", slice}}, kRunSeconds);
        if (!answer.contains("best")) {
          note_failure(row, *child, answer);
          continue;
        }
        const double seconds = answer["best"];
        if (child->name() == "lathe") {
          mine.push_back(seconds);
          better(measured.lathe, seconds);
        } else {
          auto [place, added] = measured.peers.emplace(child->name(), seconds);
          if (!added) place->second = std::min(place->second, seconds);
        }
      }
    }
    measured.drift = drift_of(mine);
  }

  const Options& options_;
  std::map<int, std::vector<std::unique_ptr<ContenderProcess>>> contenders_;
  std::set<std::string> notes_;
  std::map<std::string, std::string> versions_;
};

// ---- which rows

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    if (end > begin) words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

// The same rows on another number of threads; two that differed only in that become one.
std::vector<CpuRow> on_threads(std::vector<CpuRow> rows, int threads) {
  std::vector<CpuRow> out;
  std::set<std::string> seen;
  for (CpuRow& row : rows) {
    const std::string tail = fmt::format("_t{}", row.threads);
    if (row.name.ends_with(tail))
      row.name.replace(row.name.size() - tail.size(), tail.size(), fmt::format("_t{}", threads));
    row.threads = threads;
    if (seen.insert(row.name).second) out.push_back(std::move(row));
  }
  return out;
}

std::vector<CpuRow> chosen_rows(const Options& options) {
  std::vector<CpuRow> rows = cpu_rows();
  if (options.threads > 0) rows = on_threads(std::move(rows), options.threads);
  const std::vector<std::string> words = words_of(options.filter);
  if (words.empty()) {
    if (options.quick) std::erase_if(rows, [](const CpuRow& row) { return !row.quick; });
    return rows;
  }
  std::vector<std::string> names;
  for (const CpuRow& row : rows) names.push_back(row.name);
  for (const std::string& word : words)
    if (std::none_of(names.begin(), names.end(),
                     [&](const std::string& name) { return name.find(word) != std::string::npos; })) {
      auto error = UserError("bench cpu", "no row's name contains " + word);
      if (const auto meant = dev::nearest_word(word, names)) error.help("did you mean " + *meant + "?");
      throw error.help("lathe bench cpu --list prints the names");
    }
  std::erase_if(rows, [&](const CpuRow& row) {
    return std::none_of(words.begin(), words.end(),
                        [&](const std::string& word) { return row.name.find(word) != std::string::npos; });
  });
  return rows;
}

// ---- what is printed

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  return "unknown CPU";
}

Json json_of(const Measured& m) {
  auto digits = [](std::optional<double> value) {
    return value ? Json(std::round(*value * 1e4) / 1e4) : Json();
  };
  auto value = [&](std::optional<double> seconds) {
    return seconds ? digits(m.row.value(*seconds)) : Json();
  };
  Json peers = Json::object();
  for (const auto& [name, seconds] : m.peers) peers[name] = value(seconds);
  return {{"name", m.row.name},
          {"lathe", value(m.lathe)},
          {"peer", value(m.peer)},
          {"peer_name", m.peer ? Json(m.peer_name) : Json()},
          {"unit", m.row.unit},
          {"ratio", digits(m.ratio())},
          {"roof_share", digits(m.roof_share())},
          {"threads", m.row.threads},
          {"peers", peers},
          {"drift", digits(m.drift)},
          {"load", digits(m.load)},
          {"wrong", m.wrong.empty() ? Json() : Json(m.wrong)}};
}

std::string remark(const Measured& m, const Options& options) {
  if (!m.wrong.empty()) return dev::red("WRONG");
  const double wanted = options.tuned ? m.row.tuned_reach : m.row.reach;
  const double reached = m.row.reach_is_roof ? m.roof_share() : m.ratio().value_or(0);
  std::string text;
  if (wanted > 0 && (m.row.reach_is_roof || m.ratio()))
    text = fmt::format("{} {:.2f}{}", reached >= wanted ? "reaches" : "below", wanted,
                       m.row.reach_is_roof ? " of the roof" : "");
  if (std::abs(m.drift) > kDriftFlagged)
    text += fmt::format("{}drift {:+.0f} %", text.empty() ? "" : ", ", m.drift * 100);
  return text;
}

void print_results(const std::vector<Measured>& all, const Options& options) {
  std::vector<std::vector<std::string>> table{
      {"row", "lathe", "unit", "peer", "fastest peer", "ratio", "of roof", ""}};
  auto number = [](double value) { return fmt::format("{:.{}f}", value, value < 100 ? 2 : 1); };
  for (const Measured& m : all)
    table.push_back({m.row.name, m.lathe ? number(m.row.value(*m.lathe)) : "-", m.row.unit,
                     m.peer ? number(m.row.value(*m.peer)) : "-", m.peer ? m.peer_name : "-",
                     m.ratio() ? fmt::format("{:.2f}", *m.ratio()) : "-",
                     fmt::format("{:.2f}", m.roof_share()), remark(m, options)});
  print_table(table);
}

// What each rule of the heuristic is worth: time without it over time with it.
void print_ablation(const std::vector<Measured>& all) {
  std::vector<std::vector<std::string>> table{
      {"without", "time, mean", "rows slower", "most", "in", "what it does"}};
  for (const auto& [rule, reason] : dev::heuristic_rules()) {
    double logs = 0, most = 1;
    int rows = 0, slower = 0;
    std::string where = "-";
    for (const Measured& m : all) {
      const auto without = m.peers.find(rule);
      if (!m.lathe || without == m.peers.end()) continue;
      const double factor = without->second / *m.lathe;
      ++rows;
      logs += std::log(factor);
      slower += factor > 1 + kDriftFlagged;
      if (factor > most) most = factor, where = m.row.name;
    }
    table.push_back({rule, rows > 0 ? fmt::format("x{:.2f}", std::exp(logs / rows)) : "-",
                     fmt::format("{} of {}", slower, rows), fmt::format("x{:.1f}", most), where, reason});
  }
  print_table(table);
}

int run_cpu(const Options& options) {
  if (!options.contender.empty()) return run_contender(options);
  const std::vector<CpuRow> rows = chosen_rows(options);
  if (options.list) {
    for (const CpuRow& row : rows) fmt::print("{}\n", row.name);
    return 0;
  }
  Runner runner(options);
  std::vector<Measured> all;
  {
    dev::ProgressBar bar("measuring", static_cast<std::int64_t>(rows.size()));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      bar.update(static_cast<std::int64_t>(i), rows[i].name);
      all.push_back(runner.run(rows[i]));
    }
    bar.update(static_cast<std::int64_t>(rows.size()));
  }
  if (options.json) {
    Json out = Json::array();
    for (const Measured& m : all) out.push_back(json_of(m));
    fmt::print("{}\n", out.dump(2));
  } else {
    fmt::print("{}, {} cores, load {:.1f}\n", cpu_model(), std::thread::hardware_concurrency(),
               load_average());
    for (const auto& [name, version] : runner.versions()) fmt::print("{}: {}\n", name, version);
    if (options.ablation)
      print_ablation(all);
    else
      print_results(all, options);
  }
  for (const std::string& note : runner.notes()) fmt::print(stderr, "{}\n", note);
  return std::any_of(all.begin(), all.end(), [](const Measured& m) { return !m.wrong.empty(); }) ? 1 : 0;
}

}  // namespace

std::vector<Command> add_bench_cpu(CLI::App& bench) {
  auto options = std::make_shared<Options>();  // shared: the parser's options and the command both hold it
  CLI::App* command = bench.add_subcommand("cpu", "kernels and nets, compared with other libraries");
  command->add_option("--filter", options->filter,
                      "only benchmarks whose names contain this text, or one of several separated by commas");
  command->add_option("--threads", options->threads, "run every benchmark on this many threads")
      ->check(between(1, 1024));
  command->add_option("--rounds", options->rounds, "rounds per library; the best one is reported")
      ->check(between(1, 1000));
  command->add_option("--peers", options->peers, "the Python environment that `make peers` created");
  command->add_flag("--quick", options->quick,
                    "few rounds, and only some benchmarks of each kind unless --filter is given");
  command->add_flag("--tuned", options->tuned, "tune Lathe's kernels first, unless the store has them");
  command->add_option("--budget", options->budget, "seconds to tune each kernel, with --tuned")
      ->check(between(1, 3600));
  command->add_option("--beside", options->beside,
                      "also compare with Lathe under this variable, such as LATHE_RATES=level");
  command->add_flag("--ablation", options->ablation,
                    "instead of other libraries, compare with Lathe without each heuristic rule");
  command->add_flag("--list", options->list, "only print the names of the benchmarks");
  command->add_flag("--json", options->json, "print an array of objects");
  command->add_option("--contender", options->contender, "run as a measured process that answers lines")
      ->group("");
  command->add_option("--library", options->library, "the library that a measured process loads")->group("");
  return {{command, [options] { return run_cpu(*options); }}};
}

}  // namespace lathe::tool
