// The forms in which inputs and findings are stored.
#include <limits>
#include <nlohmann/json.hpp>

#include "apps/investigations/store.h"

namespace lathe::investigations {

using Json = nlohmann::json;
using dev::Verdict;

constexpr std::array<std::pair<Verdict, std::string_view>, 4> kVerdicts{{{Verdict::Confirmed, "confirmed"},
                                                                         {Verdict::Refuted, "refuted"},
                                                                         {Verdict::Partial, "partial"},
                                                                         {Verdict::Unknown, "unknown"}}};

std::string_view name(Verdict verdict) {
  for (const auto& [value, word] : kVerdicts)
    if (value == verdict) return word;
  return "unknown";
}
Verdict verdict_named(std::string_view name) {
  for (const auto& [value, word] : kVerdicts)
    if (word == name) return value;
  return Verdict::Unknown;
}

namespace {

// Programs print any bytes; JSON is UTF-8.
std::string written(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// One list of names for both directions.
template <class Visit>
void visit_finding(dev::Finding& f, const Visit& visit) {
  visit("summary", f.summary);
  visit("kind", f.kind);
  visit("cause", f.cause);
  visit("way_out", f.way_out);
  visit("way_out_verified", f.way_out_verified);
  visit("repro", f.repro);
  visit("repro_command", f.repro_command);
  visit("repro_nodes", f.repro_nodes);
  visit("before", f.before);
  visit("after", f.after);
  visit("difference", f.difference);
}

template <class Visit>
void visit_input(Input& i, const Visit& visit) {
  visit("kind", i.kind);
  visit("command", i.command);
  visit("path", i.path);
  visit("words", i.words);
  visit("directory", i.directory);
  visit("tests", i.tests);
  visit("seconds", i.seconds);
  visit("scenario_seconds", i.scenario_seconds);
  visit("memory", i.memory);
  visit("carry", i.carry);
  visit("jobs", i.jobs);
  visit("adviser", i.adviser);
  visit("adviser_model", i.adviser_model);
}

// JSON has no numbers that are not finite; these are null and come back as NaN.
using Rows = std::vector<std::vector<double>>;
void put(Json& json, const Rows& rows) { json = rows; }
void take(const Json& json, Rows& rows) {
  rows.clear();
  for (const Json& row : json) {
    rows.emplace_back();
    for (const Json& value : row)
      rows.back().push_back(value.is_number() ? value.get<double>()
                                              : std::numeric_limits<double>::quiet_NaN());
  }
}
template <class T>
void put(Json& json, const T& value) {
  json = value;
}
template <class T>
void take(const Json& json, T& value) {
  json.get_to(value);
}

template <class T, class Visitor>
std::string object(T value, const Visitor& visitor) {
  Json json = Json::object();
  visitor(value, [&](const char* name, const auto& field) { put(json[name], field); });
  return written(json);
}

template <class T, class Visitor>
T value_of(const std::string& text, const Visitor& visitor) {
  T value;
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return value;
  visitor(value, [&](const char* name, auto& field) {
    if (json.contains(name)) take(json.at(name), field);
  });
  return value;
}

}  // namespace

std::string to_json(const dev::Finding& finding) {
  return object(finding, [](auto& value, const auto& visit) { visit_finding(value, visit); });
}
dev::Finding finding_from_json(const std::string& text) {
  return value_of<dev::Finding>(text, [](auto& value, const auto& visit) { visit_finding(value, visit); });
}
std::string to_json(const Input& input) {
  return object(input, [](auto& value, const auto& visit) { visit_input(value, visit); });
}
Input input_from_json(const std::string& text) {
  return value_of<Input>(text, [](auto& value, const auto& visit) { visit_input(value, visit); });
}

}  // namespace lathe::investigations
