// What the importer does around the operators: refusals, functions, files beside a model, capture, shape
// arithmetic.
#include <fstream>
#include <random>

#include "onnx/support.h"
#include "onnx/writer.h"
#include "support/fuzz.h"
#include "support/mutated.h"

namespace lathe::onnx {
namespace {

using namespace test;

constexpr std::int64_t kFloat = 1, kInt64 = 7;

Tensor bytes_of(const std::string& bytes) {
  return Tensor::from_bytes(bytes.data(), bytes.size(), {Size(bytes.size())}, dtypes::uint8);
}

std::string refusal(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no refusal";
}

void expect_says(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in: " << text;
}

std::vector<double> run_one(Runner& runner, const Values& inputs) {
  return runner(inputs).begin()->second.tensor().tolist();
}

// y = x * w + b, over (N, 2).
std::string linear_model() {
  return model({.nodes = {node("Mul", {"x", "w"}, {"m"}), node("Add", {"m", "b"}, {"y"})},
                .initializers = {floats("w", {2}, {2, 3}), floats("b", {2}, {10, 20})},
                .inputs = {value_info("x", kFloat, {"N", "2"})},
                .outputs = {value_info("y", kFloat, {"N", "2"})}});
}

TEST(Importer, RunsAModelFromMemoryAndTellsWhatItHolds) {
  Runner runner(bytes_of(linear_model()));
  const Summary& s = runner.summary();
  EXPECT_EQ(s.inputs.at(0).str(), "x float32 (N, 2)");
  EXPECT_EQ(s.outputs.at(0).str(), "y float32 (N, 2)");
  EXPECT_EQ(s.parameters, 4);
  EXPECT_EQ(s.parameter_bytes, 16);
  EXPECT_EQ(s.ops.at("Mul"), 1);
  EXPECT_EQ(s.opsets.at(""), 17);
  EXPECT_EQ(run_one(runner, {{"x", Tensor({{1, 1}, {2, 2}}, {.dtype = dtypes::float32})}}),
            (std::vector<double>{12, 23, 14, 26}));
}

TEST(Importer, NamesEveryMissingOperatorBeforeItRunsAnything) {
  const std::string then_graph =
      GraphText{.nodes = {node("Gurgle", {"x"}, {"z"})}, .outputs = {value_info("z", kFloat, {"2"})}}.bytes();
  const std::string bytes =
      model({.nodes = {node("Frobnicate", {"x"}, {"a"}), node("Relu", {"a"}, {"b"}),
                       node("Mystery", {"b"}, {"c"}, {}, "org.example"),
                       node("If", {"c"}, {"y"}, {graph_attribute("then_branch", then_graph)})},
             .inputs = {value_info("x", kFloat, {"2"})},
             .outputs = {value_info("y", kFloat, {"2"})}});
  expect_says(
      refusal([&] { Runner runner(bytes_of(bytes)); }),
      {"3 operators are not supported", "Frobnicate", "Gurgle", "org.example.Mystery", "docs/onnx.md"});
}

TEST(Importer, AnOperatorIsNotReadFromAnOlderSetThanItsOwn) {
  const GraphText graph{.nodes = {node("Mish", {"x"}, {"y"})},
                        .inputs = {value_info("x", kFloat, {"2"})},
                        .outputs = {value_info("y", kFloat, {"2"})}};
  EXPECT_NO_THROW(Runner runner(bytes_of(model(graph, 18))));
  expect_says(refusal([&] { Runner runner(bytes_of(model(graph, 17))); }),
              {"1 operator is not supported: Mish"});
}

TEST(Importer, RefusesInputsThatDoNotFit) {
  Runner runner(bytes_of(linear_model()));
  expect_says(refusal([&] { runner({}); }), {"input 'x' is missing", "x float32 (N, 2)"});
  expect_says(refusal([&] { runner({{"z", Tensor({1.0})}}); }), {"no input 'z'", "its inputs are x"});
  expect_says(refusal([&] { runner({{"x", Tensor({{1, 2}}, {.dtype = dtypes::int32})}}); }),
              {"is int32, the model takes float32"});
  expect_says(refusal([&] { runner({{"x", Tensor::zeros({3, 3})}}); }), {"has shape (3, 3)", "(N, 2)"});
  expect_says(refusal([&] { runner({{"x", Strings{{1}, {"a"}}}}); }), {"input 'x' takes"});
}

TEST(Importer, AnErrorNamesTheNodeItsOperatorAndItsInputs) {
  const std::string bytes = model({.nodes = {node("MatMul", {"x", "w"}, {"y"}, {}, "", "projection")},
                                   .initializers = {floats("w", {3, 1}, {1, 2, 3})},
                                   .inputs = {value_info("x", kFloat, {"N", "M"})},
                                   .outputs = {value_info("y", kFloat, {"N", "1"})}});
  Runner runner(bytes_of(bytes));
  expect_says(refusal([&] { runner({{"x", Tensor::zeros({2, 4})}}); }),
              {"node 'projection' (MatMul)", "'x' (2, 4) float32", "'w' (3, 1) float32"});
}

TEST(Importer, ANameThatNothingMakesIsRefused) {
  const std::string bytes =
      model({.nodes = {node("Relu", {"later"}, {"y"})}, .outputs = {value_info("y", kFloat, {"1"})}});
  Runner runner(bytes_of(bytes));
  expect_says(refusal([&] { runner({}); }), {"reads 'later', which nothing before it makes"});
}

// A function of the model, with an attribute that is passed on and one that keeps its default.
TEST(Importer, CallsFunctionsOfTheModel) {
  const std::string function =
      field(1, std::string("Leak")) + field(4, std::string("a")) + field(5, std::string("c")) +
      field(6, std::string("slope")) +
      field(7, node("LeakyRelu", {"a"}, {"b"}, {reference_attribute("alpha", "slope", 1)})) +
      field(7, node("Elu", {"b"}, {"c"}, {reference_attribute("alpha", "weight", 1)})) + field(9, opset(17)) +
      field(10, std::string("here")) + field(11, attribute("weight", 0.0F));
  const std::string bytes = model({.nodes = {node("Leak", {"x"}, {"y"}, {attribute("slope", 0.5F)}, "here")},
                                   .inputs = {value_info("x", kFloat, {"2"})},
                                   .outputs = {value_info("y", kFloat, {"2"})}},
                                  17, {function});
  Runner runner(bytes_of(bytes));
  EXPECT_EQ(run_one(runner, {{"x", Tensor({-2.0F, 3.0F}, {.dtype = dtypes::float32})}}),
            (std::vector<double>{0, 3}));
}

TEST(Importer, AFunctionThatCallsItselfIsRefused) {
  const std::string function =
      field(1, std::string("Again")) + field(4, std::string("a")) + field(5, std::string("b")) +
      field(7, node("Again", {"a"}, {"b"}, {}, "here")) + field(10, std::string("here"));
  const std::string bytes = model({.nodes = {node("Again", {"x"}, {"y"}, {}, "here")},
                                   .inputs = {value_info("x", kFloat, {"1"})},
                                   .outputs = {value_info("y", kFloat, {"1"})}},
                                  17, {function});
  Runner runner(bytes_of(bytes));
  expect_says(refusal([&] { runner({{"x", Tensor::zeros({1})}}); }), {"nested deeper than"});
}

class InFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("lathe-onnx-" + std::to_string(::getpid()));
    fs::create_directories(folder_ / "inner");
  }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return folder_ / name;
  }
  std::string with_external(const std::vector<std::pair<std::string, std::string>>& where) {
    return model({.nodes = {node("Add", {"x", "w"}, {"y"})},
                  .initializers = {external("w", {2}, where)},
                  .inputs = {value_info("x", kFloat, {"2"})},
                  .outputs = {value_info("y", kFloat, {"2"})}});
  }
  fs::path folder_;
};

