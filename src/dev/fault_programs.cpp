#include "dev/fault_programs.h"

#include <functional>

#include "ir/build.h"
#include "ir/text.h"
#include "lathe/context.h"
#include "lathe/tensor.h"

namespace lathe::dev {
namespace {

Tensor numbers(const Shape& shape, std::uint64_t seed) {
  Tensor::manual_seed(seed);
  return Tensor::randn(shape).contiguous().realize();
}
Tensor integers(const Shape& shape, std::int64_t low, std::int64_t high, DataType dtype = dtypes::int32) {
  return Tensor::randint(shape, low, high).cast(dtype).contiguous().realize();
}

const std::function<Tensor()> kPrograms[] = {
    [] { return numbers({1000}, 1) * numbers({1000}, 2) + numbers({1000}, 3); },
    [] { return numbers({777}, 1) - numbers({777}, 2); },
    [] { return numbers({300}, 1) * numbers({300}, 2) + numbers({300}, 3) * numbers({300}, 4); },
    [] { return numbers({33, 29}, 1).matmul(numbers({29, 47}, 2)); },
    [] { return numbers({64, 64}, 1).matmul(numbers({64, 64}, 2)); },
    [] { return numbers({40, 130}, 1).matmul(numbers({130, 72}, 2)) + numbers({72}, 3); },
    [] { return numbers({40, 53}, 1).sum({1}); },
    [] { return numbers({40, 53}, 1).sum({0}); },
    [] { return numbers({999}, 1).sum(); },
    [] { return numbers({37, 41}, 1).max({1}); },
    [] { return (numbers({37, 41}, 1) - 9).max({1}); },
    [] { return numbers({37, 41}, 1).min({0}); },
    [] { return numbers({20, 30}, 1).softmax(); },
    [] { return numbers({20, 300}, 1).logsumexp({1}); },
    [] { return numbers({24, 36}, 1).layernorm(); },
    [] { return numbers({20, 50}, 1).var({1}); },
    [] { return numbers({30, 50}, 1).T() + numbers({50, 30}, 2); },
    [] { return numbers({30, 50}, 1).flip({1}) * 2; },
    [] { return numbers({30, 50}, 1).pad({{1, 2}, {3, 4}}) + 1; },
    [] { return Tensor::cat({numbers({7, 9}, 1), numbers({5, 9}, 2)}, 0) * 3; },
    [] { return numbers({64, 20}, 1).getitem({Slice{{}, {}, 2}}) + 1; },
    [] { return numbers({12, 35}, 1).reshape({35, 12}).T().contiguous() * 2; },
    [] { return numbers({6, 4, 5}, 1).permute({2, 0, 1}).reshape({5, 24}) + 1; },
    [] { return numbers({30, 7}, 1).roll({2, 3}, {0, 1}) + 1; },
    [] { return numbers({1, 3, 12, 12}, 1).conv2d(numbers({4, 3, 3, 3}, 2)); },
    [] {
      ConvOptions options;
      options.padding = {1, 1};
      return numbers({2, 4, 9, 9}, 1).conv2d(numbers({5, 4, 3, 3}, 2), nullptr, options);
    },
    [] { return numbers({1, 2, 12, 12}, 1).max_pool2d(); },
    [] { return numbers({50, 8}, 1).embedding(integers({13}, 0, 50)); },
    [] { return numbers({20, 8}, 1).gather(1, integers({20, 3}, 0, 8)); },
    [] { return integers({40}, 0, 10).one_hot(10); },
    [] { return numbers({20, 30}, 1).argmax(1); },
    [] { return numbers({20, 30}, 1).cumsum(1); },
    [] { return numbers({10, 10}, 1).triu() + 1; },
    [] { return numbers({500}, 1).exp2(); },
    [] { return (numbers({500}, 1).abs() + 0.1).log2(); },
    [] { return numbers({500}, 1).sin(); },
    [] { return (numbers({500}, 1).abs() + 0.1).sqrt(); },
    [] { return (numbers({500}, 1) * 5).floor() + numbers({500}, 2); },
    [] { return numbers({500}, 1).clamp(-0.5, 0.7); },
    [] { return numbers({500}, 1).maximum(numbers({500}, 2)); },
    [] { return numbers({500}, 1).gelu(); },
    [] { return (numbers({500}, 1) < numbers({500}, 2)).where(numbers({500}, 3), numbers({500}, 4)); },
    [] { return (numbers({500}, 1) < numbers({500}, 2)).cast(dtypes::float32) * 2; },
    [] { return integers({500}, -50, 50).div(integers({500}, 1, 9), "floor"); },
    [] { return integers({500}, -50, 50) % 7; },
    [] {
      return (integers({500}, 0, 90, dtypes::uint32) * 100000007) <
             integers({500}, 0, 90, dtypes::uint32) * 77777777;
    },
    [] { return integers({500}, 1, 90) << integers({500}, 0, 40); },
    [] { return integers({500}, -90, 90) ^ integers({500}, 0, 40); },
    [] { return numbers({500}, 1).cast(dtypes::float16) + numbers({500}, 2).cast(dtypes::float16); },
    [] { return numbers({500}, 1).cast(dtypes::bfloat16) * 3; },
    [] { return (numbers({500}, 1) * 50).cast(dtypes::int8); },
    [] { return integers({40, 30}, -5, 5).sum({1}); },
    [] { return Tensor::rand({333}) + 1; },
    [] {
      return numbers({2, 2, 16, 8}, 1)
          .scaled_dot_product_attention(numbers({2, 2, 16, 8}, 2), numbers({2, 2, 16, 8}, 3));
    },
};

}  // namespace

void run_fault_programs() {
  for (const std::function<Tensor()>& program : kPrograms) program().realize();
}

std::vector<std::string> fault_kernels() {
  const Scope scope;
  std::vector<std::string> out;
  const auto add = [&](Node index, Node r) {
    const Node value = load(param(dtypes::Float32, 1, 64), index);
    const Node effect = end(store(param(dtypes::Float32, 0, 40), r, value), {&r, 1});
    out.push_back(print_graph(sink({&effect, 1})));
  };
  const Node r = range(index_const(40), 0, RangeKind::Global);
  const auto c = [](std::int64_t v) { return index_const(v); };
  add(floor_mod(r * c(3000000019), c(61)), r);
  add(floor_mod(floor_div(r + c(-17), c(3)) + c(8), c(31)), r);
  add(floor_mod(r + c(-17), c(7)), r);
  return out;
}

}  // namespace lathe::dev
