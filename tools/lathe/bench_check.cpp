// `lathe bench check`: what the check of new kernels adds to the first step of a net. Every step is a process
// of its own with an empty cache folder. Steps with LATHE_CHECK=off and =first go in pairs, each first in
// every other pair, and what is reported is the median over the pairs: a machine that changes its speed slows
// both. Times on a machine that others use too still differ by more than the check takes; the processor time
// of the whole process, all threads and the system's part of it, differs less. Pages are cleared before the
// step begins: that takes the system between a third of a second and two for GPT-2's gigabytes.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>

#include "lathe/dev/child_process.h"
#include "lathe/dev/machine.h"
#include "lathe/dev/terminal.h"
#include "lathe/error.h"
#include "lathe/optim.h"
#include "models/demo_net.h"
#include "models/gpt2.h"
#include "models/resnet.h"
#include "tools/lathe/commands.h"
#include "tools/lathe/scratch_folder.h"

namespace lathe::tool {
namespace {

using Json = nlohmann::ordered_json;

struct CheckOptions {
  bool json = false, all = false, step_line = false;
  std::vector<std::string> names;
  int rounds = 5, steps = 1;
};

// ---- a measured process

using StepFunction = std::function<void()>;

void train(nn::optim::Optimizer& optimizer, const Tensor& loss) {
  loss.backward();
  std::vector<Tensor> changed = optimizer.schedule_step();
  changed.insert(changed.begin(), loss);
  Tensor::realize_all(changed);
  optimizer.zero_grad();
  loss.item();
}

Tensor integers(const Shape& shape, std::int64_t below) {
  return Tensor::randint(shape, 0, below, {.dtype = dtypes::int32}).realize();
}

void make_ready(nn::Module& net, nn::optim::Optimizer& optimizer) {
  for (const auto& [name, tensor] : nn::get_state_dict(net)) Tensor(tensor).realize();
  optimizer.zero_grad();
}

StepFunction demo() {
  auto net = std::make_shared<models::DemoNet>();
  auto optimizer = std::make_shared<nn::optim::Adam>(nn::get_parameters(*net), 0.004);
  make_ready(*net, *optimizer);
  const Tensor images = Tensor::randint({512, 1, 28, 28}, 0, 256, {.dtype = dtypes::uint8}).realize();
  return [=, labels = integers({512}, 10)] {
    const TrainingScope training;
    train(*optimizer, (*net)(images).sparse_categorical_crossentropy(labels));
  };
}

StepFunction gpt2() {
  auto net = std::make_shared<models::GPT2>();
  auto optimizer = std::make_shared<nn::optim::AdamW>(nn::get_parameters(*net), 6e-4);
  make_ready(*net, *optimizer);
  const std::int64_t words = net->config.vocabulary;
  return [=, tokens = integers({1, 128}, words), targets = integers({1, 128}, words)] {
    const TrainingScope training;
    train(*optimizer, net->loss(tokens, targets));
  };
}

StepFunction resnet50() {
  auto net = std::make_shared<models::ResNet>(50);
  auto optimizer =
      std::make_shared<nn::optim::SGD>(nn::get_parameters(*net), 0.1, nn::optim::SGDOptions{.momentum = 0.9});
  make_ready(*net, *optimizer);
  const Tensor images = Tensor::randn({4, 3, 224, 224}).realize();
  return [=, labels = integers({4}, 1000)] {
    const TrainingScope training;
    train(*optimizer, (*net)(images).sparse_categorical_crossentropy(labels));
  };
}

struct FirstStep {
  const char* name;
  StepFunction (*make)();
  double gigabytes;  // a little more than the process takes in all
};
constexpr FirstStep kSteps[] = {{"demo", demo, 0.75}, {"gpt2", gpt2, 3}, {"resnet50", resnet50, 1.5}};

// Lets malloc take all memory from one heap that is already there.
void clear_pages(double gigabytes) {
#ifdef __GLIBC__
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);  // never
  constexpr std::size_t kHugePage = std::size_t{2} << 20;
  const auto bytes = static_cast<std::size_t>(gigabytes * 1024) * kHugePage / 2;
  auto* data = static_cast<volatile char*>(std::aligned_alloc(kHugePage, bytes));
  if (data == nullptr) return;
  madvise(const_cast<char*>(data), bytes, MADV_HUGEPAGE);
  for (std::size_t at = 0; at < bytes; at += 4096) data[at] = 1;
  std::free(const_cast<char*>(data));
#endif
}

const FirstStep& step_named(const std::string& name) {
  std::vector<std::string> known;
  for (const FirstStep& step : kSteps) {
    if (name == step.name) return step;
    known.emplace_back(step.name);
  }
  auto error = UserError("bench check", "unknown net " + name);
  if (const auto meant = dev::nearest_word(name, known)) error.help("did you mean " + *meant + "?");
  throw error.help(fmt::format("nets: {}", fmt::join(known, " ")));
}

// What the process has used so far, in milliseconds.
struct Used {
  double wall = 0, processor = 0, system = 0;  // the system's part is in the second, too
  std::int64_t faults = 0;                     // pages that the system gave out