TEST_F(InFolder, WeightsMayLieInAFileBesideTheModel) {
  const std::vector<float> weights = {0, 5, 6};
  write("weights.bin", std::string(reinterpret_cast<const char*>(weights.data()), 12));
  const Tensor zero = Tensor::zeros({2});
  Runner runner(
      write("m.onnx", with_external({{"location", "weights.bin"}, {"offset", "4"}, {"length", "8"}})));
  EXPECT_EQ(run_one(runner, {{"x", zero}}), (std::vector<double>{5, 6}));
  auto says = [&](const std::vector<std::pair<std::string, std::string>>& where) {
    return refusal([&] {
      Runner other(write("n.onnx", with_external(where)));
      other({{"x", zero}});
    });
  };
  expect_says(says({{"location", "../weights.bin"}}), {"not inside the model's folder"});
  expect_says(says({{"location", "/etc/passwd"}}), {"not inside the model's folder"});
  expect_says(says({{"location", "absent.bin"}}), {"absent.bin", "cannot be opened"});
  expect_says(says({{"location", "weights.bin"}, {"offset", "8"}, {"length", "8"}}), {"are outside"});
  expect_says(says({{"location", "weights.bin"}, {"offset", "99999999999"}}), {"begins at byte 99999999999"});
  expect_says(says({{"location", "weights.bin"}, {"offset", "-4"}}), {"is not an offset"});
  expect_says(says({{"location", "weights.bin"}, {"length", "4"}}), {"it has 4 bytes, its shape needs 8"});
  expect_says(refusal([&] {
                Runner in_memory(bytes_of(with_external({{"location", "weights.bin"}})));
                in_memory({{"x", zero}});
              }),
              {"in memory"});
}

