#include "lathe/llm/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <unordered_set>

#include "apps/llm/generation.h"
#include "apps/llm/pages.h"

namespace lathe::llm {
namespace {

constexpr std::string_view kOp = "generate";
constexpr std::size_t kMostLikeliest = 20;

const Tokenizer& tokenizer_of(const Checkpoint& c) {
  if (!c.tokenizer)
    throw UserError(kOp, "the model comes without a tokenizer").help("LoadOptions::tokenizer names its file");
  return *c.tokenizer;
}

std::vector<TokenId> ends_of(const Checkpoint& c) {
  std::vector<TokenId> ends = c.config.ends;
  for (const TokenId id : tokenizer_of(c).stop_ids())
    if (std::find(ends.begin(), ends.end(), id) == ends.end()) ends.push_back(id);
  return ends;
}

}  // namespace

struct Engine::Impl {
  struct Sequence {
    Ticket ticket;
    Generation generation;
    Receiver receive;
    std::vector<PageId> pages;
    std::size_t read = 0;  // tokens whose keys and values are in the pages
    std::int64_t cached = 0;
    bool is_reading() const { return generation.tokens().size() - read > 1 || !started; }
    bool started = false;  // has looked for pages of an earlier prompt
  };
  using SequenceRef = std::unique_ptr<Sequence>;

  Impl(Checkpoint checkpoint, const EngineOptions& o)
      : options(o),
        model(std::move(checkpoint), o.model),
        ends(ends_of(model.checkpoint())),
        pages(model.options().pages, model.options().page_tokens) {}

  // ---- any thread

  void check(const Request& r) const {
    llm::check(r.sampling);
    if (r.prompt.empty()) throw UserError(kOp, "the prompt has no tokens");
    for (const TokenId id : r.prompt)
      if (id < 0 || id >= model.config().vocabulary)
        throw UserError(
            kOp, fmt::format("the prompt has token {} of a vocabulary of {}", id, model.config().vocabulary));
    const auto size = static_cast<std::int64_t>(r.prompt.size());
    const std::int64_t most = std::min(model.options().context, pages.count() * model.options().page_tokens);
    if (size >= most)
      throw ContextFull(
          kOp, fmt::format("the prompt has {} tokens, and the context of {} leaves no place for an answer",
                           size, most));
    if (r.max_tokens < 1)
      throw UserError(kOp, fmt::format("max_tokens is {}, which is not 1 or more", r.max_tokens));
    if (r.likeliest > kMostLikeliest)
      throw UserError(
          kOp, fmt::format("{} alternatives for each token, of at most {}", r.likeliest, kMostLikeliest));
    if (r.json_object && !r.json_schema.empty())
      throw UserError(kOp, "both any JSON object and a schema are wanted");
  }

  const TokenTrie* trie_for(const Request& r) {
    if (!r.logprobs && !r.json_object && r.json_schema.empty()) return nullptr;
    std::call_once(trie_made, [&] { trie = std::make_unique<TokenTrie>(tokenizer_of(model.checkpoint())); });
    return trie.get();
  }

  Ticket submit(Request request, Receiver receive) {
    check(request);
    const TokenTrie* bytes = trie_for(request);
    const std::int64_t most = std::min(model.options().context, pages.count() * model.options().page_tokens);
    Generation generation(std::move(request), tokenizer_of(model.checkpoint()), ends, bytes, most);
    const std::lock_guard lock(mutex);
    if (inbox.size() + static_cast<std::size_t>(counts.waiting) >= options.queue)
      throw QueueFull(kOp, fmt::format("{} requests are waiting", options.queue)).help("try again later");
    const Ticket ticket = ++last_ticket;
    inbox.push_back(std::make_unique<Sequence>(
        Sequence{ticket, std::move(generation), std::move(receive), {}, 0, 0, false}));
    return ticket;
  }

  // ---- the thread that steps

  void give(Sequence& s, Update u) {
    u.cached_tokens = s.cached;
    if (u.finish) {
      const std::lock_guard lock(mutex);
      counts.finished += *u.finish == Finish::Stop || *u.finish == Finish::Length ? 1 : 0;
      counts.cancelled += *u.finish == Finish::Cancelled ? 1 : 0;
      counts.failed += *u.finish == Finish::Failed ? 1 : 0;
      counts.prompt_tokens += u.prompt_tokens;
      counts.cached_tokens += u.cached_tokens;
      counts.written_tokens += u.written_tokens;
    }
    s.receive(u);
  }

  void release(Sequence& s) {
    for (const PageId page : s.pages) pages.release(page);
    s.pages.clear();
    s.read = 0;
    s.started = false;
  }

  void drop(const SequenceRef& s, Update u) {
    release(*s);
    give(*s, std::move(u));
  }

