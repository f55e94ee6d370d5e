// What became of requests, as objects.
#include <fmt/format.h>

#include "apps/serve/protocol.h"

namespace lathe::llm::serve {
namespace {

Json finish_of(const std::optional<Finish>& finish) {
  if (!finish) return nullptr;
  switch (*finish) {
    case Finish::Stop: return "stop";
    case Finish::Length: return "length";
    case Finish::Cancelled: return "cancelled";
    case Finish::Failed: return "error";
  }
  return nullptr;
}

Json token_of(const TokenText& t) {
  Json bytes = Json::array();
  for (const char c : t.bytes) bytes.push_back(static_cast<unsigned char>(c));
  return {{"token", t.bytes}, {"logprob", t.logprob}, {"bytes", bytes}};
}

Json chat_logprobs(const std::vector<TokenReport>& tokens) {
  Json content = Json::array();
  for (const TokenReport& report : tokens) {
    Json one = token_of(report.chosen);
    one["top_logprobs"] = Json::array();
    for (const TokenText& t : report.likeliest) one["top_logprobs"].push_back(token_of(t));
    content.push_back(std::move(one));
  }
  return {{"content", content}};
}

Json text_logprobs(const std::vector<TokenReport>& tokens) {
  Json out = {{"tokens", Json::array()},
              {"token_logprobs", Json::array()},
              {"top_logprobs", Json::array()},
              {"text_offset", Json::array()}};
  std::size_t offset = 0;
  for (const TokenReport& report : tokens) {
    out["tokens"].push_back(report.chosen.bytes);
    out["token_logprobs"].push_back(report.chosen.logprob);
    Json top = Json::object();
    for (const TokenText& t : report.likeliest) top[t.bytes] = t.logprob;
    out["top_logprobs"].push_back(std::move(top));
    out["text_offset"].push_back(offset);
    offset += report.chosen.bytes.size();
  }
  return out;
}

Json logprobs_of(const Asked& asked, const std::vector<TokenReport>& tokens) {
  if (!asked.requests[0].logprobs) return nullptr;
  return asked.kind == Kind::Chat ? chat_logprobs(tokens) : text_logprobs(tokens);
}

Json head_of(const Asked& asked, const char* object) {
  return {{"id", asked.id}, {"object", object}, {"created", asked.created}, {"model", asked.model}};
}

}  // namespace

Json object_of(const Refusal& r) {
  const auto or_null = [](const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); };
  return {
      {"error",
       {{"message", r.message}, {"type", r.type}, {"param", or_null(r.param)}, {"code", or_null(r.code)}}}};
}

Refusal refusal_of(const std::exception& error) {
  if (const auto* full = dynamic_cast<const QueueFull*>(&error))
    return {429, full->message(), "server_overloaded", "queue_full", ""};
  if (const auto* full = dynamic_cast<const ContextFull*>(&error))
    return {400, full->message(), "invalid_request_error", "context_length_exceeded", "messages"};
  if (const auto* user = dynamic_cast<const UserError*>(&error))
    return {400, user->op() + ": " + user->message(), "invalid_request_error", "", ""};
  return {500, error.what(), "server_error", "internal_error", ""};
}

Json object_of(const Usage& u) {
  return {{"prompt_tokens", u.prompt},
          {"completion_tokens", u.written},
          {"total_tokens", u.prompt + u.written},
          {"prompt_tokens_details", {{"cached_tokens", u.cached}}}};
}

Answer::Answer(const Asked& asked) : asked_(asked), choices_(asked.requests.size()), open_(choices_.size()) {}

void Answer::add(std::size_t choice, const Update& update) {
  Choice& c = choices_[choice];
  c.text += update.text;
  c.tokens.insert(c.tokens.end(), update.tokens.begin(), update.tokens.end());
  c.usage = {update.prompt_tokens, update.cached_tokens, update.written_tokens};
  if (!update.finish) return;
  c.finish = update.finish;
  if (*update.finish == Finish::Failed || *update.finish == Finish::Cancelled)
    error_ = update.error.empty() ? "the server is stopping" : update.error;
  --open_;
}

Usage Answer::usage() const {
  Usage sum;
  for (const Choice& c : choices_) {
    sum.prompt += c.usage.prompt;
    sum.cached += c.usage.cached;
    sum.written += c.usage.written;
  }
  return sum;
}

Json Answer::whole() const {
  const bool chat = asked_.kind == Kind::Chat;
  Json out = head_of(asked_, chat ? "chat.completion" : "text_completion");
  out["choices"] = Json::array();
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    const Choice& c = choices_[i];
    Json one = {{"index", i}};
    if (chat)
      one["message"] = {{"role", "assistant"}, {"content", c.text}, {"refusal", nullptr}};
    else
      one["text"] = asked_.echoes[i] + c.text;
    one["logprobs"] = logprobs_of(asked_, c.tokens);
    one["finish_reason"] = finish_of(c.finish);
    out["choices"].push_back(std::move(one));
  }
  out["usage"] = object_of(usage());
  return out;
}

Json piece_of(const Asked& asked, std::size_t choice, const Update& update, bool first) {
  const bool chat = asked.kind == Kind::Chat;
  Json out = head_of(asked, chat ? "chat.completion.chunk" : "text_completion");
  Json one = {{"index", choice}};
  if (chat) {
    one["delta"] = Json::object();
    if (first) one["delta"]["role"] = "assistant";
    if (first || !update.text.empty()) one["delta"]["content"] = update.text;
  } else {
    one["text"] = (first ? asked.echoes[choice] : "") + update.text;
  }
  one["logprobs"] = update.tokens.empty() ? Json(nullptr) : logprobs_of(asked, update.tokens);
  one["finish_reason"] = finish_of(update.finish);
  out["choices"] = Json::array({std::move(one)});
  if (asked.usage_in_stream) out["usage"] = nullptr;
  return out;
}

Json usage_piece(const Asked& asked, const Usage& usage) {
  Json out = head_of(asked, asked.kind == Kind::Chat ? "chat.completion.chunk" : "text_completion");
  out["choices"] = Json::array();
  out["usage"] = object_of(usage);
  return out;
}

}  // namespace lathe::llm::serve
