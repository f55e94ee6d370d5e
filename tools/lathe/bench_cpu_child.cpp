// Contenders of `lathe bench cpu` as processes: the parent's side (ContenderProcess) and the child's
// (serve_contender). A question and an answer are a line of JSON each:
//   {"do": "prepare", "row": {...}, "folder": "..."} -> {"version": "..."} or {"skip": "why it cannot"}
//   {"do": "run", "seconds": 0.05}                    -> {"best": seconds, "runs": n}
//   {"do": "result", "places": [0, 5, ...]}           -> {"values": [...]}

#include <algorithm>
#include <chrono>
#include <iostream>

#include "tools/lathe/bench_cpu.h"

namespace lathe::tool {
namespace {

using Clock = std::chrono::steady_clock;
double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

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