  void take_in() {
    std::vector<SequenceRef> cancelled;
    {
      const std::lock_guard lock(mutex);
      for (SequenceRef& s : inbox) waiting.push_back(std::move(s));
      inbox.clear();
      const auto collect = [&](auto& from) {
        for (SequenceRef& s : from)
          if (s->ticket <= cancelled_up_to || to_cancel.contains(s->ticket))
            cancelled.push_back(std::move(s));
        std::erase(from, nullptr);
      };
      collect(waiting);
      collect(running);
      to_cancel.clear();
    }
    for (const SequenceRef& s : cancelled) drop(s, s->generation.ended(Finish::Cancelled));
    while (!waiting.empty() && static_cast<std::int64_t>(running.size()) < model.options().sequences) {
      running.push_back(std::move(waiting.front()));
      waiting.pop_front();
    }
  }

  // Pages for so many more tokens of a sequence. The youngest of the others gives its own back where none are
  // left; false where the sequence itself is the youngest.
  bool make_room(Sequence& s, std::size_t tokens) {
    const auto needed = static_cast<std::size_t>(model.pages_of(static_cast<std::int64_t>(s.read + tokens)));
    while (s.pages.size() < needed) {
      if (const std::optional<PageId> page = pages.take()) {
        s.pages.push_back(*page);
        continue;
      }
      const auto youngest = std::find_if(running.rbegin(), running.rend(),
                                         [](const SequenceRef& r) { return !r->pages.empty(); });
      if (youngest == running.rend() || youngest->get() == &s) return false;
      send_back(std::next(youngest).base());
    }
    return true;
  }

  void send_back(std::vector<SequenceRef>::iterator at) {
    release(**at);
    waiting.push_front(std::move(*at));
    running.erase(at);
    const std::lock_guard lock(mutex);
    ++counts.preempted;
  }

  // The next piece of a sequence's prompt, or of what it wrote before it gave back its pages.
  std::span<const TokenId> piece(Sequence& s) {
    const std::span<const TokenId> tokens = s.generation.tokens();
    if (!s.started) {
      // At least one token is left to read, for the logits behind it.
      s.pages = pages.find(tokens.first(tokens.size() - 1));
      s.read = s.pages.size() * static_cast<std::size_t>(model.options().page_tokens);
      s.cached = std::max(s.cached, static_cast<std::int64_t>(std::min(s.read, s.generation.prompt())));
      s.started = true;
    }
    return tokens.subspan(s.read,
                          std::min(tokens.size() - s.read, static_cast<std::size_t>(model.options().chunk)));
  }

  void after_step(Sequence& s, std::size_t tokens, std::span<const float> logits,
                  std::vector<std::pair<Sequence*, Update>>& updates) {
    s.read += tokens;
    const std::span<const TokenId> known = s.generation.tokens();
    const auto size = static_cast<std::size_t>(model.options().page_tokens);
    if (s.read / size > (s.read - tokens) / size) pages.remember(s.pages, known.first(s.read));
    if (s.read < known.size()) return;
    try {
      updates.emplace_back(&s, s.generation.take(logits));
    } catch (const Error& error) {
      updates.emplace_back(&s, s.generation.ended(Finish::Failed, error.what()));
    }
  }

  void deliver(std::vector<std::pair<Sequence*, Update>> updates) {
    for (auto& [s, update] : updates) {
      if (!update.finish) {
        give(*s, std::move(update));
        continue;
      }
      const auto at = std::find_if(running.begin(), running.end(),
                                   [s = s](const SequenceRef& r) { return r.get() == s; });
      const SequenceRef over = std::move(*at);
      running.erase(at);
      drop(over, std::move(update));
    }
  }

  bool read_prompt() {
    const auto at =
        std::find_if(running.begin(), running.end(), [](const SequenceRef& s) { return s->is_reading(); });
    if (at == running.end()) return false;
    Sequence& s = **at;
    const std::span<const TokenId> tokens = piece(s);
    if (!make_room(s, tokens.size())) {
      const auto own =
          std::find_if(running.begin(), running.end(), [&](const SequenceRef& r) { return r.get() == &s; });
      send_back(own);
      return true;
    }
    const StepSequence step{tokens, static_cast<std::int64_t>(s.read), s.pages};
    const auto logits = model.step(std::span(&step, 1));
    std::vector<std::pair<Sequence*, Update>> updates;
    after_step(s, tokens.size(), logits[0], updates);
    deliver(std::move(updates));
    return true;
  }

