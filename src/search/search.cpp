#include "search/search.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <limits>
#include <set>

#include "base/atomic_file.h"
#include "base/env.h"
#include "base/error.h"
#include "base/hash.h"
#include "codegen/codegen.h"
#include "engine/compile_context.h"
#include "ir/text.h"
#include "search/job.h"
#include "search/judge.h"
#include "search/space.h"
#include "search/store.h"

namespace lathe::search {
namespace {

using Clock = std::chrono::steady_clock;
using List = std::vector<Opt>;

constexpr double kTimeSeconds = 0.02;  // for timing a candidate, beyond the few runs it always gets
constexpr double kDuelSeconds = 0.3;
constexpr double kGiveUp = 1.3;  // times the best so far: a candidate slower than this is not run again
constexpr double kHopeless = 2;  // the same for its very first run, with cold caches
constexpr double kWorthPatience = 0.01;
constexpr int kBatchPerProcess = 6;
// A candidate this many times slower than the default counts as hanging, after the time its buffers take to
// fill.
constexpr double kSlowest = 100, kLeastRunSeconds = 2, kFillBytes = 2e8;

struct Scored {
  List options;
  double ns = 0;
  int number = 0;
};

// A random order that is the same on every run.
class Shuffle {
 public:
  explicit Shuffle(std::uint64_t seed) : state_(seed * 2 + 1) {}
  std::size_t below(std::size_t n) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::size_t>((state_ >> 33) % n);
  }
  template <class T>
  void operator()(std::vector<T>& list) {
    for (std::size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[below(i)]);
  }

 private:
  std::uint64_t state_;
};

// Failed candidates are written where kernels are saved, else beside the store.
std::string repro_folder() {
  if (!flag_text(Flag::Save).empty()) return flag_text(Flag::Save);
  const std::string store = store_folder();
  return (store.empty() ? (std::filesystem::temp_directory_path() / "lathe-repros").string()
                        : store + "-repros");
}

// One for all processes of the user.
std::string timing_lock() {
  return (std::filesystem::temp_directory_path() / fmt::format("lathe-search-{}.lock", getuid())).string();
}

class Search {
 public:
  Search(const Request& request, const Limits& limits, const Watch& watch)
      : request_(request),
        limits_(limits),
        watch_(watch),
        target_(request.device->compiler->target()),
        shuffle_(limits.seed) {}

  Result run() {
    const std::vector<JobBuffer> buffers = buffers_of(request_.kernel);
    if (std::string why = cannot(buffers); !why.empty()) return refused(why);
    for (const JobBuffer& buffer : buffers) bytes_ += static_cast<double>(buffer.bytes());
    result_.default_options = result_.options = choose_options(request_.kernel, engine::compile_for(target_));
    write_file_atomic(job_file(folder_.path()),
                      to_text({request_.device->text, request_.name, limits_.max_nodes,
                               bindings_of(request_.kernel), NodeRef(request_.kernel)}),
                      Sync::No);
    Judge judge(request_.kernel, folder_.path(), buffers, bindings_of(request_.kernel), target_.native);
    Workers workers(limits_, folder_.path());
    judge_ = &judge;
    workers_ = &workers;
    if (std::string why = time_default(); !why.empty()) return refused(why);
    explore();
    decide();
    result_.seconds = seconds();
    return std::move(result_);
  }

 private:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }
  double left() const { return limits_.seconds - seconds(); }
  double best_ns() const { return beam_.front().ns; }

  std::string cannot(const std::vector<JobBuffer>& buffers) const {
    std::int64_t bytes = 0;
    for (const JobBuffer& buffer : buffers) {
      if (buffer.size == 0) return "it has an empty buffer";
      bytes += buffer.size * std::max<std::int64_t>(1, buffer.dtype.bytes());
    }
    if (bytes > limits_.max_bytes) return fmt::format("its buffers have {} bytes", bytes);
    return "";
  }

  Result refused(const std::string& why) {
    result_.why = why;
    result_.options = result_.default_options;
    result_.seconds = seconds();
    return std::move(result_);
  }

  void show() {
    if (watch_) watch_(seconds(), result_);
  }

  Node with_options(const List& list) const {
    return apply_options(request_.kernel, list, engine::compile_for(target_).quiet());
  }

