// OpenAI's protocol as values: what a body asks for, and the objects of an answer. No sockets here.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lathe/llm/chat_template.h"
#include "lathe/llm/encoder.h"
#include "lathe/llm/engine.h"

namespace lathe::llm::serve {

using Json = nlohmann::ordered_json;

// What the client is told, with the status of HTTP.
struct Refusal {
  int status = 400;
  std::string message, type = "invalid_request_error", code, param;
};
Json object_of(const Refusal& refusal);
Refusal refusal_of(const std::exception& error);

enum class Kind : std::uint8_t { Chat, Text };

struct Asked {
  Kind kind = Kind::Chat;
  std::vector<Request> requests;    // `n` for each prompt, in the order of the choices
  std::vector<std::string> echoes;  // text before each answer
  bool stream = false, usage_in_stream = false;
  std::string id, model;
  std::int64_t created = 0;
};

struct Serving {
  const Engine& engine;
  const ChatTemplate* chat_template;  // null: there is none
  std::string model;
  std::int64_t most_choices;
};

// Throws Refusal for what cannot be served.
Asked asked_chat(const Json& body, const Serving& serving);
Asked asked_text(const Json& body, const Serving& serving);

// Texts that are to become vectors.
struct AskedVectors {
  std::vector<std::vector<TokenId>> texts;
  std::int64_t dimensions = 0;  // the first of each vector, at unit length again
  bool base64 = false;
  std::string model;
};
AskedVectors asked_vectors(const Json& body, const Tokenizer& tokenizer, const std::string& model,
                           std::int64_t dim);
Json answer_of(const AskedVectors& asked, std::vector<std::vector<float>> vectors);

struct Usage {
  std::int64_t prompt = 0, cached = 0, written = 0;
};
Json object_of(const Usage& usage);

// An answer that becomes whole piece by piece.
class Answer {
 public:
  explicit Answer(const Asked& asked);
  void add(std::size_t choice, const Update& update);
  bool complete() const { return open_ == 0; }
  const std::string& error() const { return error_; }
  Usage usage() const;
  Json whole() const;

 private:
  struct Choice {
    std::string text;
    std::vector<TokenReport> tokens;
    std::optional<Finish> finish;
    Usage usage;
  };
  const Asked& asked_;
  std::vector<Choice> choices_;
  std::size_t open_;
  std::string error_;
};

// One event of a stream: what is new of a choice; `first` also names the role.
Json piece_of(const Asked& asked, std::size_t choice, const Update& update, bool first);
Json usage_piece(const Asked& asked, const Usage& usage);

}  // namespace lathe::llm::serve
