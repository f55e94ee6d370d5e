// What `lathe chat` and `lathe serve` are both told: the model and how it is set up.
#pragma once

#if LATHE_HAVE_LLM

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "lathe/llm/engine.h"

namespace lathe::tool {

struct LlmOptions {
  std::string model, tokenizer, chat_template, device;
  std::int64_t context = 0, cache_mib = 0;
  bool fast = false, byte_activations = false;
};

void add_llm_options(CLI::App& command, LlmOptions& options);
llm::Checkpoint loaded(const LlmOptions& options);
// The engine for `sequences` at once.
std::unique_ptr<llm::Engine> opened(const LlmOptions& options, llm::Checkpoint checkpoint,
                                    std::int64_t sequences, std::size_t queue = 256);
// The text of --chat-template's file, or of the model; empty where there is none.
std::string template_text(const LlmOptions& options, const llm::Engine& engine);

// Takes a note of SIGINT and SIGTERM while it lives, in place of what they did before.
class SignalNote {
 public:
  SignalNote();
  ~SignalNote();
  SignalNote(const SignalNote&) = delete;
  SignalNote& operator=(const SignalNote&) = delete;
  static bool came();
  static void forget();

 private:
  struct Before;
  std::unique_ptr<Before> before_;
};

}  // namespace lathe::tool

#endif
