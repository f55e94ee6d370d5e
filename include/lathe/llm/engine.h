// Serves many requests on one model with continuous batching: each step processes a piece of one prompt and
// generates a token for every sequence whose prompt is done. Sequences join and leave between steps, and
// prompts with a common prefix share its cache pages. When pages run out, the youngest sequence is preempted
// and recomputed later; with an invariant model its result is the same.
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
  std::int64_t max_tokens = 256;  // most tokens to generate; fewer if the context is full before
  SamplingOptions sampling = {};
  std::vector<std::string> stop = {};  // texts that end the generation; they are not part of the result
  bool logprobs = false;
  std::size_t likeliest = 0;     // with logprobs: the number of alternatives reported per token
  bool ignore_end = false;       // continue after tokens that end a text
  bool json_object = false;      // constrain the text to a JSON object
  std::string json_schema = "";  // constrain the text to JSON of this schema, unless empty
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

// Progress of a request: new text, in complete characters and without stop sequences. The last update says
// how the request ended.
struct Update {
  std::string text;
  std::vector<TokenId> ids;         // the generated tokens, without the one that ended the text
  std::vector<TokenReport> tokens;  // with logprobs
  std::optional<Finish> finish;
  std::string error;                                                      // the reason, if it failed
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
  std::size_t queue = 256;  // most waiting requests
};

struct EngineStats {
  std::int64_t waiting = 0, running = 0;
  std::int64_t pages = 0, pages_held = 0, pages_remembered = 0;
  std::int64_t finished = 0, cancelled = 0, failed = 0, preempted = 0;
  std::int64_t prompt_tokens = 0, cached_tokens = 0, written_tokens = 0, steps = 0;
};

// The queue of waiting requests is full.
struct QueueFull : ErrorKind<QueueFull, UserError> {
  using ErrorKind::ErrorKind;
};
// A prompt fills the context and leaves no room for a new token.
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
  // Queues a request; thread-safe. Throws UserError if the request cannot be served. `receive` is called by
  // the thread that calls step(), the last time with a finish.
  Ticket submit(Request request, Receiver receive);
  void cancel(Ticket ticket);        // has no effect on a finished request
  void cancel_up_to(Ticket ticket);  // this request and all earlier ones
  EngineStats stats() const;

  // Runs one step of the model, on one thread at a time; others wait. Returns false if there was nothing to
  // do.
  bool step();

  // Runs a request to its end with steps on this thread.
  Generated generate(const Request& request, const std::function<void(const std::string&)>& on_text = {});

  Model& model();
  const Model& model() const;
  const Tokenizer& tokenizer() const;
  const std::string& chat_template() const;  // empty if the model has none

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lathe::llm