  // The default is the first candidate: run, compared with REF and timed before anything else.
  std::string time_default() {
    const std::vector<Report> made = workers_->compile({{default_, to_string(result_.default_options)}});
    if (!made[0].ok()) return "the default does not compile: " + made[0].text;
    const Report ran = workers_->ask(fmt::format("run {}", default_), limits_.candidate_seconds);
    if (!ran.ok()) return "the default does not run: " + ran.text;
    if (const std::optional<Judge::Refusal> refusal =
            judge_->refuse_default([&] { return with_options(result_.default_options); }))
      return refusal->wrong ? without_options(refusal->text)
                            : "REF cannot judge the default: " + refusal->text;
    const Report timed = workers_->ask(fmt::format("time {} {} {}", default_, kTimeSeconds, 1e300));
    if (!timed.ok() || timed.numbers.empty()) return "the default cannot be timed: " + timed.text;
    result_.default_ns = result_.best_ns = timed.numbers[0];
    result_.searched = true;
    workers_->expect_runs_within(kLeastRunSeconds + bytes_ / kFillBytes + kSlowest * timed.numbers[0] * 1e-9);
    beam_ = {{result_.default_options, timed.numbers[0], default_}};
    seen_.insert(to_string(result_.default_options));
    add_point();
    return "";
  }

  // The default is wrong: it must not be compared with or used.
  std::string without_options(const std::string& off) {
    ++result_.wrong;
    write_repro(Fate::Wrong, result_.default_options, off);
    result_.unusable = result_.default_options.empty();
    if (result_.unusable) return "without options it differs from REF: " + off;
    result_.distrusted = off;
    result_.default_options.clear();
    result_.options.clear();
    default_ = ++last_number_;
    return time_default();
  }

  void add_point() {
    result_.best_ns = best_ns();
    result_.curve.push_back({seconds(), best_ns()});
    show();
  }

  // ---- exploring

  void explore() {
    const std::size_t batch_size = static_cast<std::size_t>(kBatchPerProcess) * process_count();
    int without_gain = 0;
    std::vector<List> batch = unseen(request_.starts);
    std::vector<List> more = unseen(starting_lists(request_.kernel, target_, limits_));
    batch.insert(batch.end(), more.begin(), more.end());
    while (left() > 0 && without_gain < limits_.patience) {
      fill(batch, batch_size);
      if (batch.empty()) return;  // everything one step away from the beam was tried
      const double before = best_ns();
      try_batch(batch);
      without_gain = best_ns() < before * (1 - kWorthPatience) ? 0 : without_gain + 1;
      batch.clear();
    }
  }

  std::size_t process_count() const {
    return static_cast<std::size_t>(limits_.compile_processes > 0 ? limits_.compile_processes
                                                                  : target_.cores);
  }

  std::vector<List> unseen(const std::vector<List>& lists) {
    std::vector<List> fresh;
    for (const List& list : lists)
      if (!seen_.contains(to_string(list)) && allowed(request_.kernel, list, target_, limits_)) {
        seen_.insert(to_string(list));
        fresh.push_back(list);
      }
    return fresh;
  }

  // Half of a batch are neighbours of the best list, the rest of the others of the beam; every kind of step
  // has its turn.
  void fill(std::vector<List>& batch, std::size_t size) {
    for (std::size_t i = 0; i < beam_.size() && batch.size() < size; ++i) {
      StepKinds kinds = neighbours(request_.kernel, beam_[i].options, target_, limits_);
      for (std::vector<List>& kind : kinds) {
        std::erase_if(kind, [&](const List& list) { return seen_.contains(to_string(list)); });
        shuffle_(kind);
      }
      shuffle_(kinds);
      const std::size_t room = size - batch.size();
      std::size_t share = i + 1 == beam_.size() ? room : (room + 1) / 2;
      for (bool any = true; any && share > 0;) {
        any = false;
        for (std::vector<List>& kind : kinds) {
          if (kind.empty() || share == 0) continue;
          seen_.insert(to_string(kind.back()));
          batch.push_back(std::move(kind.back()));
          kind.pop_back();
          --share;
          any = true;
        }
      }
    }
  }

