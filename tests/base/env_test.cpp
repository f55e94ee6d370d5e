#include "base/env.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/error.h"

namespace lathe {
namespace {

const FlagValue& value_in(const std::array<FlagValue, kFlagCount>& values, Flag flag) {
  return values[static_cast<std::size_t>(flag)];
}

std::string refusal(std::vector<const char*> variables) {
  try {
    parse_environment(variables);
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Env, TheTableIsInTheOrderOfTheEnumAndItsDefaultsParse) {
  std::size_t at = 0;
  for (const FlagInfo& info : flag_table()) {
    EXPECT_EQ(static_cast<std::size_t>(info.flag), at++);
    EXPECT_TRUE(info.name.starts_with("LATHE_")) << info.name;
    EXPECT_FALSE(info.help.empty()) << info.name;
    EXPECT_NO_THROW(parse_flag(info, info.default_value)) << info.name;
  }
}

TEST(Env, ReadsNumbersWordsAndSizes) {
  const std::vector<const char*> variables = {"LATHE_DEBUG=3", "PATH=/bin", "LATHE_MEMORY_LIMIT=2G",
                                              "LATHE_CPU=c",   "LATHEX=1",  "LATHE_CACHE=off"};
  const auto values = parse_environment(variables);
  EXPECT_EQ(value_in(values, Flag::Debug).number, 3);
  EXPECT_EQ(value_in(values, Flag::MemoryLimit).number, std::int64_t{2} << 30);
  EXPECT_EQ(value_in(values, Flag::Cpu).text, "c");
  EXPECT_EQ(value_in(values, Flag::Cache).text, "off");
  EXPECT_EQ(value_in(values, Flag::Beam).number, 0);
}

TEST(Env, AnEmptyValueMeansTheDefault) {
  EXPECT_EQ(value_in(parse_environment(std::vector<const char*>{"LATHE_CPU="}), Flag::Cpu).text, "llvm");
}

TEST(Env, WrongValuesAreRefusedWithWhatTheFlagTakes) {
  EXPECT_EQ(refusal({"LATHE_DEBUG=7"}),
            "lathe: environment: LATHE_DEBUG is '7' but takes 0 to 6\n"
            "  help: LATHE_DEBUG: what to print; each level adds to the one before: 1 devices and schedule, "
            "2 a line per kernel, 3 options, 4 source, 5 kernel "
            "graph, "
            "6 program");
  EXPECT_EQ(
      refusal({"LATHE_CPU=gcc"}),
      "lathe: environment: LATHE_CPU is 'gcc' but takes llvm or c\n"
      "  help: did you mean c?\n"
      "  help: LATHE_CPU: compiler of the CPU device: LLVM in process, or C source and the system compiler");
  EXPECT_EQ(refusal({"LATHE_VERIFY=yes"}),
            "lathe: environment: LATHE_VERIFY is 'yes' but takes 0 or 1\n"
            "  help: LATHE_VERIFY: also run every kernel on REF and compare every element");
  EXPECT_EQ(refusal({"LATHE_BEAM=-1"}),
            "lathe: environment: LATHE_BEAM is '-1' but takes an integer from 0\n"
            "  help: LATHE_BEAM: beam width of the kernel search; 0 uses the heuristic");
  EXPECT_NE(refusal({"LATHE_MEMORY_LIMIT=2T"}).find("a number of bytes, with K, M or G"), std::string::npos);
  EXPECT_NE(refusal({"LATHE_MEMORY_LIMIT=99999999999G"}).find("a number of bytes"), std::string::npos);
  EXPECT_NE(refusal({"LATHE_THREADS=2 "}).find("'2 '"), std::string::npos);
}

TEST(Env, AnUnknownVariableIsOneWarningThatNamesTheNearestFlag) {
  testing::internal::CaptureStderr();
  for (int i = 0; i < 2; ++i) {
    const char* variables[] = {"LATHE_DEBIG=1", "LATHE_BEAM=3"};
    EXPECT_EQ(parse_environment(variables)[static_cast<std::size_t>(Flag::Beam)].number, 3);
  }
  const std::string text = testing::internal::GetCapturedStderr();
  const std::string line = "LATHE_DEBIG is not a flag of Lathe; did you mean LATHE_DEBUG?\n";
  EXPECT_NE(text.find(line), std::string::npos) << text;
  EXPECT_EQ(text.find(line), text.rfind(line)) << text;
}

TEST(Env, AnUnknownFlagOfAScopeIsRefusedAndNamesTheNearestOne) {
  std::string text;
  try {
    const FlagScope scope("debig", "1");
  } catch (const UserError& error) {
    text = error.what();
  }
  EXPECT_NE(text.find("lathe: environment: LATHE_DEBIG is not a flag of Lathe\n"), std::string::npos) << text;
  EXPECT_NE(text.find("  help: did you mean LATHE_DEBUG?"), std::string::npos) << text;
  EXPECT_NE(text.find("  note: the flags are LATHE_DEBUG LATHE_DEVICE"), std::string::npos) << text;
}

TEST(Env, ScopesNestAndEnd) {
  const std::int64_t outside = flag_number(Flag::Beam);
  {
    const FlagScope outer(Flag::Beam, "4");
    EXPECT_EQ(flag_number(Flag::Beam), 4);
    {
      const FlagScope inner("beam", "8"), other("LATHE_VERIFY", "1");
      EXPECT_EQ(flag_number(Flag::Beam), 8);
      EXPECT_TRUE(flag_on(Flag::Verify));
    }
    EXPECT_EQ(flag_number(Flag::Beam), 4);
  }
  EXPECT_EQ(flag_number(Flag::Beam), outside);
}

TEST(Env, AScopeIsSeenByItsOwnThreadOnly) {
  const std::int64_t outside = flag_number(Flag::Beam);
  const FlagScope scope(Flag::Beam, "123");
  std::int64_t seen = -1;
  std::thread([&] { seen = flag_number(Flag::Beam); }).join();
  EXPECT_EQ(seen, outside);
}

TEST(Env, ABadScopeIsRefusedAndChangesNothing) {
  EXPECT_THROW(FlagScope(Flag::Debug, "9"), UserError);
  EXPECT_THROW(FlagScope("bean", "1"), UserError);
}

}  // namespace
}  // namespace lathe