  static Used now() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto ms = [](const timeval& t) {
      return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_usec) * 1e-3;
    };
    const auto clock = std::chrono::steady_clock::now().time_since_epoch();
    return {std::chrono::duration<double, std::milli>(clock).count(), ms(usage.ru_utime) + ms(usage.ru_stime),
            ms(usage.ru_stime), usage.ru_minflt};
  }
};

int run_steps(const CheckOptions& options) {
  const FirstStep& chosen = step_named(options.names.at(0));
  clear_pages(chosen.gigabytes);
  const StepFunction step = chosen.make();
  const dev::CheckCounts before = dev::check_counts();
  Json out;
  for (int i = 0; i < options.steps; ++i) {
    const Used begin = Used::now();
    step();
    const Used end = Used::now();
    out["ms"].push_back(end.wall - begin.wall);
    out["cpu_ms"].push_back(end.processor - begin.processor);
    out["system_ms"].push_back(end.system - begin.system);
    out["faults"].push_back(end.faults - begin.faults);
    if (i == 0) out["check_ms"] = (dev::check_counts().seconds - before.seconds) * 1e3;
  }
  const dev::CheckCounts now = dev::check_counts();
  out["compared"] = now.compared - before.compared;
  out["unchecked"] = now.unchecked - before.unchecked;
  out["replaced"] = now.replaced - before.replaced;
  fmt::print("{}\n", out.dump());
  return 0;
}

// ---- the one that measures