// What a batch's size decides is computed on the host: no kernel runs for it, in any call.
TEST(Importer, ShapeArithmeticRunsNoKernels) {
  const std::string bytes =
      model({.nodes = {node("Shape", {"x"}, {"s"}), node("Gather", {"s", "zero"}, {"n"}),
                       node("Unsqueeze", {"n", "axes"}, {"n1"}), node("Mul", {"n1", "two"}, {"n2"}),
                       node("Concat", {"n2", "rest"}, {"shape"}, {attribute("axis", std::int64_t(0))}),
                       node("Reshape", {"x", "shape"}, {"y"})},
             .initializers = {integers("zero", {}, {0}), integers("axes", {1}, {0}),
                              integers("two", {1}, {2}), integers("rest", {1}, {-1})},
             .inputs = {value_info("x", kFloat, {"N", "4"})},
             .outputs = {value_info("y", kFloat, {"A", "B"})}});
  Runner runner(bytes_of(bytes));
  for (std::int64_t batch : {1, 3, 7}) {
    const Tensor x =
        Tensor::arange(batch * 4).cast(dtypes::float32).reshape({batch, 4}).contiguous().realize();
    reset_counters();
    const Tensor y = runner({{"x", x}}).at("y").tensor();
    EXPECT_EQ(to_string(y.shape()), to_string(Shape{batch * 2, 2}));
    EXPECT_EQ(counters().kernels, 0u);
    EXPECT_EQ(y.tolist(), x.tolist());
  }
}

// w * 2 is computed in the first call and only read in later ones.
TEST(Importer, ConstantsAreComputedOnceAndCallsAreReplayed) {
  const std::string bytes =
      model({.nodes = {node("Mul", {"w", "two"}, {"w2"}), node("Exp", {"w2"}, {"e"}),
                       node("MatMul", {"x", "e"}, {"y"})},
             .initializers = {floats("w", {2, 2}, {0, 0, 0, 0}), floats("two", {}, {2})},
             .inputs = {value_info("x", kFloat, {"N", "2"})},
             .outputs = {value_info("y", kFloat, {"N", "2"})}});
  Runner runner(bytes_of(bytes));
  for (int call = 0; call < 6; ++call) {
    const auto v = static_cast<float>(call);
    const Tensor x = Tensor::full({1, 2}, v).contiguous().realize();
    reset_counters();
    EXPECT_EQ(run_one(runner, {{"x", x}}), (std::vector<double>{2.0 * v, 2.0 * v}));
    EXPECT_LE(counters().kernels, call == 0 ? 3u : 1u) << "call " << call;
    EXPECT_EQ(runner.replayed(), call >= 3) << "call " << call;
  }
  EXPECT_EQ(run_one(runner, {{"x", Tensor::ones({2, 2})}}).size(), 4u);
  EXPECT_FALSE(runner.replayed()) << "another shape was not seen before";
}

