#include "apps/serve/parameters.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <random>

namespace lathe::llm::serve {
namespace {

// What would change the answer and is not done: told, never ignored.
constexpr const char* kNotSupported[] = {
    "functions", "function_call", "audio", "modalities", "prediction", "suffix", "web_search_options"};

[[noreturn]] void refuse_type(const char* name, const Json& found, const char* wanted) {
  refuse(fmt::format("{} is {}, and {} is needed", name,
                     found.dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 100), wanted),
         name);
}

void set_format(const Parameters& p, Request& r) {
  const Json* format = p.find("response_format");
  if (format == nullptr) return;
  const std::string type = format->is_object() ? format->value("type", "") : "";
  if (type == "text") return;
  if (type == "json_object") {
    r.json_object = true;
    return;
  }
  if (type != "json_schema")
    refuse("response_format has a type of text, json_object or json_schema", "response_format");
  const Json* schema = format->contains("json_schema") && format->at("json_schema").is_object() &&
                               format->at("json_schema").contains("schema")
                           ? &format->at("json_schema").at("schema")
                           : nullptr;
  if (schema == nullptr) refuse("response_format.json_schema.schema is missing", "response_format");
  r.json_schema = schema->dump();
}

void set_bias(const Parameters& p, Request& r) {
  const Json* bias = p.find("logit_bias");
  if (bias == nullptr) return;
  if (!bias->is_object()) refuse_type("logit_bias", *bias, "an object from token ids to numbers");
  for (const auto& [key, value] : bias->items()) {
    TokenId token = 0;
    const auto read = std::from_chars(key.data(), key.data() + key.size(), token);
    if (read.ec != std::errc() || read.ptr != key.data() + key.size() || !value.is_number())
      refuse("logit_bias is an object from token ids to numbers", "logit_bias");
    r.sampling.bias[token] = value.get<double>();
  }
}

std::vector<TokenId> ids_of(const Json& list, const char* name) {
  std::vector<TokenId> ids;
  for (const Json& id : list) {
    if (!id.is_number_integer() || id.get<std::int64_t>() < 0 || id.get<std::int64_t>() > INT32_MAX)
      refuse(fmt::format("{} is text or a list of token ids", name), name);
    ids.push_back(id.get<TokenId>());
  }
  return ids;
}

}  // namespace

void refuse(const std::string& message, const std::string& param) {
  throw Refusal{400, message, "invalid_request_error", "", param};
}

Parameters::Parameters(const Json& body) : body_(body) {
  if (!body.is_object()) refuse("the body is not a JSON object");
  for (const char* name : kNotSupported)
    if (find(name) != nullptr) refuse(fmt::format("{} is not supported", name), name);
}

const Json* Parameters::find(const char* name) const {
  const auto at = body_.find(name);
  return at == body_.end() || at->is_null() ? nullptr : &*at;
}

double Parameters::number(const char* name, double absent) const {
  const Json* v = find(name);
  if (v == nullptr) return absent;
  if (!v->is_number()) refuse_type(name, *v, "a number");
  return v->get<double>();
}

std::int64_t Parameters::whole(const char* name, std::int64_t absent) const {
  const Json* v = find(name);
  if (v == nullptr) return absent;
  constexpr double kMost = 1e18;
  const double number = v->is_number() ? v->get<double>() : std::nan("");
  if (!(std::abs(number) <= kMost) || number != std::trunc(number)) refuse_type(name, *v, "an integer");
  return static_cast<std::int64_t>(number);
}

bool Parameters::flag(const char* name, bool absent) const {
  const Json* v = find(name);
  if (v == nullptr) return absent;
  if (!v->is_boolean()) refuse_type(name, *v, "true or false");
  return v->get<bool>();
}

std::string Parameters::text(const char* name, const std::string& absent) const {
  const Json* v = find(name);
  if (v == nullptr) return absent;
  if (!v->is_string()) refuse_type(name, *v, "a string");
  return v->get<std::string>();
}

std::vector<std::string> Parameters::texts(const char* name) const {
  const Json* v = find(name);
  if (v == nullptr) return {};
  if (v->is_string()) return {v->get<std::string>()};
  std::vector<std::string> out;
  if (!v->is_array()) refuse_type(name, *v, "a string or a list of strings");
  for (const Json& item : *v) {
    if (!item.is_string()) refuse_type(name, *v, "a string or a list of strings");
    out.push_back(item.get<std::string>());
  }
  return out;
}

std::string model_of(const Parameters& p, const std::string& served) {
  std::string model = p.text("model", served);
  if (model != served)
    throw Refusal{404, fmt::format("the model '{}' is not here; '{}' is", model, served),
                  "invalid_request_error", "model_not_found", "model"};
  return model;
}

std::vector<std::vector<TokenId>> texts_of(const Json& texts, const Tokenizer& tokenizer, const char* name) {
  const auto refuse_kind = [&] {
    refuse(fmt::format("{} is text, a list of texts or a list of token ids", name), name);
  };
  if (texts.is_string()) return {tokenizer.encode(texts.get<std::string>())};
  if (!texts.is_array() || texts.empty()) refuse_kind();
  if (texts[0].is_number()) return {ids_of(texts, name)};
  std::vector<std::vector<TokenId>> out;
  for (const Json& one : texts) {
    if (!one.is_string() && !one.is_array()) refuse_kind();
    out.push_back(one.is_string() ? tokenizer.encode(one.get<std::string>()) : ids_of(one, name));
  }
  return out;
}

Request request_of(const Parameters& p, const Engine& engine) {
  Request r;
  SamplingOptions& s = r.sampling;
  s.temperature = p.number("temperature", 1);
  s.top_p = p.number("top_p", 1);
  s.top_k = std::max<std::int64_t>(p.whole("top_k", 0), 0);  // others write -1 for all
  s.min_p = p.number("min_p", 0);
  s.repetition_penalty = p.number("repetition_penalty", 1);
  s.presence_penalty = p.number("presence_penalty", 0);
  s.frequency_penalty = p.number("frequency_penalty", 0);
  s.seed = p.find("seed") != nullptr
               ? static_cast<std::uint64_t>(p.whole("seed", 0))
               : (std::uint64_t{std::random_device()()} << 32U | std::random_device()());
  set_bias(p, r);
  r.stop = p.texts("stop");
  r.max_tokens = engine.model().options().context;
  for (const char* name : {"max_tokens", "max_completion_tokens"})
    if (p.find(name) != nullptr) r.max_tokens = p.whole(name, 0);
  if (r.max_tokens < 1) refuse("max_tokens is less than 1", "max_tokens");
  r.ignore_end = p.flag("ignore_eos", false);
  set_format(p, r);
  return r;
}

}  // namespace lathe::llm::serve
