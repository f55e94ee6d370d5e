// `lathe bench check`: what the check of new kernels adds to the first step of a net. Every step is a process
// of its own with an empty cache folder; steps with LATHE_CHECK=off and =first take turns, so that a machine
// that changes its speed slows both.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>

#include "lathe/dev/child_process.h"
#include "lathe/dev/machine.h"
#include "lathe/dev/terminal.h"
#include "lathe/error.h"
#include "lathe/optim.h"
#include "models/gpt2.h"
#include "models/picture_net.h"
#include "models/resnet.h"
#include "tools/lathe/commands.h"

namespace lathe::tool {
namespace {

using Json = nlohmann::ordered_json;

struct CheckOptions {
  bool json = false, step_line = false;
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
  auto net = std::make_shared<models::PictureNet>();
  auto optimizer = std::make_shared<nn::optim::Adam>(nn::get_parameters(*net), 0.004);
  make_ready(*net, *optimizer);
  const Tensor pictures = Tensor::randint({512, 1, 28, 28}, 0, 256, {.dtype = dtypes::uint8}).realize();
  return [=, labels = integers({512}, 10)] {
    const TrainingScope training;
    train(*optimizer, (*net)(pictures).sparse_categorical_crossentropy(labels));
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
  const Tensor pictures = Tensor::randn({4, 3, 224, 224}).realize();
  return [=, labels = integers({4}, 1000)] {
    const TrainingScope training;
    train(*optimizer, (*net)(pictures).sparse_categorical_crossentropy(labels));
  };
}

struct FirstStep {
  const char* name;
  StepFunction (*make)();
};
constexpr FirstStep kSteps[] = {{"demo", demo}, {"gpt2", gpt2}, {"resnet50", resnet50}};

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

int run_steps(const CheckOptions& options) {
  const StepFunction step = step_named(options.names.at(0)).make();
  const dev::CheckCounts before = dev::check_counts();
  Json out{{"ms", Json::array()}};
  for (int i = 0; i < options.steps; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    step();
    out["ms"].push_back(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
  }
  const dev::CheckCounts now = dev::check_counts();
  out["compared"] = now.compared - before.compared;
  out["unchecked"] = now.unchecked - before.unchecked;
  out["replaced"] = now.replaced - before.replaced;
  fmt::print("{}\n", out.dump());
  return 0;
}

// ---- the one that measures

class EmptyFolder {
 public:
  EmptyFolder() {
    std::string path = (std::filesystem::temp_directory_path() / "lathe-bench-XXXXXX").string();
    if (mkdtemp(path.data()) == nullptr) throw UserError("bench check", "cannot make a folder " + path);
    path_ = path;
  }
  ~EmptyFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  EmptyFolder(const EmptyFolder&) = delete;
  EmptyFolder& operator=(const EmptyFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

Json measured(const std::string& net, const char* mode, const EmptyFolder& cache, int steps) {
  constexpr double kPatience = 600;  // seconds
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  dev::ChildProcess child(
      {program, "bench", "check", net, "--steps", fmt::format("{}", steps), "--step-line"},
      {{"LATHE_CHECK", mode}, {"LATHE_CACHE", cache.path().string()}});
  const dev::ChildProcess::Answer answer = child.next_line(kPatience);
  if (!answer.ok) throw UserError("bench check", fmt::format("the measured process {}", answer.text));
  return Json::parse(answer.text);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

struct Times {
  std::vector<double> off, first, ratio;
  void add(double without, double with) {
    off.push_back(without);
    first.push_back(with);
    ratio.push_back(with / without);
  }
};

Json measure(const CheckOptions& options, const std::string& name, const std::function<void(int)>& progress) {
  Times cold, warm;
  Json last;
  for (int round = 0; round < options.rounds; ++round) {
    progress(round);
    const EmptyFolder off, first;
    const Json a = measured(name, "off", off, options.steps);
    last = measured(name, "first", first, options.steps);
    cold.add(a["ms"].front(), last["ms"].front());
    warm.add(a["ms"].back(), last["ms"].back());
  }
  Json row{{"name", name},
           {"off_ms", median(cold.off)},
           {"first_ms", median(cold.first)},
           {"ratio", median(cold.ratio)}};
  if (options.steps > 1) {
    row["last_off_ms"] = median(warm.off);
    row["last_first_ms"] = median(warm.first);
    row["last_ratio"] = median(warm.ratio);
  }
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
      "check", "the first step of nets with and without the check of new kernels, nothing cached");
  command->add_option("names", options->names, "demo, gpt2, resnet50; all of them if none is named");
  command->add_flag("--json", options->json, "print an array of objects");
  command->add_option("--rounds", options->rounds, "the median of so many")->check(between(1, 100));
  command->add_option("--steps", options->steps, "steps of each process; the last is reported too")
      ->check(between(1, 1000));
  command->add_flag("--step-line", options->step_line, "what a measured process does: the steps, and a line");
  return {{command, [options] { return run_check(*options); }}};
}

}  // namespace lathe::tool
