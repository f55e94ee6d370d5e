// How fast this machine is: from a table, measured and kept, or as LATHE_RATES says.
#include <gtest/gtest.h>

#include <filesystem>

#include "backends/cpu/machine_rates.h"
#include "base/env.h"
#include "base/error.h"

namespace lathe::backends {
namespace {

namespace fs = std::filesystem;

struct Folder {
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
  fs::path path = fs::temp_directory_path() / ("lathe_rates_" + std::to_string(getpid()));
};

// The file that a probe's figures were kept in.
fs::path kept_file(const Folder& folder) {
  for (const auto& entry : fs::directory_iterator(folder.path / "machine")) return entry.path();
  return {};
}

TEST(CpuRates, AreWrittenAndReadAgain) {
  const std::optional<MachineRates> read = parse_rates("64 63.5,32 25.6 8 32");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->rates.l1, 63.5);
  EXPECT_EQ(read->l3, 32 << 20);
  EXPECT_EQ(rates_text(*read), "64 63.5 32 25.6 8 32");
  EXPECT_EQ(parse_rates("64 64 32 25.6 8")->l3, 0);
  for (const char* wrong : {"", "1 2 3 4", "1 2 3 4 0", "1 2 3 4 -5", "1 2 3 4 nan", "1 2 3 4 inf",
                            "1 2 3 4 5 6 7", "1 2 3 4 x", "1 2 3 4 5x"})
    EXPECT_FALSE(parse_rates(wrong)) << wrong;
}

TEST(CpuRates, AChipOfTheTableHasThemForEveryWidthOfVectors) {
  const ChipId genoa{"AuthenticAMD", 25, 0x11, "AMD EPYC"};
  ASSERT_TRUE(rates_of_chip(genoa, 64));
  EXPECT_EQ(rates_of_chip(genoa, 64)->rates.arithmetic, 64);
  EXPECT_EQ(rates_of_chip(genoa, 32)->rates.arithmetic, 64);
  EXPECT_EQ(rates_of_chip(genoa, 16)->rates.arithmetic, 32);
  const ChipId emerald{"GenuineIntel", 6, 207, "Intel(R) Xeon(R) Processor"};
  EXPECT_EQ(rates_of_chip(emerald, 64)->rates.arithmetic, 128);
  EXPECT_EQ(rates_of_chip(emerald, 32)->rates.arithmetic, 64);
  EXPECT_EQ(rates_of_chip(emerald, 32)->rates.l1, 64);
  EXPECT_FALSE(rates_of_chip({"AuthenticAMD", 25, 0x01, "AMD EPYC"}, 64));
  EXPECT_FALSE(rates_of_chip({"SomebodyElse", 25, 0x11, "AMD EPYC"}, 64));
}

TEST(CpuRates, LevelAndNumbersAreTakenAsTheyAre) {
  const Target plain = named_target("x86-64-v3");
  Target target = plain;
  {
    FlagScope flags(Flag::Rates, "level");
    fill_rates(target);
    EXPECT_EQ(target.key(), plain.key());
  }
  FlagScope flags(Flag::Rates, "5 4 3 2 1 7");
  fill_rates(target);
  EXPECT_EQ(target.rates.memory, 1);
  EXPECT_EQ(target.l3, 7 << 20);
  EXPECT_EQ(target.rates_from, "LATHE_RATES");
  FlagScope wrong(Flag::Rates, "fast");
  try {
    fill_rates(target);
    ADD_FAILURE() << "accepted";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("LATHE_RATES is 'fast'"), std::string::npos) << error.what();
  }
}

// Whatever a probe finds on a loaded machine, what is further away is not quicker, and the next process finds
// the same.
TEST(CpuRates, MeasuredOnesAreKept) {
  const Folder folder;
  FlagScope cache(Flag::Cache, folder.path.string());
  Target first = named_target("x86-64-v3");
  {
    FlagScope flags(Flag::Rates, "measure");
    fill_rates(first);
  }
  EXPECT_EQ(first.rates_from, "measured");
  const CoreRates& r = first.rates;
  EXPECT_GT(r.arithmetic, 0);
  EXPECT_GE(r.l1, r.l2);
  EXPECT_GE(r.l2, r.l3);
  EXPECT_GE(r.l3, r.memory);
  EXPECT_GE(first.l3, first.l2);
  EXPECT_FALSE(kept_file(folder).empty());
}

}  // namespace
}  // namespace lathe::backends
