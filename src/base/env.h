// The LATHE_* environment flags. They are rows of flags.def, read once and checked, so that a misspelt name
// or a wrong value is a helpful error instead of a silent default. A FlagScope overrides a flag for the
// current thread. Only the borders of Lathe (engine, tools) read flags; passes take what they need as
// arguments.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lathe {

enum class Flag : std::uint8_t {
#define LATHE_FLAG(flag, name, kind, affects, default_value, allowed, help) flag,
#include "base/flags.def"
#undef LATHE_FLAG
};

inline constexpr std::size_t kFlagCount = 0
#define LATHE_FLAG(flag, name, kind, affects, default_value, allowed, help) +1
#include "base/flags.def"
#undef LATHE_FLAG
    ;

enum class FlagKind : std::uint8_t { Bool, Int, Choice, Bytes, Text };
enum class FlagAffects : std::uint8_t { Code, Switch, Run };

// A row of flags.def.
struct FlagInfo {
  Flag flag;
  std::string_view name;
  FlagKind kind;
  FlagAffects affects;
  std::string_view default_value, allowed, help;
};

// All rows, in the order of the enum.
std::span<const FlagInfo> flag_table();

// A parsed value: the text as given, and its number for Bool, Int and Bytes.
struct FlagValue {
  std::string text;
  std::int64_t number = 0;
};

// Checks one value against its row; throws UserError naming the flag and what it takes.
FlagValue parse_flag(const FlagInfo& info, std::string_view text);

// Reads all flags from "NAME=value" strings; throws UserError for a bad value. An unknown LATHE_* name is a
// warning, once, that names the nearest.
std::array<FlagValue, kFlagCount> parse_environment(std::span<const char* const> variables);

// The flag's value now: the innermost FlagScope of this thread, else the environment, else the default.
const FlagValue& flag_value(Flag flag);
std::int64_t flag_number(Flag flag);
bool flag_on(Flag flag);
const std::string& flag_text(Flag flag);

// The flags that change what is generated, where they differ from their defaults: part of every cache key.
std::string code_flags();

// Overrides a flag on this thread until destroyed. Scopes nest.
class FlagScope {
 public:
  FlagScope(Flag flag, std::string_view value);
  // By name, with or without the LATHE_ prefix, any case; throws UserError for an unknown one.
  FlagScope(std::string_view name, std::string_view value);
  ~FlagScope();
  FlagScope(const FlagScope&) = delete;
  FlagScope& operator=(const FlagScope&) = delete;

 private:
  friend const FlagValue& flag_value(Flag flag);
  Flag flag_;
  FlagValue value_;
  const FlagScope* outer_;
};

}  // namespace lathe
