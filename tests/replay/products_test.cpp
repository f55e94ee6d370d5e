// No dtype and no direction falls off the heuristic: every product-like kernel of the nets, forward and
// backward, in every float dtype, computes a tile of outputs in registers or uses a matrix unit.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "base/atomic_file.h"
#include "codegen/codegen.h"
#include "codegen/options/option_state.h"
#include "ir/build.h"
#include "ir/ranges.h"
#include "ir/walk.h"
#include "models/benchmarks.h"
#include "replay/kernels_of.h"
#include "test_folders.h"

namespace lathe::test {
namespace {

// A sum of products that each read two values, both of which serve several outputs: a matrix product or a
// convolution, or a gradient of one.
struct ProductLike {
  std::vector<Node> own[2];  // output ranges that only the first, or only the second, factor moves with
  std::vector<Node> steps;
};

bool reads_memory(Node value) {
  const std::vector<Node> nodes = toposort(value);
  return std::any_of(nodes.begin(), nodes.end(), [](Node n) { return n.is(Op::Load); });
}

double extent_of(const std::vector<Node>& ranges) {
  double n = 1;
  for (Node r : ranges) n *= static_cast<double>(std::max<std::int64_t>(r.arg(0).hi(), 1));
  return n;
}

// Casts, scales and masks around a product leave it one.
Node product_below(Node element) {
  for (;;) {
    if (element.is(Op::Cast))
      element = element.arg(0);
    else if (element.is(Op::Where) && element.arg(2).is_const())
      element = element.arg(1);
    else
      break;
  }
  return element;
}

std::optional<ProductLike> product_like(Node kernel) {
  constexpr double kWork = 1 << 20, kOutputs = 8, kSteps = 8;  // less of it matters to nobody
  std::optional<ProductLike> found;
  double most = kWork;
  for (Node reduce : toposort(kernel)) {
    if (!reduce.is(Op::Reduce) || reduce_op(reduce) != Op::Add || !reduce.dtype().is_float()) continue;
    const Node product = product_below(reduce.arg(0));
    if (!product.is(Op::Mul) || !reads_memory(product.arg(0)) || !reads_memory(product.arg(1))) continue;
    ProductLike one;
    std::vector<Node> all;
    for (Node r : ranges_of(reduce.arg(0))) {
      all.push_back(r);
      const bool first = depends_on(product.arg(0), r), second = depends_on(product.arg(1), r);
      const std::span<const Node> closed = closed_ranges(reduce);
      if (std::find(closed.begin(), closed.end(), r) != closed.end())
        one.steps.push_back(r);
      else if (first != second)
        one.own[first ? 0 : 1].push_back(r);
    }
    if (extent_of(one.own[0]) < kOutputs || extent_of(one.own[1]) < kOutputs || extent_of(one.steps) < kSteps)
      continue;
    if (extent_of(all) < most) continue;
    most = extent_of(all);
    found = one;
  }
  return found;
}

// Whether a product has several outputs of each factor in registers, or lanes along its steps and several
// outputs; a matrix unit has both.
bool has_tile(Node kernel, const std::vector<Opt>& opts, const Target& target, const ProductLike& product) {
  OptionState state(kernel, target);
  for (const Opt& opt : opts) {
    if (opt.op == OptOp::TC) return true;
    state.apply(opt);
  }
  double taken[3] = {1, 1, 1};  // of each factor's own ranges, and of the steps
  for (const Axis& axis : state.axes()) {
    if (axis.kind != RangeKind::Upcast && axis.kind != RangeKind::Unroll) continue;
    const Node range = state.origins()[static_cast<std::size_t>(axis.origin)].range;
    const std::vector<Node>* sets[] = {&product.own[0], &product.own[1], &product.steps};
    for (int i = 0; i < 3; ++i)
      if (std::find(sets[i]->begin(), sets[i]->end(), range) != sets[i]->end())
        taken[i] *= static_cast<double>(axis.extent.hi());
  }
  constexpr double kLanes = 4;
  if (taken[0] > 1 && taken[1] > 1) return std::max(taken[0], taken[1]) >= kLanes;
  return taken[2] >= kLanes && taken[0] * taken[1] > 1;
}

// Convolutions as nets have them, with what the optimizer and the layer before ask for.
std::vector<ReplayGraph> convolutions() {
  auto given = [](const Shape& shape) { return Tensor::empty(shape); };
  auto graph = [given](const char* name, Shape weights, auto apply) {
    return ReplayGraph{name, [=] {
                         const Tensor x = given({8, 64, 28, 28}), w = given(weights), y = apply(x, w);
                         std::vector<Tensor> out = {y};
                         for (Tensor& g : (y * given(y.shape())).sum().gradient({x, w}))
                           out.push_back(std::move(g));
                         return out;
                       }};
  };
  auto conv = [](const ConvOptions& options) {
    return [=](const Tensor& x, const Tensor& w) { return x.conv2d(w, nullptr, options); };
  };
  auto transposed = [](const ConvTransposeOptions& options) {
    return [=](const Tensor& x, const Tensor& w) { return x.conv_transpose2d(w, nullptr, options); };
  };
  return {
      graph("conv 1x1", {96, 64, 1, 1}, conv({})),
      graph("conv 3x3", {96, 64, 3, 3}, conv({.padding = 1})),
      graph("conv 3x3 stride", {96, 64, 3, 3}, conv({.stride = 2, .padding = 1})),
      graph("conv 5x5 dilation", {96, 64, 5, 5}, conv({.dilation = 2})),
      graph("conv 3x3 groups", {96, 16, 3, 3}, conv({.groups = 4, .padding = 1})),
      graph("conv transposed", {64, 48, 3, 3}, transposed({.padding = 1})),
      graph("conv transposed stride", {64, 48, 4, 4}, transposed({.stride = 2, .padding = 1})),
  };
}

constexpr const char* kTargets[] = {"x86-64-v3", "x86-64-v4", "x86-64-v4+avx512bf16"};

// The options of every product-like kernel of a graph, a line each.
std::string product_options(const ReplayGraph& graph, DataType dtype, int& products) {
  const Scope scope;
  std::string text;
  for (const NodeRef& kernel : scheduled_kernels(graph.build(), "x86-64-v3")) {
    const std::optional<ProductLike> product = product_like(kernel);
    if (!product) continue;
    ++products;
    for (const char* name : kTargets) {
      const Target target = named_target(name);
      const std::vector<Opt> opts = choose_options(kernel, target);
      const std::string line = fmt::format(
          "{} {} {}: {:.0f} x {:.0f} by {:.0f}: {}\n", graph.name, dtype.name(), name,
          extent_of(product->own[0]), extent_of(product->own[1]), extent_of(product->steps), to_string(opts));
      EXPECT_TRUE(has_tile(kernel, opts, target, *product)) << line;
      text += line;
    }
  }
  return text;
}

TEST(Products, OfEveryNetInEveryFloatDtypeAndDirectionHaveATileOrAMatrixUnit) {
  const std::string path = LATHE_BINARY_DIR "/product_options.txt";
  const DataType usual = dtypes::default_float();
  std::string text;
  int products = 0;
  for (DataType dtype : {dtypes::float32, dtypes::float16, dtypes::bfloat16, dtypes::float64}) {
    dtypes::set_default_float(dtype);
    std::vector<ReplayGraph> graphs = convolutions();
    for (const models::BenchmarkNet& net : models::benchmark_nets())
      graphs.push_back({std::string(net.name), net.build});
    const int before = products;
    for (const ReplayGraph& graph : graphs) text += product_options(graph, dtype, products);
    EXPECT_GE(products - before, 170) << "in " << dtype.name();
  }
  dtypes::set_default_float(usual);
  write_file_atomic(path, text, Sync::No);
  fmt::print("{} products; their options are in {}\n", products, path);
}

}  // namespace
}  // namespace lathe::test
