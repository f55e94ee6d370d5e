// `lathe chat`: a conversation with a language model in the terminal, or one answer off it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lathe/error.h"
#include "tools/lathe/commands.h"

#if LATHE_HAVE_LLM
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <fstream>
#include <iostream>
#include <random>

#include "lathe/dev/machine.h"
#include "lathe/dev/terminal.h"
#include "lathe/llm/chat_template.h"
#include "lathe/llm/engine.h"
#include "tools/lathe/llm_options.h"
#endif

namespace lathe::tool {

#if LATHE_HAVE_LLM
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  LlmOptions llm;
  std::string prompt, system;
  std::vector<std::string> stop;
  llm::SamplingOptions sampling{.temperature = 0.7, .top_p = 0.95};
  std::int64_t max_tokens = 1024;
  bool raw = false, stats = false, seeded = false;
};

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

class Chat {
 public:
  explicit Chat(const Options& o) : o_(o), engine_(opened(o.llm, loaded(o.llm), 1)) {
    if (!o_.seeded) o_.sampling.seed = std::random_device()();
    const std::string text = o_.raw ? "" : template_text(o_.llm, *engine_);
    if (!text.empty()) template_.emplace(text);
    forget();
  }

  int answer_once() {
    say(o_.prompt);
    fmt::print("\n");
    if (o_.stats) print_stats(stderr);
    return stopped_ ? 130 : 0;
  }

  int converse() {
    fmt::print("{}, {}; /help lists commands\n", o_.llm.model,
               template_ ? "one turn at a time" : "without a chat template: it continues your text");
    std::string line;
    while (true) {
      fmt::print("{}", dev::bold("> "));
      std::fflush(stdout);
      if (!std::getline(std::cin, line)) break;
      SignalNote::forget();
      if (line.empty()) continue;
      try {
        if (line[0] == '/') {
          if (!command(line)) break;
          continue;
        }
        say(line);
        fmt::print("\n");
        print_stats(stdout);
      } catch (const UserError& error) {  // of this turn: the conversation goes on
        fmt::print("{}\n", error.what());
      }
    }
    fmt::print("\n");
    return 0;
  }

 private:
  void forget() {
    messages_.clear();
    if (!o_.system.empty()) messages_.push_back({"system", o_.system});
  }

  std::vector<llm::TokenId> prompt_ids(const std::string& text) const {
    const llm::Tokenizer& t = engine_->tokenizer();
    if (!template_) return t.encode(text);
    const auto piece = [&](std::optional<llm::TokenId> id) { return id ? t.piece(*id) : std::string(); };
    return t.encode(template_->render(messages_, {.begin = piece(t.begin_id()), .end = piece(t.end_id())}),
                    {.add_special = false});
  }

  // One turn: printed as it comes, ended early by an interrupt.
  void say(const std::string& text) {
    messages_.push_back({"user", text});
    std::string answer;
    bool over = false;
    try {
      const auto begin = Clock::now();
      first_ = -1;
      stopped_ = false;
      const llm::Engine::Ticket ticket = engine_->submit(
          {.prompt = prompt_ids(text), .max_tokens = o_.max_tokens, .sampling = o_.sampling, .stop = o_.stop},
          [&](const llm::Update& u) {
            if (first_ < 0) first_ = seconds_since(begin);
            answer += u.text;
            fmt::print("{}", u.text);
            std::fflush(stdout);
            last_ = u;
            over = u.finish.has_value();
          });
      while (!over) {
        engine_->step();
        if (!over && SignalNote::came()) {
          engine_->cancel(ticket);
          stopped_ = true;
          SignalNote::forget();
        }
      }
      seconds_ = seconds_since(begin);
    } catch (...) {
      messages_.pop_back();
      throw;
    }
    if (*last_.finish == llm::Finish::Failed) {
      messages_.pop_back();
      throw UserError("chat", last_.error);
    }
    messages_.push_back({"assistant", answer});
    ++o_.sampling.seed;
  }

  // Every token reads all weights once, apart from the table that it takes one row of.
  double bytes_per_token() const {
    const llm::Checkpoint& c = engine_->model().checkpoint();
    auto bytes = static_cast<double>(c.bytes());
    if (!c.config.tied) bytes -= static_cast<double>(c.weight("token_embd.weight").nbytes());
    return bytes;
  }

  void print_stats(std::FILE* to) const {
    const auto written = static_cast<double>(last_.written_tokens);
    const double after_first = seconds_ - first_,
                 rate = written > 1 && after_first > 0 ? (written - 1) / after_first : 0;
    std::string line = fmt::format("{} + {} tokens, {:.0f} ms to the first", last_.prompt_tokens,
                                   last_.written_tokens, 1e3 * first_);
    if (last_.cached_tokens > 0) line += fmt::format(" ({} cached)", last_.cached_tokens);
    if (rate > 0) {
      line += fmt::format(", {:.1f} tokens/s", rate);
      const double roof = dev::roof_of(o_.llm.device.empty() ? "CPU" : o_.llm.device).bytes;
      if (roof > 0)
        line += fmt::format(", {:.0f} % of the memory roof", 100 * rate * bytes_per_token() / roof);
    }
    fmt::print(to, "{}\n", to == stdout ? dev::dim(line) : line);
  }

  // False: the conversation is over.
  bool command(const std::string& line) {
    const std::size_t space = line.find(' ');
    const std::string word = line.substr(1, space == std::string::npos ? space : space - 1);
    const std::string rest = space == std::string::npos ? "" : line.substr(space + 1);
    if (word == "exit" || word == "quit") return false;
    if (word == "help")
      help();
    else if (word == "clear")
      forget();
    else if (word == "system")
      set_system(rest);
    else if (word == "set")
      set(rest);
    else if (word == "retry")
      retry();
    else if (word == "history")
      history();
    else if (word == "save")
      save(rest);
    else
      refuse(word);
    return true;
  }