Json measured(const std::string& net, const char* mode, const std::string& cache, int steps) {
  constexpr double kPatience = 600;  // seconds
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  dev::ChildProcess child(
      {program, "bench", "check", net, "--steps", fmt::format("{}", steps), "--step-line"},
      {{"LATHE_CHECK", mode}, {"LATHE_CACHE", cache}});
  const dev::ChildProcess::Answer answer = child.next_line(kPatience);
  if (!answer.ok) throw UserError("bench check", fmt::format("the measured process {}", answer.text));
  return Json::parse(answer.text);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

// One figure of both steps of every pair.
struct Pairs {
  std::vector<double> off, first, ratio;

  void add(double without, double with) {
    off.push_back(without);
    first.push_back(with);
    ratio.push_back(with / without);
  }
  void put(Json& row, const std::string& prefix, const std::string& figure) const {
    row[prefix + "off_" + figure] = median(off);
    row[prefix + "first_" + figure] = median(first);
    row[prefix + "ratio" + (figure == "ms" ? "" : "_" + figure.substr(0, figure.find('_')))] = median(ratio);
  }
};

constexpr const char* kFigures[] = {"ms", "cpu_ms"};

Json measure(const CheckOptions& options, const std::string& name, const std::function<void(int)>& progress) {
  Pairs cold[std::size(kFigures)], warm[std::size(kFigures)];
  std::vector<double> checks, shares;
  Json last;
  for (int round = 0; round < options.rounds; ++round) {
    progress(round);
    Json of_mode[2];
    for (const int turn : {round % 2, 1 - round % 2}) {
      const ScratchFolder cache(turn == 0 ? "check-off" : "check-first");
      of_mode[turn] = measured(name, turn == 0 ? "off" : "first", cache.path(), options.steps);
      if (options.all) fmt::print("{} {} {}\n", name, turn == 0 ? "off" : "first", of_mode[turn].dump());
    }
    last = of_mode[1];
    checks.push_back(last["check_ms"]);
    shares.push_back(last["check_ms"].get<double>() / of_mode[0]["ms"].front().get<double>());
    for (std::size_t f = 0; f < std::size(kFigures); ++f) {
      cold[f].add(of_mode[0][kFigures[f]].front(), last[kFigures[f]].front());
      warm[f].add(of_mode[0][kFigures[f]].back(), last[kFigures[f]].back());
    }
  }
  Json row{{"name", name}};
  for (std::size_t f = 0; f < std::size(kFigures); ++f) cold[f].put(row, "", kFigures[f]);
  row["check_ms"] = median(checks);
  row["check_share"] = median(shares);
  if (options.steps > 1)
    for (std::size_t f = 0; f < std::size(kFigures); ++f) warm[f].put(row, "last_", kFigures[f]);
  for (const char* count : {"compared", "unchecked", "replaced"}) row[count] = last[count];
  return row;
}

std::string cell(const Json& value) {
  return value.is_number_float() ? fmt::format("{:.3g}", value.get<double>())
         : value.is_string()     ? value.get<std::string>()
                                 : value.dump();
}

int run_check(const CheckOptions& options) {
  if (options.step_line) return run_steps(options);
  std::vector<std::string> names = options.names;
  if (names.empty())
    for (const FirstStep& step : kSteps) names.emplace_back(step.name);
  for (const std::string& name : names) step_named(name);
  Json rows = Json::array();
  {
    dev::ProgressBar bar("measuring", static_cast<std::int64_t>(names.size()) * options.rounds);
    for (const std::string& name : names) {
      const auto done = static_cast<std::int64_t>(rows.size()) * options.rounds;
      rows.push_back(measure(options, name, [&](int round) { bar.update(done + round, name); }));
    }
    bar.update(static_cast<std::int64_t>(names.size()) * options.rounds);
  }
  if (options.json) {
    fmt::print("{}\n", rows.dump(2));
    return 0;
  }
  std::vector<std::vector<std::string>> table(1);
  for (const auto& [key, value] : rows[0].items()) table[0].push_back(key);
  for (const Json& row : rows) {
    table.emplace_back();
    for (const Json& value : row) table.back().push_back(cell(value));
  }
  print_table(table);
  return 0;
}

}  // namespace

std::vector<Command> add_bench_check(CLI::App& bench) {
  auto options =
      std::make_shared<CheckOptions>();  // shared: the parser's options and the command both hold it
  CLI::App* command = bench.add_subcommand(
      "check", "the first step of nets with and without the first-use check, without caches");
  command->add_option("names", options->names, "demo, gpt2, resnet50 (default: all)");
  command->add_flag("--json", options->json, "print an array of objects");
  command->add_flag("--all", options->all, "also print the results of every process");
  command->add_option("--rounds", options->rounds, "pairs of processes; the median is reported")
      ->check(between(1, 100));
  command->add_option("--steps", options->steps, "steps of each process; the last one is also reported")
      ->check(between(1, 1000));
  command->add_flag("--step-line", options->step_line,
                    "run as a measured process: run the steps and print a line");
  return {{command, [options] { return run_check(*options); }}};
}

}  // namespace lathe::tool
