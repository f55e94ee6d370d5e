#include "search/worker.h"

#include <fmt/format.h>
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>

#include "base/atomic_file.h"
#include "base/error.h"
#include "codegen/codegen.h"
#include "engine/compile_context.h"
#include "engine/kernels.h"
#include "ir/build.h"
#include "runtime/executor.h"
#include "runtime/fault_cell.h"
#include "search/job.h"

namespace lathe::search {

extern const char* const kCodeVersion;  // made by cmake/code_version.cmake

std::string code_version() { return kCodeVersion; }

namespace {

using Clock = std::chrono::steady_clock;
double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

constexpr int kLeastRuns = 3, kMostRuns = 200;

std::string needed_file(const std::string& path) {
  std::optional<std::string> bytes = read_file(path);
  if (!bytes) throw UserError("worker", "there is no " + path);
  return *std::move(bytes);
}

class Worker {
 public:
  explicit Worker(const WorkerHooks& hooks) : hooks_(hooks) {}

  std::string answer(std::istringstream& in) {
    std::string word;
    in >> word;
    if (word == "open") return open(in);
    if (word == "compile") return compile(in);
    if (word == "run") return run(in);
    if (word == "time") return time(in);
    if (word == "duel") return duel(in);
    throw UserError("worker", "unknown question " + word);
  }

 private:
  struct Loaded {
    engine::MadeKernel made;
    std::unique_ptr<Kernel> kernel;
    std::unique_ptr<FaultCell> cell;  // where the kernel checks indices
    Grid grid;
  };

  std::string open(std::istringstream& in) {
    close();
    in >> folder_;
    job_ = job_from_text(needed_file(job_file(folder_)));
    device_ = &open_device(job_.device);
    buffers_ = buffers_of(job_.kernel);
    for (const auto& [name, value] : job_.bindings)
      bindings_.emplace_back(variable(name, value, value), value);
    return "ok " + code_version();
  }

  void close() {
    executor().synchronize();
    loaded_.clear();
    for (const Place& place : places_) device_->pool.give(place.span.memory);
    places_.clear();
    bindings_.clear();
  }

  std::string compile(std::istringstream& in) {
    const Scope scope;
    int number = 0;
    in >> number;
    std::string options;
    std::getline(in, options);
    engine::MadeKernel made;
    made.ast = job_.kernel;
    made.options = parse_opts(options);
    const Program program =
        lower_kernel(job_.kernel, made.options, engine::compile_for(device_->compiler->target()), job_.name);
    if (static_cast<std::int64_t>(program.code.size()) > job_.max_nodes)
      return fmt::format("refused {} instructions", program.code.size());
    made.launch = program;
    made.launch.code.clear();
    made.binary = device_->compiler->compile(program);
    write_file_atomic(kernel_file(folder_, number), engine::pack_kernel(made), Sync::No);
    return fmt::format("ok {}", program.code.size());
  }

  // Memory as a program would have it, filled from the job's inputs.
  void fill() {
    for (std::size_t slot = 0; slot < buffers_.size(); ++slot) {
      const std::size_t bytes = buffers_[slot].bytes();
      if (places_.size() <= slot) places_.push_back({device_, {device_->pool.take(bytes), 0, bytes}});
      std::string contents = needed_file(input_file(folder_, slot));
      const Place host{nullptr, {{0, bytes, contents.data()}, 0, bytes}};
      if (bytes > 0) executor().wait(executor().copy(places_[slot], host));
    }
  }

  Loaded& load(int number) {
    std::unique_ptr<Loaded>& loaded = loaded_[number];
    if (loaded != nullptr) return *loaded;
    auto fresh = std::make_unique<Loaded>();
    if (!engine::unpack_kernel(needed_file(kernel_file(folder_, number)), fresh->made))
      throw UserError("worker", fmt::format("candidate {} is damaged", number));
    fresh->kernel = device_->device->load(fresh->made.binary);
    if (!fresh->made.launch.checks.empty()) fresh->cell = std::make_unique<FaultCell>(*device_);
    fresh->grid = engine::grid_of(fresh->made.launch, bindings_);
    loaded = std::move(fresh);
    return *loaded;
  }