// The kernels of a symbolic dimension serve every batch; only storing an input at the greatest size may be
// new.
TEST(Importer, ANamedDimensionMayStaySymbolic) {
  Runner runner(bytes_of(linear_model()), {.symbolic = {{"N", 8}}});
  for (std::int64_t batch : {3, 1, 8, 5, 2, 7}) {
    const Tensor x =
        Tensor::arange(batch * 2).cast(dtypes::float32).reshape({batch, 2}).contiguous().realize();
    const Tensor y = runner({{"x", x}}).at("y").tensor();
    EXPECT_EQ(to_string(y.shape()), to_string(Shape{batch, 2}));
    std::vector<double> expected;
    for (std::int64_t i = 0; i < batch; ++i) {
      expected.push_back(static_cast<double>(4 * i + 10));
      expected.push_back(static_cast<double>(3 * (2 * i + 1) + 20));
    }
    EXPECT_EQ(y.tolist(), expected) << "batch " << batch;
  }
  EXPECT_EQ(runner({{"x", Tensor::ones({9, 2})}}).at("y").tensor().size(0).value(), 9)
      << "outside of its range";
}

// The result of a call does not change when the next one runs.
TEST(Importer, AResultOutlivesTheNextCall) {
  Runner runner(bytes_of(linear_model()));
  std::vector<Tensor> results;
  for (int i = 0; i < 6; ++i)
    results.push_back(
        runner({{"x", Tensor::full({1, 2}, static_cast<float>(i)).contiguous().realize()}}).at("y").tensor());
  for (int i = 0; i < 6; ++i)
    EXPECT_EQ(results[static_cast<std::size_t>(i)].tolist(),
              (std::vector<double>{2.0 * i + 10, 3.0 * i + 20}))
        << i;
}

// A shape that depends on values is read anew in every call.
TEST(Importer, WhatDependsOnValuesIsNotReplayed) {
  const std::string bytes = model({.nodes = {node("NonZero", {"x"}, {"y"})},
                                   .inputs = {value_info("x", kFloat, {"3"})},
                                   .outputs = {value_info("y", kInt64, {"1", "n"})}});
  Runner runner(bytes_of(bytes));
  const std::vector<std::vector<float>> inputs = {{0, 1, 1}, {1, 0, 0}, {0, 0, 0},
                                                  {1, 1, 1}, {0, 0, 2}, {0, 3, 0}};
  for (const auto& values : inputs) {
    std::vector<double> expected;
    for (std::size_t i = 0; i < values.size(); ++i)
      if (values[i] != 0) expected.push_back(static_cast<double>(i));
    EXPECT_EQ(run_one(runner, {{"x", Tensor(values)}}), expected);
    EXPECT_FALSE(runner.replayed());
  }
}

// A sequence is no list of outputs: calls that give one are built each time.
TEST(Importer, ASequenceStaysOneOutput) {
  const std::string bytes = model(
      {.nodes = {node("SplitToSequence", {"x"}, {"s"}, {attribute("axis", std::int64_t(1))}),
                 node("Neg", {"x"}, {"y"})},
       .inputs = {value_info("x", kFloat, {"2", "3"})},
       .outputs = {field(1, std::string("s")) + field(2, field(4, field(1, field(1, field(1, kFloat))))),
                   value_info("y", kFloat, {"2", "3"})}});
  Runner runner(bytes_of(bytes));
  for (int call = 0; call < 5; ++call) {
    const Values out = runner({{"x", Tensor::ones({2, 3})}});
    EXPECT_EQ(out.at("s").items().size(), 3u);
    EXPECT_EQ(out.at("y").tensor().tolist(), std::vector<double>(6, -1.0));
  }
}

