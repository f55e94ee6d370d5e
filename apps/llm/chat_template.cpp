#include "lathe/llm/chat_template.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "apps/llm/jinja/builtins.h"
#include "apps/llm/jinja/render.h"

namespace lathe::llm {
namespace {

using Json = nlohmann::ordered_json;

jinja::Value value_of(const Json& json) {
  switch (json.type()) {
    case Json::value_t::boolean: return json.get<bool>();
    case Json::value_t::number_integer: return json.get<std::int64_t>();
    case Json::value_t::number_unsigned:
      if (json.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX)) return json.get<double>();
      return json.get<std::int64_t>();
    case Json::value_t::number_float: return json.get<double>();
    case Json::value_t::string: return json.get<std::string>();
    case Json::value_t::array: {
      jinja::List out;
      for (const Json& item : json) out.items.push_back(value_of(item));
      return out;
    }
    case Json::value_t::object: {
      jinja::Dict out;
      for (const auto& [key, value] : json.items()) out.entries.emplace_back(key, value_of(value));
      return out;
    }
    default: return jinja::None{};
  }
}

}  // namespace

struct ChatTemplate::Parsed {
  jinja::Block block;
};

ChatTemplate::ChatTemplate(std::string_view source)
    : parsed_(std::make_shared<const Parsed>(Parsed{jinja::parse(source)})) {}

std::string ChatTemplate::render(std::string_view variables, std::optional<std::time_t> now) const {
  const Json given = Json::parse(variables, nullptr, false);
  if (!given.is_object()) throw UserError("chat template", "the variables are no JSON object");
  jinja::Entries globals = jinja::global_functions(now);
  for (const auto& [key, value] : given.items()) {
    std::erase_if(globals,
                  [&, name = std::string_view(key)](const auto& g) { return g.first.text() == name; });
    globals.emplace_back(key, value_of(value));
  }
  return jinja::render(parsed_->block, globals);
}

std::string ChatTemplate::render(std::span<const ChatMessage> messages, const Options& options) const {
  Json variables = {{"messages", Json::array()},
                    {"add_generation_prompt", options.add_generation_prompt},
                    {"bos_token", options.begin},
                    {"eos_token", options.end}};
  for (const ChatMessage& m : messages)
    variables["messages"].push_back({{"role", m.role}, {"content", m.content}});
  return render(variables.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace lathe::llm
