// Inputs of benchmarks are numbers of the range that the row names, whatever their dtype.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "tools/lathe/bench_cpu.h"

namespace lathe::tool {
namespace {

namespace fs = std::filesystem;

// The numbers that a product of 512 x 512 in a dtype is given first.
std::vector<float> first_factor(const std::string& dtype) {
  const fs::path folder =
      fs::temp_directory_path() / ("lathe-bench-inputs-" + dtype + std::to_string(getpid()));
  fs::create_directories(folder);
  CpuRow row;
  row.kind = "gemm", row.variant = "nn", row.dtype = dtype, row.sizes = {1, 512, 512, 512};
  write_inputs(row, folder.string());
  std::vector<float> out;
  {
    const MappedFile file((folder / "in0").string());
    const auto* halves = reinterpret_cast<const std::uint16_t*>(file.data());
    for (std::size_t i = 0; i < 512 * 512; ++i)
      out.push_back(dtype == "f32"    ? reinterpret_cast<const float*>(file.data())[i]
                    : dtype == "bf16" ? bfloat_to_float(halves[i])
                    : dtype == "f16"  ? half_to_float(halves[i])
                                      : fp8_to_float(reinterpret_cast<const std::uint8_t*>(file.data())[i]));
  }
  fs::remove_all(folder);
  return out;
}

// Small ones among them too: of 262,144 numbers between -1 and 1 some twenty are below the normal ones of
// half.
TEST(BenchInputs, NumbersOfEveryDtypeAreThoseOfFloat32CutOff) {
  const std::vector<float> whole = first_factor("f32");
  for (const auto& [dtype, relative, absolute] :
       {std::tuple("bf16", 0x1p-7f, 0.0f), {"f16", 0x1p-10f, 0x1p-24f}, {"e4m3", 0x1p-3f, 0x1p-6f}}) {
    const std::vector<float> cut_off = first_factor(dtype);
    for (std::size_t i = 0; i < whole.size(); ++i) {
      const float size = std::abs(whole[i]), off = size - std::abs(cut_off[i]);
      ASSERT_TRUE(off >= 0 && off <= std::max(size * relative, absolute))
          << dtype << ": " << cut_off[i] << " at " << i << " for " << whole[i];
    }
  }
}

}  // namespace
}  // namespace lathe::tool