// A loop that doubles until the sum passes a limit, so that its length depends on values.
TEST(Importer, ALoopEndsWhenItsConditionSaysSo) {
  const GraphText body{
      .nodes = {node("Add", {"v", "v"}, {"w"}),
                node("ReduceSum", {"w"}, {"sum"}, {attribute("keepdims", std::int64_t(0))}),
                node("Less", {"sum", "limit"}, {"go"}), node("Identity", {"w"}, {"row"})},
      .inputs = {value_info("i", kInt64, {}), value_info("c", 9, {}), value_info("v", kFloat, {"2"})},
      .outputs = {value_info("go", 9, {}), value_info("w", kFloat, {"2"}), value_info("row", kFloat, {"2"})}};
  const std::string bytes =
      model({.nodes = {node("Loop", {"", "", "x"}, {"y", "rows"}, {graph_attribute("body", body.bytes())})},
             .initializers = {floats("limit", {}, {100})},
             .inputs = {value_info("x", kFloat, {"2"})},
             .outputs = {value_info("y", kFloat, {"2"}), value_info("rows", kFloat, {"n", "2"})}});
  Runner runner(bytes_of(bytes));
  for (const auto& [start, end, rounds] : {std::tuple{1.0F, 64.0, 6}, {10.0F, 80.0, 3}, {60.0F, 120.0, 1}}) {
    const Values out = runner({{"x", Tensor::full({2}, start).contiguous()}});
    EXPECT_EQ(out.at("y").tensor().tolist(), (std::vector<double>{end, end}));
    EXPECT_EQ(out.at("rows").tensor().size(0).value(), rounds);
  }
}

TEST(Importer, FourBitIntegersWrapAndSaturateAtFourBits) {
  constexpr std::int64_t kInt4 = 22;
  const std::string bytes =
      model({.nodes = {node("Identity", {"like"}, {"same"}), node("CastLike", {"x", "same"}, {"cast"}),
                       node("QuantizeLinear", {"x", "scale", "like"}, {"quantised"})},
             .initializers = {floats("scale", {}, {1})},
             .inputs = {value_info("x", kFloat, {"4"}), value_info("like", kInt4, {})},
             .outputs = {value_info("cast", kInt4, {"4"}), value_info("quantised", kInt4, {"4"})}});
  Runner runner(bytes_of(bytes));
  const Values out = runner({{"x", Tensor({-9.0F, 7.0F, 8.0F, 100.0F}).to_float()},
                             {"like", Tensor::zeros({}, {.dtype = dtypes::int8})}});
  EXPECT_EQ(out.at("cast").tensor().tolist(), (std::vector<double>{7, 7, -8, 4}));
  EXPECT_EQ(out.at("quantised").tensor().tolist(), (std::vector<double>{-8, 7, 7, 7}));
}

// ---- hostile files

// Loads, and builds and schedules the graph over inputs of the declared shapes; refusals are what a damaged
// file is to get.
void use(const std::string& bytes) {
  Runner runner(bytes_of(bytes));
  Values inputs;
  for (const Port& port : runner.summary().inputs) {
    Shape shape;
    std::int64_t count = 1;
    for (const std::string& d : port.dims) {
      const bool number = d.size() < 6 && d.find_first_not_of("0123456789") == std::string::npos;
      shape.emplace_back(number ? std::stoll(d) : 2);
      count *= shape.back().value();
    }
    if (count > 100000) throw UserError("test", "the input is larger than the test gives");
    inputs[port.name] = Tensor::zeros(shape, {.dtype = dtypes::parse(port.type)}).contiguous();
  }
  runner.schedule(inputs);
}