  bool write_tokens() {
    std::vector<Sequence*> batch;
    for (std::size_t i = 0; i < running.size(); ++i) {
      Sequence* s = running[i].get();
      if (s->is_reading()) continue;
      const bool room = make_room(*s, 1);  // may send back sequences behind this one
      const auto at =
          std::find_if(running.begin(), running.end(), [&](const SequenceRef& r) { return r.get() == s; });
      i = static_cast<std::size_t>(at - running.begin());
      if (room) {
        batch.push_back(s);
      } else {
        send_back(at);
        --i;
      }
    }
    if (batch.empty()) return false;
    std::vector<StepSequence> steps;
    for (Sequence* s : batch)
      steps.push_back({std::span(s->generation.tokens()).subspan(s->read, 1),
                       static_cast<std::int64_t>(s->read), s->pages});
    const auto logits = model.step(steps);
    std::vector<std::pair<Sequence*, Update>> updates;
    for (std::size_t i = 0; i < batch.size(); ++i) after_step(*batch[i], 1, logits[i], updates);
    deliver(std::move(updates));
    return true;
  }

  bool step() {
    take_in();
    const bool was_alone = running.size() == 1;
    bool worked = false;
    try {
      worked = read_prompt();
      worked = write_tokens() || worked;
    } catch (const std::exception& error) {  // the model itself failed: no request can be answered
      for (SequenceRef& s : std::exchange(running, {}))
        drop(s, s->generation.ended(Finish::Failed, error.what()));
      worked = true;
    }
    // One that is alone and has no place will never have one.
    if (!worked && was_alone && !running.empty()) {
      const SequenceRef s = std::move(running.front());
      running.clear();
      drop(s, s->generation.ended(Finish::Failed, "the key-value cache is too small"));
    }
    const std::lock_guard lock(mutex);
    counts.steps += worked ? 1 : 0;
    counts.waiting = static_cast<std::int64_t>(waiting.size());
    counts.running = static_cast<std::int64_t>(running.size());
    counts.pages_held = pages.held();
    counts.pages_remembered = pages.remembered();
    return worked || !waiting.empty() || !inbox.empty();
  }

  EngineOptions options;
  Model model;
  std::vector<TokenId> ends;
  Pages pages;
  std::deque<SequenceRef> waiting;
  std::vector<SequenceRef> running;  // the oldest first
  std::once_flag trie_made;
  std::unique_ptr<TokenTrie> trie;

  std::mutex stepping;
  mutable std::mutex mutex;  // guards what follows
  std::vector<SequenceRef> inbox;
  std::unordered_set<Ticket> to_cancel;
  Ticket last_ticket = 0, cancelled_up_to = 0;
  EngineStats counts;
};

Engine::Engine(Checkpoint checkpoint, EngineOptions options)
    : impl_(std::make_unique<Impl>(std::move(checkpoint), options)) {}
Engine::~Engine() = default;

Engine::Ticket Engine::submit(Request request, Receiver receive) {
  return impl_->submit(std::move(request), std::move(receive));
}

void Engine::cancel(Ticket ticket) {
  const std::lock_guard lock(impl_->mutex);
  impl_->to_cancel.insert(ticket);
}

void Engine::cancel_up_to(Ticket ticket) {
  const std::lock_guard lock(impl_->mutex);
  impl_->cancelled_up_to = std::max(impl_->cancelled_up_to, ticket);
}

EngineStats Engine::stats() const {
  const std::lock_guard lock(impl_->mutex);
  EngineStats out = impl_->counts;
  out.waiting += static_cast<std::int64_t>(impl_->inbox.size());
  out.pages = impl_->pages.count();
  return out;
}

bool Engine::step() {
  const std::lock_guard one_at_a_time(impl_->stepping);
  return impl_->step();
}

Generated Engine::generate(const Request& request, const std::function<void(const std::string&)>& on_text) {
  Generated out;
  std::optional<Update> last;
  std::exception_ptr thrown;  // by on_text
  const Ticket ticket = submit(request, [&](const Update& u) {
    out.text += u.text;
    out.ids.insert(out.ids.end(), u.ids.begin(), u.ids.end());
    out.tokens.insert(out.tokens.end(), u.tokens.begin(), u.tokens.end());
    if (u.finish) last = u;
    try {
      if (on_text && !u.text.empty() && !thrown) on_text(u.text);
    } catch (...) {
      thrown = std::current_exception();
    }
  });
  while (!last && !thrown) step();
  if (thrown) {
    cancel(ticket);
    while (!last) step();
    std::rethrow_exception(thrown);
  }
  if (*last->finish == Finish::Failed) throw UserError(kOp, last->error);
  out.finish = *last->finish;
  out.prompt_tokens = last->prompt_tokens;
  out.cached_tokens = last->cached_tokens;
  return out;
}

Model& Engine::model() { return impl_->model; }
const Model& Engine::model() const { return impl_->model; }
const Tokenizer& Engine::tokenizer() const { return *impl_->model.checkpoint().tokenizer; }
const std::string& Engine::chat_template() const {
  const Checkpoint& c = impl_->model.checkpoint();
  return c.chat_template.empty() ? c.tokenizer->chat_template() : c.chat_template;
}

}  // namespace lathe::llm
