#include "tools/lathe/llm_options.h"

#if LATHE_HAVE_LLM

#include <fmt/format.h>
#include <signal.h>

#include <fstream>
#include <iterator>

#include "lathe/error.h"
#include "tools/lathe/commands.h"

namespace lathe::tool {

void add_llm_options(CLI::App& command, LlmOptions& o) {
  command
      .add_option("model", o.model,
                  "a GGUF file, a folder with config.json and safetensors, or a llama2.c checkpoint")
      ->required()
      ->check(existing_path());
  command.add_option("--tokenizer", o.tokenizer,
                     "the tokenizer's file, if it is not in or next to the model");
  command.add_option("--chat-template", o.chat_template,
                     "a Jinja template file to use instead of the model's");
  command
      .add_option("--context", o.context,
                  "most tokens of a conversation (default: the model's, at most 4096)")
      ->check(between(0, 1 << 20));
  command.add_option("--cache-mib", o.cache_mib, "memory for keys and values, in MiB")
      ->check(between(0, 1 << 20));
  command.add_option("--device", o.device, "device to run the model on, such as CPU or CUDA");
  command.add_flag(
      "--byte-activations", o.byte_activations,
      "round activations to bytes in products with Q4_0, Q8_0 and Q4_K weights; faster with AVX-512 VNNI");
}

llm::Checkpoint loaded(const LlmOptions& o) {
  return llm::load_checkpoint(o.model, {.device = o.device, .tokenizer = o.tokenizer});
}

std::unique_ptr<llm::Engine> opened(const LlmOptions& o, llm::Checkpoint checkpoint, std::int64_t sequences,
                                    std::size_t queue) {
  llm::EngineOptions options;
  options.model = {.context = o.context,
                   .sequences = sequences,
                   .invariant = !o.fast,
                   .byte_activations = o.byte_activations,
                   .device = o.device};
  options.queue = queue;
  if (o.cache_mib > 0) {
    const llm::ModelConfig& c = checkpoint.config;
    const std::int64_t page = 8 * c.layers * options.model.page_tokens * c.kv_heads * c.head_dim;
    options.model.pages = std::max<std::int64_t>(o.cache_mib * (1 << 20) / page, 1);
  }
  return std::make_unique<llm::Engine>(std::move(checkpoint), options);
}

std::string template_text(const LlmOptions& o, const llm::Engine& engine) {
  if (o.chat_template.empty()) return engine.chat_template();
  std::ifstream in(o.chat_template, std::ios::binary);
  if (!in) throw MissingFile("chat", fmt::format("cannot read {}", o.chat_template));
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

namespace {
volatile sig_atomic_t signal_came = 0;
}  // namespace

struct SignalNote::Before {
  struct sigaction interrupt, terminate;
};

SignalNote::SignalNote() : before_(std::make_unique<Before>()) {
  struct sigaction note = {};
  note.sa_handler = [](int) { signal_came = 1; };
  sigemptyset(&note.sa_mask);  // without SA_RESTART: a read of the terminal ends
  sigaction(SIGINT, &note, &before_->interrupt);
  sigaction(SIGTERM, &note, &before_->terminate);
}

SignalNote::~SignalNote() {
  sigaction(SIGINT, &before_->interrupt, nullptr);
  sigaction(SIGTERM, &before_->terminate, nullptr);
}

bool SignalNote::came() { return signal_came != 0; }
void SignalNote::forget() { signal_came = 0; }

}  // namespace lathe::tool

#endif
