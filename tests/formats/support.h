// Files made by hand, and what a reader says about them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "lathe/state.h"
#include "test_folders.h"

namespace lathe::test {

// A folder of this test alone, gone when it is over.
class InFolder : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(testing::TempDir()) /
              (std::string("lathe_") + info->test_suite_name() + "_" + info->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path write(const std::string& name, std::string_view bytes) const {
    std::ofstream(folder_ / name, std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return folder_ / name;
  }
  static std::string read(const std::filesystem::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  // The refusal, without the folder's name; "accepted" where there is none.
  template <class F>
  std::string refusal(F&& f) const {
    try {
      f();
    } catch (const UserError& error) {
      std::string text = error.what();
      const std::string prefix = folder_.string() + "/";
      for (std::size_t at; (at = text.find(prefix)) != std::string::npos;) text.erase(at, prefix.size());
      return text;
    }
    return "accepted";
  }

  // Runs a Python program where the distribution's Python has the modules; false where it has not.
  bool python(const std::string& modules, const std::string& program) const {
    const std::string interpreter = "/usr/bin/python3";
    if (!std::filesystem::exists(interpreter)) return false;
    if (std::system((interpreter + " -c 'import " + modules + "' >/dev/null 2>&1").c_str()) != 0)
      return false;
    write("program.py", program);
    const std::string command = "cd '" + folder_.string() + "' && " + interpreter + " program.py";
    EXPECT_EQ(std::system(command.c_str()), 0) << program;
    return true;
  }

  std::filesystem::path folder_;
};

// Numbers with the lowest byte first.
inline std::string little(std::uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i) & 0xff));
  return out;
}

// A safetensors file of this header and data.
inline std::string safetensors(const std::string& header, const std::string& data = "") {
  return little(header.size(), 8) + header + data;
}

// The data that real models come in, or an empty path where it is not beside the source.
inline std::filesystem::path real_data() {
  const std::filesystem::path folder = std::filesystem::path(LATHE_SOURCE_DIR) / ".." / "shared" / "data";
  return std::filesystem::is_directory(folder) ? folder : std::filesystem::path();
}

}  // namespace lathe::test