  double launch(Loaded& loaded) {
    std::vector<Arg> args;
    std::vector<Place> reads, writes;
    for (const ProgramParam& param : buffer_params(loaded.made.launch)) {
      const Place& place = places_[static_cast<std::size_t>(param.slot)];
      args.push_back({Arg::Kind::Span, place.span, 0});
      if (param.reads) reads.push_back(place);
      if (param.writes) writes.push_back(place);
    }
    if (loaded.cell) args.push_back({Arg::Kind::Span, loaded.cell->span(), 0});
    for (const NodeRef& variable : loaded.made.launch.variables)
      args.push_back({Arg::Kind::Int, {}, engine::evaluate_index(variable, bindings_)});
    return executor().launch_timed(
        {device_, 0, loaded.kernel.get(), loaded.grid, args, reads, writes, job_.name});
  }

  std::string run(std::istringstream& in) {
    int number = 0;
    in >> number;
    fill();
    Loaded& loaded = load(number);
    if (hooks_.before_run) hooks_.before_run(to_string(loaded.made.options));
    const double ns = launch(loaded);
    for (std::size_t slot = 0; slot < buffers_.size(); ++slot) {
      if (!buffers_[slot].writes) continue;
      std::string contents(buffers_[slot].bytes(), '\0');
      const Place host{nullptr, {{0, contents.size(), contents.data()}, 0, contents.size()}};
      if (!contents.empty()) executor().wait(executor().copy(host, places_[slot]));
      if (hooks_.after_run) hooks_.after_run(to_string(loaded.made.options), contents);
      write_file_atomic(output_file(folder_, slot), contents, Sync::No);
    }
    return fmt::format("ok {}", ns);
  }

  std::string time(std::istringstream& in) {
    int number = 0;
    double seconds = 0, give_up = 0;
    in >> number >> seconds >> give_up;
    Loaded& loaded = load(number);
    double best = 1e300;
    int runs = 0;
    for (const auto begin = Clock::now(); runs < kLeastRuns || (runs < kMostRuns && since(begin) < seconds);
         ++runs) {
      best = std::min(best, launch(loaded));
      if (runs + 1 >= kLeastRuns && best > give_up) break;
    }
    loaded_.erase(number);
    return fmt::format("ok {} {}", best, runs);
  }

  std::string duel(std::istringstream& in) {
    int first = 0, second = 0;
    double seconds = 0;
    in >> first >> second >> seconds;
    double best[2] = {1e300, 1e300};
    int rounds = 0;
    for (const auto begin = Clock::now(); rounds < kLeastRuns || since(begin) < seconds; ++rounds)
      for (const int side : {rounds % 2, 1 - rounds % 2})
        best[side] = std::min(best[side], launch(load(side == 0 ? first : second)));
    return fmt::format("ok {} {} {}", best[0], best[1], rounds);
  }

  const WorkerHooks& hooks_;
  std::string folder_;
  JobText job_;
  OpenDevice* device_ = nullptr;
  std::vector<JobBuffer> buffers_;
  std::vector<Place> places_;
  std::vector<std::pair<NodeRef, std::int64_t>> bindings_;
  std::map<int, std::unique_ptr<Loaded>> loaded_;
};

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

}  // namespace

int worker_main(const WorkerHooks& hooks) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // a candidate that hangs must not outlive the search
  Worker worker(hooks);
  std::string line;
  while (std::getline(std::cin, line)) {
    std::string reply;
    try {
      std::istringstream in(line);
      reply = worker.answer(in);
    } catch (const std::exception& error) {
      reply = "refused " + one_line(error.what());
    }
    std::cout << reply << std::endl;
  }
  return 0;
}

}  // namespace lathe::search
