// `lathe bench models`: the parts its files share.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace lathe::tool {

// A figure beside what it is compared with, both measured in turn.
struct ModelRow {
  std::string name, unit;  // "tokens/s", "ms", ...
  double value = 0;
  double ratio = 0;      // of what can be had, or of the peer's speed; above 1 is better
  std::string ratio_of;  // "read roof", "products", "onnxruntime"
  double reach = 0;      // wanted ratio; 0: none
  nlohmann::ordered_json more = nlohmann::ordered_json::object();
};

struct LanguageBench {
  std::vector<std::string> types = {"F32", "F16", "Q8_0", "Q4_0", "Q4_K"};  // as GGUF calls them
  std::int64_t layers = 16;  // of the shape that has one billion parameters
  double seconds = 4;        // of each measured thing
  bool start = true;         // of `lathe chat`, too
};
std::vector<ModelRow> bench_language(const LanguageBench& options);

struct OnnxBench {
  std::string folder;              // of folders, each with a model.onnx and its test_data_set_0
  std::string python;              // that has onnxruntime; none where empty
  double seconds = 2;              // of each model and side
  std::vector<std::string> names;  // parts of folders' names; all where empty
};
std::vector<ModelRow> bench_onnx(const OnnxBench& options);

}  // namespace lathe::tool
