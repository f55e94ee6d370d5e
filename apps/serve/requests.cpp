// Bodies into requests.
#include <fmt/format.h>

#include <ctime>
#include <random>

#include "apps/serve/parameters.h"

namespace lathe::llm::serve {
namespace {

constexpr EncodeOptions kChatText{.add_special = false, .parse_special = true};

// As the templates want it: text, where parts of other kinds are refused.
Json plain_message(const Json& message) {
  if (!message.is_object() || !message.contains("role") || !message.at("role").is_string())
    refuse("a message is an object with a role", "messages");
  Json out = message;
  if (!message.contains("content") || message.at("content").is_null()) {
    if (!message.contains("tool_calls")) refuse("a message has no content", "messages");
    out["content"] = "";
    return out;
  }
  const Json& content = message.at("content");
  if (content.is_string()) return out;
  if (!content.is_array()) refuse("the content of a message is a string or a list of parts", "messages");
  std::string text;
  for (const Json& part : content) {
    const bool is_text = part.is_object() && part.value("type", "") == "text" && part.contains("text") &&
                         part.at("text").is_string();
    if (!is_text) refuse("only parts of type text are supported", "messages");
    text += part.at("text").get<std::string>();
  }
  out["content"] = text;
  return out;
}

std::string piece_text(const Tokenizer& tokenizer, std::optional<TokenId> id) {
  return id ? tokenizer.piece(*id) : "";
}

std::string prompt_of(const Parameters& p, const Serving& serving) {
  const Json* messages = p.find("messages");
  if (messages == nullptr || !messages->is_array() || messages->empty())
    refuse("messages is not a list of messages", "messages");
  if (serving.chat_template == nullptr)
    throw Refusal{400, "the model has no chat template; /v1/completions continues text",
                  "invalid_request_error", "no_chat_template", "messages"};
  const std::string choice = p.find("tool_choice") != nullptr && p.find("tool_choice")->is_string()
                                 ? p.text("tool_choice", "")
                             : p.find("tool_choice") != nullptr ? "object"
                                                                : "auto";
  if (choice != "auto" && choice != "none") refuse("tool_choice is auto or none", "tool_choice");
  const Tokenizer& tokenizer = serving.engine.tokenizer();
  Json variables = {{"messages", Json::array()},
                    {"add_generation_prompt", true},
                    {"bos_token", piece_text(tokenizer, tokenizer.begin_id())},
                    {"eos_token", piece_text(tokenizer, tokenizer.end_id())}};
  for (const Json& message : *messages) variables["messages"].push_back(plain_message(message));
  if (const Json* tools = p.find("tools"); tools != nullptr && choice != "none") variables["tools"] = *tools;
  if (const Json* more = p.find("chat_template_kwargs")) {
    if (!more->is_object()) refuse("chat_template_kwargs is not an object", "chat_template_kwargs");
    for (const auto& [key, value] : more->items()) variables[key] = value;
  }
  return serving.chat_template->render(variables.dump(-1, ' ', false, Json::error_handler_t::replace));
}

std::string fresh_id(const char* prefix) {
  std::random_device random;
  return fmt::format("{}-{:08x}{:08x}{:08x}", prefix, random(), random(), random());
}

Asked begin(const Parameters& p, const Serving& serving, Kind kind) {
  Asked a;
  a.kind = kind;
  a.model = model_of(p, serving.model);
  a.stream = p.flag("stream", false);
  if (const Json* options = p.find("stream_options")) {
    if (!options->is_object()) refuse("stream_options is not an object", "stream_options");
    a.usage_in_stream = Parameters(*options).flag("include_usage", false);
  }
  a.id = fresh_id(kind == Kind::Chat ? "chatcmpl" : "cmpl");
  a.created = static_cast<std::int64_t>(std::time(nullptr));
  return a;
}

void add_choices(Asked& a, const Parameters& p, const Serving& serving, const Request& base) {
  const std::int64_t n = p.whole("n", 1);
  if (n < 1 || n > serving.most_choices - static_cast<std::int64_t>(a.requests.size()))
    refuse(fmt::format("n is {}, and a request has 1 to {} choices", n, serving.most_choices), "n");
  for (std::int64_t i = 0; i < n; ++i) {
    a.requests.push_back(base);
    a.requests.back().sampling.seed += static_cast<std::uint64_t>(i) * 0x9e3779b97f4a7c15U;
  }
}

}  // namespace

Asked asked_chat(const Json& body, const Serving& serving) {
  const Parameters p(body);
  Asked a = begin(p, serving, Kind::Chat);
  Request r = request_of(p, serving.engine);
  r.logprobs = p.flag("logprobs", false);
  r.likeliest = static_cast<std::size_t>(std::clamp<std::int64_t>(p.whole("top_logprobs", 0), -1, 1000));
  if (r.likeliest > 20) refuse("top_logprobs is not 0 to 20", "top_logprobs");
  if (r.likeliest > 0 && !r.logprobs) refuse("top_logprobs needs logprobs", "top_logprobs");
  r.prompt = serving.engine.tokenizer().encode(prompt_of(p, serving), kChatText);
  add_choices(a, p, serving, r);
  return a;
}

Asked asked_text(const Json& body, const Serving& serving) {
  const Parameters p(body);
  Asked a = begin(p, serving, Kind::Text);
  Request r = request_of(p, serving.engine);
  if (p.find("max_tokens") == nullptr && p.find("max_completion_tokens") == nullptr) r.max_tokens = 16;
  if (const std::int64_t likeliest = p.whole("logprobs", -1); likeliest >= 0) {
    if (likeliest > 20) refuse("logprobs is not 0 to 20", "logprobs");
    r.logprobs = true;
    r.likeliest = static_cast<std::size_t>(likeliest);
  }
  if (p.whole("best_of", p.whole("n", 1)) != p.whole("n", 1))
    refuse("best_of other than n is not supported", "best_of");
  const Json* prompt = p.find("prompt");
  if (prompt == nullptr) refuse("prompt is missing", "prompt");
  const bool echo = p.flag("echo", false);
  if (echo && r.logprobs) refuse("echo with logprobs is not supported", "echo");
  for (std::vector<TokenId>& ids : texts_of(*prompt, serving.engine.tokenizer(), "prompt")) {
    r.prompt = std::move(ids);
    add_choices(a, p, serving, r);
    if (echo) a.echoes.resize(a.requests.size(), serving.engine.tokenizer().decode(r.prompt, true));
  }
  a.echoes.resize(a.requests.size());
  return a;
}

}  // namespace lathe::llm::serve
