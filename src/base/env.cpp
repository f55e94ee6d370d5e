#include "base/env.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <limits>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/planted.h"
#include "base/text.h"

namespace lathe {

namespace {

constexpr FlagInfo kTable[] = {
#define LATHE_FLAG(flag, name, kind, affects, default_value, allowed, help) \
  {Flag::flag, name, FlagKind::kind, FlagAffects::affects, default_value, allowed, help},
#include "base/flags.def"
#undef LATHE_FLAG
};

using Values = std::array<FlagValue, kFlagCount>;
constexpr std::string_view kPrefix = "LATHE_";

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<std::int64_t> bytes_number(std::string_view text) {
  int shift = 0;
  if (!text.empty()) {
    switch (std::toupper(static_cast<unsigned char>(text.back()))) {
      case 'K': shift = 10; break;
      case 'M': shift = 20; break;
      case 'G': shift = 30; break;
    }
  }
  if (shift > 0) text.remove_suffix(1);
  const auto number = whole_number(text);
  if (!number || *number < 0 || *number > (std::numeric_limits<std::int64_t>::max() >> shift))
    return std::nullopt;
  return *number << shift;
}

// `allowed` is "lo..hi" where either end may be missing.
std::optional<std::int64_t> ranged_number(std::string_view text, std::string_view allowed) {
  const auto number = whole_number(text);
  const std::size_t dots = allowed.find("..");
  const auto low = whole_number(allowed.substr(0, dots)), high = whole_number(allowed.substr(dots + 2));
  if (!number || (low && *number < *low) || (high && *number > *high)) return std::nullopt;
  return number;
}

// The position of `text` in "a|b|c".
std::optional<std::int64_t> choice_number(std::string_view text, std::string_view allowed) {
  for (std::int64_t position = 0;; position++) {
    const std::size_t bar = allowed.find('|');
    if (allowed.substr(0, bar) == text) return position;
    if (bar == allowed.npos) return std::nullopt;
    allowed.remove_prefix(bar + 1);
  }
}

std::vector<std::string_view> choices(const FlagInfo& info) {
  std::vector<std::string_view> words;
  for (std::string_view rest = info.allowed;;) {
    const std::size_t bar = rest.find('|');
    words.push_back(rest.substr(0, bar));
    if (bar == rest.npos) return words;
    rest.remove_prefix(bar + 1);
  }
}

std::optional<std::int64_t> number_for(const FlagInfo& info, std::string_view text) {
  switch (info.kind) {
    case FlagKind::Bool: return ranged_number(text, "0..1");
    case FlagKind::Int: return ranged_number(text, info.allowed);
    case FlagKind::Choice: return choice_number(text, info.allowed);
    case FlagKind::Bytes: return bytes_number(text);
    case FlagKind::Text: return 0;
  }
  return std::nullopt;
}

std::string takes(const FlagInfo& info) {
  if (info.kind == FlagKind::Bytes) return "a number of bytes, with K, M or G for powers of 1024";
  if (info.kind == FlagKind::Int && info.allowed.ends_with("..")) {
    return "an integer from " + std::string(info.allowed.substr(0, info.allowed.size() - 2));
  }
  std::string words(info.allowed);
  for (std::size_t bar; (bar = words.find('|')) != words.npos;) words.replace(bar, 1, " or ");
  for (std::size_t dots; (dots = words.find("..")) != words.npos;) words.replace(dots, 2, " to ");
  return words;
}

std::vector<std::string_view> flag_names() {
  std::vector<std::string_view> names;
  for (const FlagInfo& info : kTable) names.push_back(info.name);
  return names;
}

// A variable of a later version, or of a program that uses Lathe, must not keep a program from running.
void warn_of_name(std::string_view name) {
  std::string text = std::string(name) + " is not a flag of Lathe";
  if (const auto near = nearest_word(name, flag_names()))
    text += "; did you mean " + std::string(*near) + "?";
  log_warning_once("environment", text);
}

[[noreturn]] void refuse_name(std::string_view name) {
  const std::vector<std::string_view> names = flag_names();
  UserError error("environment", std::string(name) + " is not a flag of Lathe");
  if (const auto near = nearest_word(name, names)) error.help("did you mean " + std::string(*near) + "?");
  std::string all;
  for (std::string_view known : names) all.append(all.empty() ? "" : " ").append(known);
  error.note("the flags are " + all);
  throw error;
}

const FlagInfo* find_flag(std::string_view name) {
  const auto row = std::find_if(std::begin(kTable), std::end(kTable),
                                [&](const FlagInfo& info) { return info.name == name; });
  return row == std::end(kTable) ? nullptr : row;
}

const FlagInfo& flag_by_name(std::string_view name) {
  std::string upper;
  for (char c : name) upper += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  if (!upper.starts_with(kPrefix)) upper.insert(0, kPrefix);
  const FlagInfo* info = find_flag(upper);
  if (!info) refuse_name(upper);
  return *info;
}

const Values& environment() {
  static const Values values = [] {
    std::vector<const char*> variables;
    for (char** variable = environ; variable && *variable; variable++) variables.push_back(*variable);
    return parse_environment(variables);
  }();
  return values;
}

thread_local const FlagScope* innermost = nullptr;

}  // namespace

std::span<const FlagInfo> flag_table() { return kTable; }

FlagValue parse_flag(const FlagInfo& info, std::string_view text) {
  const auto number = number_for(info, text);
  if (!number) {
    UserError error("environment",
                    std::string(info.name) + " is '" + std::string(text) + "' but takes " + takes(info));
    if (const auto near = info.kind == FlagKind::Choice ? nearest_word(text, choices(info)) : std::nullopt)
      error.help("did you mean " + std::string(*near) + "?");
    throw error.help(std::string(info.name) + ": " + std::string(info.help));
  }
  return {std::string(text), *number};
}

std::array<FlagValue, kFlagCount> parse_environment(std::span<const char* const> variables) {
  Values values;
  for (std::size_t i = 0; i < kFlagCount; i++) values[i] = parse_flag(kTable[i], kTable[i].default_value);
  for (std::string_view variable : variables) {
    if (!variable.starts_with(kPrefix)) continue;
    const std::size_t equals = variable.find('=');
    if (equals == variable.npos) continue;
    const std::string_view name = variable.substr(0, equals), value = variable.substr(equals + 1);
    const FlagInfo* info = find_flag(name);
    if (!info) {
      if (!kCanPlant || name != "LATHE_FAULT") warn_of_name(name);
      continue;
    }
    if (value.empty()) continue;  // FLAG= is how a shell takes a flag back
    values[static_cast<std::size_t>(info->flag)] = parse_flag(*info, value);
  }
  return values;
}

const FlagValue& flag_value(Flag flag) {
  for (const FlagScope* scope = innermost; scope; scope = scope->outer_) {
    if (scope->flag_ == flag) return scope->value_;
  }
  return environment()[static_cast<std::size_t>(flag)];
}

std::int64_t flag_number(Flag flag) { return flag_value(flag).number; }
bool flag_on(Flag flag) { return flag_value(flag).number != 0; }
const std::string& flag_text(Flag flag) { return flag_value(flag).text; }

std::string code_flags() {
  static const Values defaults = parse_environment({});
  std::string text;
  for (const FlagInfo& info : kTable) {
    if (info.affects == FlagAffects::Run) continue;
    const FlagValue& value = flag_value(info.flag);
    if (value.text == defaults[static_cast<std::size_t>(info.flag)].text) continue;
    text.append(info.name).append("=");
    text.append(info.affects == FlagAffects::Code ? value.text
                : value.number != 0               ? "on"
                                                  : "off")
        .append(" ");
  }
  return text;
}

FlagScope::FlagScope(Flag flag, std::string_view value)
    : flag_(flag), value_(parse_flag(kTable[static_cast<std::size_t>(flag)], value)), outer_(innermost) {
  innermost = this;
}

FlagScope::FlagScope(std::string_view name, std::string_view value)
    : FlagScope(flag_by_name(name).flag, value) {}

FlagScope::~FlagScope() { innermost = outer_; }

}  // namespace lathe
