#include "onnx/support.h"
#include "test_folders.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace lathe::onnx::test {
namespace {

std::string tensor_difference(const Tensor& got, const Tensor& expected, const Tolerance& tolerance,
                              bool compare_elements) {
  if (got.dtype() != expected.dtype())
    return fmt::format("dtype {} instead of {}", got.dtype().name(), expected.dtype().name());
  if (to_string(got.shape()) != to_string(expected.shape()))
    return fmt::format("shape {} instead of {}", to_string(got.shape()), to_string(expected.shape()));
  if (!compare_elements) return "";
  // Floats of few bits may differ by two of their steps.
  const double steps = expected.dtype().is_float() ? 2 * dtypes::finfo(expected.dtype()).eps : 0;
  const double relative =
      expected.dtype().bitsize() == 16 ? std::max(tolerance.relative, steps) : tolerance.relative;
  const std::vector<double> a = got.tolist(), b = expected.tolist();
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool same = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])) ||
                      std::abs(a[i] - b[i]) <= tolerance.absolute + relative * std::abs(b[i]);
    if (!same) return fmt::format("element {} of {} is {} instead of {}", i, a.size(), a[i], b[i]);
  }
  return "";
}

}  // namespace

std::string kind_of(const Port& port) {
  if (port.type.rfind("sequence", 0) == 0) return "sequence";
  return port.type.rfind("optional", 0) == 0 ? "optional" : "tensor";
}

Values load_set(const fs::path& folder, std::string_view prefix, const std::vector<Port>& ports) {
  Values values;
  for (std::size_t i = 0; i < ports.size(); ++i) {
    const fs::path file = folder / fmt::format("{}_{}.pb", prefix, i);
    if (!fs::exists(file)) break;
    if (fs::file_size(file) == 0 && kind_of(ports[i]) == "optional")
      values[ports[i].name] = Value();
    else
      values[ports[i].name] = load_value(file, kind_of(ports[i]));
    // Test data of ONNX 1.12 has the bits of bfloat16 under the name of uint16.
    const Value& value = values[ports[i].name];
    if (ports[i].type == "bfloat16" && value.kind() == Value::Kind::Tensor &&
        value.tensor().dtype() == dtypes::uint16)
      values[ports[i].name] = value.tensor().bitcast(dtypes::bfloat16);
  }
  return values;
}

std::string difference(const Value& got, const Value& expected, const Tolerance& tolerance,
                       bool compare_elements) {
  if (got.kind() != expected.kind())
    return fmt::format("kind {} instead of {}", static_cast<int>(got.kind()),
                       static_cast<int>(expected.kind()));
  switch (got.kind()) {
    case Value::Kind::None: return "";
    case Value::Kind::Tensor:
      return tensor_difference(got.tensor(), expected.tensor(), tolerance, compare_elements);
    case Value::Kind::Strings:
      if (got.strings().shape != expected.strings().shape) return "strings of another shape";
      return got.strings().values == expected.strings().values ? "" : "other strings";
    case Value::Kind::Sequence:
      if (got.items().size() != expected.items().size())
        return fmt::format("a sequence of {} instead of {}", got.items().size(), expected.items().size());
      for (std::size_t i = 0; i < got.items().size(); ++i)
        if (const std::string d =
                difference(got.items()[i], expected.items()[i], tolerance, compare_elements);
            !d.empty())
          return fmt::format("item {}: {}", i, d);
  }
  return "";
}

std::string difference(const Values& got, const Values& expected, const Tolerance& tolerance,
                       bool compare_elements) {
  for (const auto& [name, value] : expected) {
    const auto found = got.find(name);
    if (found == got.end()) return "output " + name + " is missing";
    if (const std::string d = difference(found->second, value, tolerance, compare_elements); !d.empty())
      return "output " + name + ": " + d;
  }
  return "";
}

std::vector<fs::path> data_sets(const fs::path& model_folder) {
  std::vector<fs::path> sets;
  for (const auto& entry : fs::directory_iterator(model_folder))
    if (entry.is_directory() && entry.path().filename().string().rfind("test_data_set_", 0) == 0)
      sets.push_back(entry.path());
  std::sort(sets.begin(), sets.end());
  return sets;
}

const std::map<std::string, Exception>& exceptions() {
  static const std::map<std::string, Exception> kAll = [] {
    std::map<std::string, Exception> all;
    std::ifstream file(fs::path(LATHE_SOURCE_DIR) / "tests/onnx/exceptions.txt");
    for (std::string line; std::getline(file, line);) {
      if (line.empty() || line[0] == '#') continue;
      const std::size_t first = line.find(" | "), second = line.find(" | ", first + 3);
      if (first == std::string::npos || second == std::string::npos)
        throw std::runtime_error("exceptions.txt: no row: " + line);
      all[line.substr(0, first)] = {line.substr(first + 3, second - first - 3), line.substr(second + 3)};
    }
    return all;
  }();
  return kAll;
}

std::vector<fs::path> installed_cases(std::string_view group) {
  const char* given = std::getenv("LATHE_ONNX_TESTDATA");
  const fs::path root = fs::path(given != nullptr ? given : "/usr/share/libonnx-testdata/data") / group;
  std::vector<fs::path> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root, error))
    if (fs::exists(entry.path() / "model.onnx")) found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

fs::path shared_data() {
  const fs::path root = fs::path(LATHE_SOURCE_DIR) / ".." / "shared" / "data";
  return fs::exists(root / "onnx") ? root : fs::path();
}

}  // namespace lathe::onnx::test
