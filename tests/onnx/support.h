// ONNX's test data: folders with a model, inputs and expected outputs.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "lathe/lathe.h"
#include "lathe/onnx.h"

namespace lathe::onnx::test {

namespace fs = std::filesystem;

struct Tolerance {
  double relative = 1e-3, absolute = 1e-7;  // those of ONNX's own runner
};

std::string kind_of(const Port& port);
// Inputs or outputs of one data set, by the names of the ports.
Values load_set(const fs::path& folder, std::string_view prefix, const std::vector<Port>& ports);
// The first difference, or nothing.
std::string difference(const Value& got, const Value& expected, const Tolerance& tolerance,
                       bool compare_elements = true);
std::string difference(const Values& got, const Values& expected, const Tolerance& tolerance,
                       bool compare_elements = true);
std::vector<fs::path> data_sets(const fs::path& model_folder);

// Tests that do not pass, with the reason: lines "name | kind | reason" of exceptions.txt, where kind is
// `fails` (not supported, or another result) or `random` (only shapes can be compared).
struct Exception {
  std::string kind, reason;
};
const std::map<std::string, Exception>& exceptions();

// Folders of Debian's libonnx-testdata; empty where it is not installed.
std::vector<fs::path> installed_cases(std::string_view group);
fs::path shared_data();  // models with real weights; empty where they are not there

}  // namespace lathe::onnx::test
