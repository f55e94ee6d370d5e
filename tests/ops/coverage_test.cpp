// Every public method of Tensor that gives a tensor has a case in the op suite: names are read from the
// public header and its tables, so a method that is added without a case fails here.
#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>
#include <string>

#include "base/atomic_file.h"
#include "test_folders.h"

namespace lathe::test {
namespace {

std::string source(const std::string& path) {
  std::optional<std::string> text = read_file(LATHE_SOURCE_DIR "/" + path);
  EXPECT_TRUE(text.has_value()) << path;
  return text.value_or("");
}

std::set<std::string> matches(const std::string& text, const char* pattern) {
  std::regex regex(pattern);
  std::set<std::string> out;
  for (std::sregex_iterator at(text.begin(), text.end(), regex), end; at != end; ++at) out.insert((*at)[1]);
  return out;
}

// Methods of the class body that return tensors, and the rows of the elementwise tables.
std::set<std::string> public_methods() {
  std::string header = source("include/lathe/tensor.h");
  std::size_t from = header.find("\nclass Tensor {"), to = header.find("\n private:", from);
  EXPECT_NE(from, std::string::npos);
  std::set<std::string> out =
      matches(header.substr(from, to - from),
              R"(\n  (?:static )?(?:Tensor&?|std::vector<Tensor>|std::pair<Tensor, Tensor>|Svd) (\w+)\()");
  out.merge(matches(source("include/lathe/unary.def"), R"(\nLATHE_UNARY\((\w+),)"));
  out.merge(matches(source("include/lathe/binary.def"), R"(\nLATHE_BINARY\((\w+),)"));
  return out;
}

TEST(OpsCoverage, EveryTensorMethodHasACase) {
  const std::map<std::string, std::string> elsewhere = {
      {"empty", "its values are whatever the memory holds"},
      {"empty_like", "its values are whatever the memory holds"},
      {"realize", "every case is realized"},
      {"kernelize", "runs nothing: tests/tensor/custom_kernel_test.cpp"},
      {"requires_grad_", "tests/tensor/gradient_test.cpp"},
      {"set_options", "options change no value: tests/codegen/options_test.cpp"},
      {"gradient", "what the suite checks for every differentiable case"},
      {"shard", "a typed error until there are several devices: tests/error"},
      {"shard_", "a typed error until there are several devices: tests/error"},
      {"shard_like", "a typed error until there are several devices: tests/error"},
      {"operator", "spelt as operators in the cases"},
  };
  std::string text = source("tests/ops/cases.cpp");
  std::set<std::string> used = matches(text, R"((?:\.|::)(\w+)\()");
  used.merge(matches(text, R"(\n  (?:UNARY|BINARY)\((\w+),)"));
  std::set<std::string> methods = public_methods();
  EXPECT_GT(methods.size(), 200u) << "the header is not read as it is written";
  for (const std::string& name : methods)
    EXPECT_TRUE(used.count(name) || elsewhere.count(name))
        << "Tensor::" << name << " has no case in tests/ops/cases.cpp";
  for (const auto& [name, why] : elsewhere)
    EXPECT_TRUE(name == "operator" || methods.count(name)) << name << " is not a method any more";
}

}  // namespace
}  // namespace lathe::test
