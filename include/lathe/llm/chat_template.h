// Chat templates: how a conversation becomes the text format that a model was trained on. Model files carry a
// template in Jinja; this implements the part of Jinja that published templates use, with the settings they
// expect (trim_blocks and lstrip_blocks; undefined names print nothing).
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
  // Parses the template. Throws UserError that names the line of a mistake.
  explicit ChatTemplate(std::string_view source);

  // Renders with any variables, given as the text of a JSON object: {"messages": [...], "tools": [...], ...}.
  // `now` is the time for strftime_now. An error, including the template's own raise_exception, is a
  // UserError that names the line.
  std::string render(std::string_view variables, std::optional<std::time_t> now = std::nullopt) const;

  struct Options {
    bool add_generation_prompt = true;  // end with the start of the assistant's turn
    std::string begin = "", end = "";   // bos_token, eos_token
  };
  std::string render(std::span<const ChatMessage> messages, const Options& options) const;

 private:
  struct Parsed;
  std::shared_ptr<const Parsed> parsed_;  // shared: copies of a template share the parse tree
};

}  // namespace lathe::llm