  void try_batch(const std::vector<List>& batch) {
    const auto asked = Clock::now();
    const FileLock alone(timing_lock());  // two searches of this machine would time each other
    begin_ += Clock::now() - asked;       // waiting for the other is not searching
    std::vector<Workers::Candidate> candidates;
    for (const List& list : batch) candidates.push_back({++last_number_, to_string(list)});
    const std::vector<Report> made = workers_->compile(candidates);
    result_.tried += static_cast<int>(batch.size());
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const int number = candidates[i].number;
      if (!made[i].ok())
        failed(made[i].fate, batch[i], "while it was compiled: " + made[i].text);
      else if (left() > 0)
        try_one(batch[i], number);
      if (!in_beam(number)) remove_kernel(number);
    }
  }

  void try_one(const List& list, int number) {
    Report report = workers_->ask(fmt::format("run {}", number));
    if (!report.ok()) return failed(report.fate, list, "while it ran: " + report.text);
    if (std::string off = judge_->judge([&] { return with_options(list); }); !off.empty())
      return failed(Fate::Wrong, list, off);
    // Most candidates of a long kernel are far from the best, and one run says so.
    if (!report.numbers.empty() && report.numbers[0] > best_ns() * kHopeless) return show();
    report =
        workers_->ask(fmt::format("time {} {} {}", number, kTimeSeconds, best_ns() * kGiveUp), kTimeSeconds);
    if (!report.ok() || report.numbers.empty())
      return failed(report.fate, list, "while it ran: " + report.text);
    const double ns = report.numbers[0];
    const bool is_best = ns < best_ns();
    const auto place = std::find_if(beam_.begin(), beam_.end(), [&](const Scored& s) { return ns < s.ns; });
    beam_.insert(place, {list, ns, number});
    if (beam_.size() > static_cast<std::size_t>(std::max(limits_.beam, 1))) {
      if (beam_.back().number != number) remove_kernel(beam_.back().number);
      beam_.pop_back();
    }
    if (is_best) add_point();
    show();
  }

  bool in_beam(int number) const {
    return std::any_of(beam_.begin(), beam_.end(), [&](const Scored& s) { return s.number == number; });
  }
  void remove_kernel(int number) const {
    std::error_code ignored;
    if (number != default_) std::filesystem::remove(kernel_file(folder_.path(), number), ignored);
  }

  void failed(Fate fate, const List& list, const std::string& why) {
    if (fate == Fate::Refused || fate == Fate::Ok) {
      ++result_.refused;
      return;
    }
    ++(fate == Fate::Crashed ? result_.crashed : fate == Fate::Hung ? result_.hung : result_.wrong);
    write_repro(fate, list, why);
  }

  // A file that `lathe inspect` and `lathe tune` read.
  void write_repro(Fate fate, const List& list, const std::string& why) {
    const std::string graph = print_graph(request_.kernel), options = to_string(list);
    const std::string path = fmt::format("{}/{}_{}_{:016x}.txt", repro_folder(), name(fate), request_.name,
                                         hash_string(graph + options));
    try {
      write_file_atomic(
          path,
          fmt::format("# {}\n# options (search): {}\n# {} on {}, target {}: {}\n{}\n", request_.name, options,
                      name(fate), request_.device->text, target_.name, why, graph),
          Sync::No);
      result_.repros.push_back(path);
    } catch (const DeviceError&) {
      // A search must not end because a folder cannot be written; the count stays.
    }
  }

  // ---- the last word: the best against the default, in turn

  void decide() {
    for (const Scored& best : beam_) {
      if (best.number == default_) break;
      const Report report =
          workers_->ask(fmt::format("duel {} {} {}", default_, best.number, kDuelSeconds), kDuelSeconds);
      if (!report.ok() || report.numbers.size() < 2) continue;
      result_.default_ns = report.numbers[0];
      if (report.numbers[1] > report.numbers[0] * (1 - limits_.least_gain)) continue;
      result_.options = best.options;
      result_.best_ns = report.numbers[1];
      result_.curve.push_back({seconds(), result_.best_ns});
      return;
    }
    result_.options = result_.default_options;
    result_.best_ns = result_.default_ns;
  }

  const Request& request_;
  const Limits& limits_;
  const Watch& watch_;
  const Target& target_;
  Shuffle shuffle_;
  Clock::time_point begin_ = Clock::now();
  JobFolder folder_;
  double bytes_ = 0;  // of all buffers
  Judge* judge_ = nullptr;
  Workers* workers_ = nullptr;
  Result result_;
  std::vector<Scored> beam_;  // best first
  std::set<std::string> seen_;
  int default_ = 0;  // the candidate that is the default
  int last_number_ = 0;
};

}  // namespace

Result search_kernel(const Request& request, const Limits& limits, const Watch& watch) {
  return Search(request, limits, watch).run();
}

}  // namespace lathe::search
