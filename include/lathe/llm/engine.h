// Many requests at once on one model: each step reads a piece of one prompt and writes a token of every
// sequence that has its prompt read. Sequences come and go between steps, and prompts that begin alike share
// the pages of their beginning. Where pages run out the youngest sequence gives its own back and is computed
// again later; with an invariant model nobody can tell.
//
//   llm::Engine engine(llm::load_checkpoint("stories260K.bin"));
//   std::cout << engine.generate({.prompt = engine.tokenizer().encode("Once upon a time")}).text;
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lathe/llm/model.h"
#include "lathe/llm/sampling.h"

namespace lathe::llm {

struct Request {
  std::vector<TokenId> prompt = {};
  std::int64_t max_tokens = 256;  // to write; less where the context ends before
  SamplingOptions sampling = {};
  std::vector<std::string> stop = {};  // sequences of text that end it, and are not given
  bool logprobs = false;
  std::size_t likeliest = 0;     // with logprobs: so many alternatives for each token
  bool ignore_end = false;       // goes on behind tokens that end a text
  bool json_object = false;      // writes a JSON object
  std::string json_schema = "";  // writes JSON of this schema, where it is not empty
};

enum class Finish : std::uint8_t { Stop, Length, Cancelled, Failed };

struct TokenText {
  TokenId token = 0;
  std::string bytes;
  double logprob = 0;
};
struct TokenReport {
  TokenText chosen;
  std::vector<TokenText> likeliest;
};

// What is new of a request: text in whole characters, of which no stop sequence is a part, and in the last
// one how it ended.
struct Update {
  std::string text;
  std::vector<TokenId> ids;         // as they were chosen, without one that ended the text
  std::vector<TokenReport> tokens;  // with logprobs
  std::optional<Finish> finish;
  std::string error;                                                      // where it failed
  std::int64_t prompt_tokens = 0, cached_tokens = 0, written_tokens = 0;  // so far
};
using Receiver = std::function<void(const Update&)>;

struct Generated {
  std::string text;
  std::vector<TokenId> ids;
  std::vector<TokenReport> tokens;
  Finish finish = Finish::Stop;
  std::int64_t prompt_tokens = 0, cached_tokens = 0;
};

struct EngineOptions {
  ModelOptions model = {};
  std::size_t queue = 256;  // requests that wait, at most
};

struct EngineStats {
  std::int64_t waiting = 0, running = 0;
  std::int64_t pages = 0, pages_held = 0, pages_remembered = 0;
  std::int64_t finished = 0, cancelled = 0, failed = 0, preempted = 0;
  std::int64_t prompt_tokens = 0, cached_tokens = 0, written_tokens = 0, steps = 0;
};

// More requests wait than the engine takes.
struct QueueFull : ErrorKind<QueueFull, UserError> {
  using ErrorKind::ErrorKind;
};
// A prompt leaves no place in the context.
struct ContextFull : ErrorKind<ContextFull, UserError> {
  using ErrorKind::ErrorKind;
};

class Engine {
 public:
  explicit Engine(Checkpoint checkpoint, EngineOptions options = {});
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  using Ticket = std::int64_t;
  // From any thread. Throws UserError where the request cannot be served; `receive` is called by whoever
  // calls step(), at last with a finish.
  Ticket submit(Request request, Receiver receive);
  void cancel(Ticket ticket);        // also of one that is over
  void cancel_up_to(Ticket ticket);  // it and all before it
  EngineStats stats() const;

  // One step of the model, by one thread at a time: others wait. False: there was nothing to do.
  bool step();

  // A request from beginning to end, in steps of this thread.
  Generated generate(const Request& request, const std::function<void(const std::string&)>& on_text = {});

  Model& model();
  const Model& model() const;
  const Tokenizer& tokenizer() const;
  const std::string& chat_template() const;  // empty where the model has none

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lathe::llm