std::vector<std::string> seeds_for_fuzzing() {
  std::vector<std::string> all = {linear_model()};
  all.push_back(model(
      {.nodes = {node("Conv", {"x", "w"}, {"a"},
                      {attribute("pads", Dims{1, 1, 1, 1}), attribute("strides", Dims{2, 2})}),
                 node("MaxPool", {"a"}, {"b"}, {attribute("kernel_shape", Dims{2, 2})}),
                 node("Flatten", {"b"}, {"c"}), node("Shape", {"c"}, {"s"}),
                 node("Slice", {"c", "lo", "hi"}, {"d"}), node("Pad", {"d", "p"}, {"e"}),
                 node("Softmax", {"e"}, {"y"})},
       .initializers = {floats("w", {2, 1, 3, 3}, std::vector<float>(18, 1.0F)), integers("lo", {1}, {0}),
                        integers("hi", {1}, {3}), integers("p", {4}, {0, 1, 0, 1})},
       .inputs = {value_info("x", kFloat, {"N", "1", "8", "8"})},
       .outputs = {value_info("y", kFloat, {"N", "M"})}}));
  all.push_back(
      model({.nodes = {node("Resize", {"x", "", "scales"}, {"a"}), node("Expand", {"a", "shape"}, {"b"}),
                       node("ConstantOfShape", {"shape"}, {"c"}), node("Tile", {"b", "times"}, {"d"}),
                       node("Range", {"i0", "i1", "i2"}, {"r"}),
                       node("Concat", {"d", "b"}, {"y"}, {attribute("axis", std::int64_t(0))}),
                       node("TopK", {"y", "k"}, {"v", "i"}),
                       node("Split", {"y"}, {"p", "q"}, {attribute("axis", std::int64_t(1))})},
             .initializers = {floats("scales", {2}, {2, 2}), integers("shape", {2}, {4, 4}),
                              integers("times", {2}, {2, 1}), integers("i0", {}, {0}),
                              integers("i1", {}, {9}), integers("i2", {}, {3}), integers("k", {1}, {2})},
             .inputs = {value_info("x", kFloat, {"2", "2"})},
             .outputs = {value_info("y", kFloat, {"a", "b"}), value_info("v", kFloat, {"a", "b"}),
                         value_info("r", kInt64, {"n"})}}));
  for (const char* name :
       {"test_lstm_defaults", "test_if", "test_sequence_insert_at_back", "test_qlinearconv",
        "test_einsum_sum", "test_gridsample", "test_scatternd_add", "test_resize_upsample_sizes_cubic"})
    for (const fs::path& folder : installed_cases("node"))
      if (folder.filename() == name) {
        std::ifstream file(folder / "model.onnx", std::ios::binary);
        all.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
      }
  return all;
}

TEST(HostileFiles, AModelThatIsCutOffAnywhereIsRefusedOrRead) {
  for (const std::string& whole : {linear_model()})
    for (std::size_t size = 0; size < whole.size(); ++size) {
      const std::string text = refusal([&] { use(whole.substr(0, size)); });
      if (text != "no refusal") expect_says(text, {"lathe: "});
    }
}

TEST(HostileFiles, MutatedModelsAreReadOrRefused) {
  const FlagOverride limit("MEMORY_LIMIT", "1G");
  const std::vector<std::string> all = seeds_for_fuzzing();
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NO_THROW(use(all[i])) << "seed file " << i;
  std::uint64_t read = 0, refused = 0;
  for (lathe::test::FuzzSeeds seeds(40); seeds.next();)
    for (std::size_t k = 0; k < all.size(); ++k) {
      std::mt19937_64 random(seeds.seed() * 1000 + k);
      try {
        use(lathe::test::mutated(all[k], random));
        ++read;
      } catch (const UserError& error) {
        ++refused;
        ASSERT_GT(std::string(error.what()).size(), 20u) << error.what();
      } catch (const OutOfMemory&) {
        ++refused;
      } catch (const std::exception& error) {
        FAIL() << "FUZZ_SEED=" << seeds.seed() << ", file " << k << ": " << error.what();
      }
    }
  std::printf("%llu read, %llu refused\n", static_cast<unsigned long long>(read),
              static_cast<unsigned long long>(refused));
  EXPECT_GT(read, 0u);
  EXPECT_GT(refused, 0u);
}

}  // namespace
}  // namespace lathe::onnx