  static void help() {
    fmt::print(
        "/clear           start a new conversation\n"
        "/system TEXT     set the system message and start a new conversation\n"
        "/set NAME VALUE  temperature, top_k, top_p, min_p, repetition_penalty, seed, max_tokens\n"
        "/retry           repeat the last answer with other random numbers\n"
        "/history         print the conversation\n"
        "/save FILE       write the conversation to a file\n"
        "/exit            quit (also ctrl-D); ctrl-C stops an answer\n");
  }

  static void refuse(const std::string& word) {
    static const std::vector<std::string> known{"help",    "clear", "system", "set", "retry",
                                                "history", "save",  "exit",   "quit"};
    const auto meant = dev::nearest_word(word, known);
    fmt::print("there is no command /{}{}; /help lists them\n", word,
               meant ? fmt::format(" (did you mean /{}?)", *meant) : "");
  }

  void set_system(const std::string& text) {
    o_.system = text;
    forget();
  }

  void set(const std::string& rest) {
    const std::size_t space = rest.find(' ');
    const std::string name = rest.substr(0, space),
                      text = space == std::string::npos ? "" : rest.substr(space + 1);
    double value = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
    if (read.ec != std::errc() || read.ptr != text.data() + text.size()) {
      fmt::print("/set {}: \"{}\" is not a number\n", name, text);
      return;
    }
    llm::SamplingOptions changed = o_.sampling;
    if (name == "temperature")
      changed.temperature = value;
    else if (name == "top_k")
      changed.top_k = static_cast<std::int64_t>(value);
    else if (name == "top_p")
      changed.top_p = value;
    else if (name == "min_p")
      changed.min_p = value;
    else if (name == "repetition_penalty")
      changed.repetition_penalty = value;
    else if (name == "seed")
      changed.seed = static_cast<std::uint64_t>(std::max(value, 0.0));
    else if (name == "max_tokens" && value >= 1)
      o_.max_tokens = static_cast<std::int64_t>(value);
    else
      fmt::print("there is no setting {} that takes {}\n", name, text);
    llm::check(changed);
    o_.sampling = changed;
  }

  void retry() {
    if (messages_.size() < 2 || messages_.back().role != "assistant") {
      fmt::print("there is no answer to repeat yet\n");
      return;
    }
    messages_.pop_back();
    const std::string text = messages_.back().content;
    messages_.pop_back();
    say(text);
    fmt::print("\n");
    print_stats(stdout);
  }

  std::string transcript() const {
    std::string out;
    for (const llm::ChatMessage& m : messages_) out += fmt::format("{}: {}\n", m.role, m.content);
    return out;
  }
  void history() const { fmt::print("{}", transcript()); }
  void save(const std::string& file) const {
    std::ofstream out(file);
    out << transcript();
    out.flush();
    if (!out) fmt::print("cannot write {}\n", file.empty() ? "a file without a name" : file);
  }

  Options o_;
  std::unique_ptr<llm::Engine> engine_;
  std::optional<llm::ChatTemplate> template_;
  std::vector<llm::ChatMessage> messages_;
  llm::Update last_;
  double first_ = 0, seconds_ = 0;
  bool stopped_ = false;
};

int chat(Options& o, bool prompt_given) {
  if (!prompt_given && isatty(STDIN_FILENO) == 0 && isatty(STDOUT_FILENO) == 0) {
    // In a pipe the input is one prompt.
    o.prompt.assign(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
    while (!o.prompt.empty() && o.prompt.back() == '\n') o.prompt.pop_back();
    prompt_given = true;
  }
  llm::check(o.sampling);
  const SignalNote signals;
  Chat chat(o);
  return prompt_given ? chat.answer_once() : chat.converse();
}

}  // namespace

std::vector<Command> add_chat(CLI::App& app) {
  CLI::App* command = app.add_subcommand("chat", "chat with a language model in the terminal");
  const auto o = std::make_shared<Options>();
  add_llm_options(*command, o->llm);
  CLI::Option* prompt = command->add_option("--prompt", o->prompt, "answer this one message and exit");
  command->add_option("--system", o->system, "the system message");
  command->add_flag("--raw", o->raw, "continue the text, without a chat template");
  command->add_option("--max-tokens", o->max_tokens, "most tokens of an answer (1024)")
      ->check(between(1, 1 << 20));
  command->add_option("--temperature", o->sampling.temperature, "0: always the likeliest token (0.7)");
  command->add_option("--top-k", o->sampling.top_k, "choose among this many likeliest tokens (0: all)");
  command->add_option("--top-p", o->sampling.top_p,
                      "choose among the likeliest tokens that together reach this probability (0.95)");
  command->add_option("--min-p", o->sampling.min_p,
                      "choose among tokens with at least this fraction of the highest probability (0)");
  command->add_option("--repetition-penalty", o->sampling.repetition_penalty,
                      "makes tokens that occurred less likely (1: off)");
  o->llm.fast = true;  // nothing else is in its batch
  command->add_flag("!--invariant", o->llm.fast, "the same tokens as lathe serve, bit for bit; slower");
  CLI::Option* seed =
      command->add_option("--seed", o->sampling.seed, "seed of the random numbers (default: random)");
  command->add_option("--stop", o->stop, "text that ends an answer");
  command->add_flag("--stats", o->stats, "with --prompt: print tokens per second to standard error");
  return {{command, [o, prompt, seed] {
             o->seeded = seed->count() > 0;
             return chat(*o, prompt->count() > 0);
           }}};
}

#else

std::vector<Command> add_chat(CLI::App&) { return {}; }

#endif

}  // namespace lathe::tool
