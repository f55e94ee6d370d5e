// Parameters of a request's body, each read with its type; what is wrong is a Refusal that names it.
#pragma once

#include "apps/serve/protocol.h"

namespace lathe::llm::serve {

[[noreturn]] void refuse(const std::string& message, const std::string& param = "");

class Parameters {
 public:
  explicit Parameters(const Json& body);

  const Json* find(const char* name) const;  // null where absent or null
  double number(const char* name, double absent) const;
  std::int64_t whole(const char* name, std::int64_t absent) const;
  bool flag(const char* name, bool absent) const;
  std::string text(const char* name, const std::string& absent) const;
  std::vector<std::string> texts(const char* name) const;  // one, or a list

 private:
  const Json& body_;
};

// The options that chat and text completions share.
Request request_of(const Parameters& p, const Engine& engine);

// The model that is asked for; a Refusal where it is not the one that is served.
std::string model_of(const Parameters& p, const std::string& served);

// One text, or several: each as text or as a list of token ids.
std::vector<std::vector<TokenId>> texts_of(const Json& texts, const Tokenizer& tokenizer, const char* name);

}  // namespace lathe::llm::serve
