// How a conversation becomes the text that a model was trained on. Model files carry a template for it,
// written in Jinja; this runs the part of Jinja that published templates use, with the settings they expect
// (a statement's line break and the spaces before it are left out, missing names print nothing).
#pragma once

#include <ctime>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lathe::llm {

struct ChatMessage {
  std::string role, content;  // role: "system", "user", "assistant"
};

class ChatTemplate {
 public:
  // Throws UserError naming the line where the template is wrong.
  explicit ChatTemplate(std::string_view source);

  // Over any variables, a JSON object as text: {"messages": [...], "tools": [...], ...}. `now` is what
  // strftime_now sees. A refusal, also the template's own (raise_exception), is a UserError naming the line.
  std::string render(std::string_view variables, std::optional<std::time_t> now = std::nullopt) const;

  struct Options {
    bool add_generation_prompt = true;  // ends where the assistant begins to speak
    std::string begin = "", end = "";   // bos_token, eos_token
  };
  std::string render(std::span<const ChatMessage> messages, const Options& options) const;

 private:
  struct Parsed;
  std::shared_ptr<const Parsed> parsed_;  // shared: copies of a template are one tree
};

}  // namespace lathe::llm
