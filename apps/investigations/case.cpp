#include "apps/investigations/case.h"

#include <fmt/format.h>

#include <filesystem>

#include "apps/investigations/bank.h"

namespace lathe::investigations {
namespace {

constexpr std::size_t kStoredOutput = 64 << 10U;  // bytes of a scenario's output that are kept, of its end
constexpr double kSecondsBetweenPages = 1;

}  // namespace

std::string joined_words(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += ' ';
    if (!word.empty() &&
        word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%^") ==
            std::string::npos) {
      text += word;
      continue;
    }
    text += '\'';
    for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    text += '\'';
  }
  return text;
}

Case::Case(Store& store, const std::string& id, Tell tell) : store_(store), id_(id), tell_(std::move(tell)) {
  input_ = store.session(id).input;
  environment_ = store.environment(id);
  store_.forget_hypotheses(id);  // they are tested again, from what is remembered
  watcher_ = std::jthread([this](const std::stop_token& over) { watch(over); });
}

Case::~Case() {
  if (over_) over_();
}

void Case::watch(const std::stop_token& over) {
  while (!over.stop_requested()) {
    try {
      if (store_.cancel_requested(id_)) end(Early::Cancelled);
    } catch (const std::exception&) {  // a store that is busy is looked at again
    }
    if (seconds_left() <= 0) end(Early::OutOfBudget);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

void Case::end(Early why) {
  Early none = Early::No;
  early_.compare_exchange_strong(none, why);
}

std::string Case::scratch() const {
  std::string path = folder() + "/scratch";
  std::filesystem::create_directories(path);
  return path;
}

int Case::jobs() const {
  return input_.jobs > 0 ? input_.jobs : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

double Case::seconds_left() const {
  const std::chrono::duration<double> used = std::chrono::steady_clock::now() - begin_;
  return input_.seconds - used.count();
}

void Case::add(const dev::Hypothesis& hypothesis) {
  store_.add_hypothesis(id_, hypothesis);
  hypotheses_.push_back(hypothesis);
  if (pages_written_at_ - seconds_left() > kSecondsBetweenPages) {  // people may read along
    pages_written_at_ = seconds_left();
    try {
      write_bank(store_);
    } catch (const std::exception& error) {  // pages can be made again at any time
      event("bank", error.what());
    }
  }
  tell(fmt::format("{:9} {} [{:.0f} ms]", name(hypothesis.verdict), hypothesis.claim,
                   hypothesis.milliseconds));
  tell(fmt::format("          {}", hypothesis.evidence));
}

void Case::event(const std::string& kind, const std::string& text) { store_.add_event(id_, kind, text); }

void Case::tell(const std::string& line) {
  const std::lock_guard lock(telling_);
  if (tell_) tell_(line);
}

std::vector<Outcome> Case::run(const std::vector<Scenario>& scenarios,
                               const std::function<bool(std::size_t, const Outcome&)>& done) {
  check();
  const auto record = [&](std::size_t i, const Outcome& o) {
    const std::size_t from = o.output.size() > kStoredOutput ? o.output.size() - kStoredOutput : 0;
    store_.add_scenario(
        id_, {0, 0, scenarios[i].label, joined_words(scenarios[i].command), std::string(name(o.ending)),
              o.output.substr(from), o.status, o.seconds, o.peak});
    return !done || done(i, o);
  };
  std::vector<Outcome> outcomes =
      run_scenarios(scenarios, jobs(), id_, scratch(), [this] { return early() != Early::No; }, record);
  check();
  return outcomes;
}

std::vector<Observation> Case::new_observations() {
  std::vector<Observation> fresh;
  for (Observation& o : store_.observations(id_))
    if (o.number > observations_seen_) fresh.push_back(std::move(o));
  if (!fresh.empty()) observations_seen_ = fresh.back().number;
  return fresh;
}

}  // namespace lathe::investigations
