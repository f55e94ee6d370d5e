// Contenders of `lathe bench cpu` as processes: the parent's side (ContenderProcess) and the child's
// (serve_contender). A question and an answer are a line of JSON each:
//   {"do": "prepare", "row": {...}, "folder": "..."} -> {"version": "..."} or {"skip": "why it cannot"}
//   {"do": "run", "seconds": 0.05}                    -> {"best": seconds, "runs": n}
//   {"do": "queue", "seconds": 0.2}                   -> {"median": seconds, "given": seconds of the host,
//   "runs": n}
//   {"do": "kernels"}                                 -> {"kernels": [{"name", "options", "us", "gflops",
//   ...}]}
//   {"do": "roof", "device": "CUDA"}                  -> {"flops": a second, "bytes": a second}
//   {"do": "result", "places": [0, 5, ...]}           -> {"values": [...]}

#include <algorithm>
#include <chrono>
#include <iostream>

#include "lathe/dev/machine.h"
#include "tools/lathe/bench_cpu.h"

namespace lathe::tool {
namespace {

using Clock = std::chrono::steady_clock;
double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// The middle of several turns, each of as many runs as take some milliseconds, waited for once: what a run
// costs where runs follow each other.
Json queued_runs(Contender& contender, double seconds) {
  constexpr double kTurn = 0.004;
  constexpr int kMostQueued = 256, kFewestTurns = 5;
  contender.start();
  contender.wait();
  const auto first = Clock::now();
  contender.start();
  contender.wait();
  const int queued = std::clamp(static_cast<int>(kTurn / std::max(since(first), 1e-7)), 1, kMostQueued);
  std::vector<double> turns, given;
  for (const auto begin = Clock::now();
       since(begin) < seconds || (turns.size() < kFewestTurns && since(begin) < 4 * seconds);) {
    const auto start = Clock::now();
    for (int i = 0; i < queued; ++i) contender.start();
    given.push_back(since(start) / queued);
    contender.wait();
    turns.push_back(since(start) / queued);
  }
  const auto middle = [](std::vector<double>& seconds) {
    const auto at = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
    std::nth_element(seconds.begin(), at, seconds.end());
    return *at;
  };
  return {{"median", middle(turns)},
          {"given", middle(given)},
          {"runs", turns.size() * static_cast<std::size_t>(queued)}};
}

// Which kernels a run is made of, and what each takes.
Json kernels_of(Contender& contender) {
  contender.run();
  dev::set_profiling(true);
  for (int i = 0; i < 3; ++i) contender.run();
  Json kernels = Json::array();
  for (const dev::KernelCost& k : dev::kernel_costs())
    kernels.push_back({{"name", k.name},
                       {"options", k.options},
                       {"runs", k.runs},
                       {"us", k.seconds * 1e6 / static_cast<double>(std::max<std::uint64_t>(k.runs, 1))},
                       {"gflops", k.gflops},
                       {"gbytes", k.gbytes},
                       {"roof", k.roof}});
  dev::set_profiling(false);
  return {{"kernels", kernels}};
}

Json answer(Contender& contender, const Json& question) {
  const std::string what = question.at("do");
  if (what == "prepare") {
    const std::string why = contender.prepare(row_from_json(question.at("row")), question.at("folder"));
    return why.empty() ? Json{{"version", contender.version()}} : Json{{"skip", why}};
  }
  if (what == "run") {
    const double seconds = question.at("seconds");
    double best = 1e30;
    int runs = 0;
    for (const auto begin = Clock::now(); runs == 0 || since(begin) < seconds; ++runs) {
      const auto start = Clock::now();
      contender.run();
      best = std::min(best, since(start));
    }
    return {{"best", best}, {"runs", runs}};
  }
  if (what == "queue") return queued_runs(contender, question.at("seconds"));
  if (what == "kernels") return kernels_of(contender);
  if (what == "roof") {
    const dev::DeviceRoof roof = dev::roof_of(question.at("device"));
    return {{"flops", roof.flops}, {"bytes", roof.bytes}};
  }
  if (what == "result") return {{"values", contender.result(question.at("places"))}};
  return {{"error", "unknown question " + what}};
}

}  // namespace

int serve_contender(Contender& contender) {
  std::string line;
  while (std::getline(std::cin, line)) {
    Json reply;
    try {
      reply = answer(contender, Json::parse(line));
    } catch (const std::exception& error) {
      reply = {{"error", error.what()}};
    }
    std::cout << reply.dump() << std::endl;
  }
  return 0;
}

Json ContenderProcess::ask(const Json& question, double seconds) {
  dev::ChildProcess::Answer answer = child_.ask(question.dump(), seconds);
  for (; answer.ok; answer = child_.next_line(seconds)) {
    Json reply = Json::parse(answer.text, nullptr, false);
    if (reply.is_object()) return reply;  // anything else is a library's own chatter
  }
  return {{"error", answer.text}};
}

}  // namespace lathe::tool
