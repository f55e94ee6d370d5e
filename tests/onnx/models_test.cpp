// Real networks with trained weights: outputs, what they say about images, accuracy, and sizes that change.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "lathe/datasets.h"
#include "onnx/support.h"

namespace lathe::onnx {
namespace {

using test::fs::path;

struct ModelRow {
  const char* folder;  // below shared/data
  test::Tolerance tolerance;
};

// Half floats and 8-bit steps decide how close results can be; the others compute in float32.
const ModelRow kModels[] = {
    {"onnx/mnist-cntk", {1e-3, 1e-3}},       {"onnx/mnist-pytorch", {1e-3, 1e-4}},
    {"onnx/resnet8-cifar10", {1e-3, 1e-5}},  {"onnx/squeezenet-fp16", {2e-2, 2e-3}},
    {"onnx/ultraface-rfb320", {1e-3, 1e-5}}, {"onnx/dtln-1", {1e-3, 1e-5}},
    {"onnx/byte-bilstm-sbd", {1e-3, 1e-4}},  {"use-lite", {1e-3, 1e-5}},
};

class Models : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = test::shared_data();
    if (root_.empty()) GTEST_SKIP() << "the models with real weights are not here";
  }
  path root_;
};

std::size_t greatest(const std::vector<double>& v) {
  return static_cast<std::size_t>(std::max_element(v.begin(), v.end()) - v.begin());
}

TEST_F(Models, GiveTheExpectedOutputsAlsoWhenReplayed) {
  for (const ModelRow& row : kModels) {
    Runner runner(root_ / row.folder / "model.onnx");
    for (const path& set : test::data_sets(root_ / row.folder)) {
      const Values inputs = test::load_set(set, "input", runner.summary().inputs);
      const Values expected = test::load_set(set, "output", runner.summary().outputs);
      ASSERT_FALSE(expected.empty()) << set;
      for (int call = 0; call < 5; ++call)
        EXPECT_EQ(test::difference(runner(inputs), expected, row.tolerance), "") << set << ", call " << call;
      EXPECT_TRUE(runner.replayed()) << row.folder;
    }
  }
}

// Its output has steps of 0.153; implementations of the quantised form differ by a few.
TEST_F(Models, AQuantisedNetNamesTheCat) {
  const path folder = root_ / "onnx/mobilenetv2-qdq";
  Runner runner(folder / "model.onnx");
  for (const path& set : test::data_sets(folder)) {
    const Values expected = test::load_set(set, "output", runner.summary().outputs);
    const Values got = runner(test::load_set(set, "input", runner.summary().inputs));
    EXPECT_EQ(test::difference(got, expected, {0, 5 * 0.1535}), "") << set;
    const auto a = got.begin()->second.tensor().tolist(), b = expected.begin()->second.tensor().tolist();
    EXPECT_EQ(greatest(a), greatest(b)) << set;
  }
}

TEST_F(Models, SayWhatIsInTheImages) {
  {
    const path folder = root_ / "onnx/squeezenet-fp16";
    Runner runner(folder / "model.onnx");
    const auto scores = runner(test::load_set(folder / "test_data_set_0", "input", runner.summary().inputs))
                            .begin()
                            ->second.tensor()
                            .tolist();
    EXPECT_EQ(greatest(scores), 285u);
    EXPECT_NEAR(scores[285], 0.58, 0.02);
  }
  const path folder = root_ / "onnx/ultraface-rfb320";
  Runner runner(folder / "model.onnx");
  const Values out = runner(test::load_set(folder / "test_data_set_0", "input", runner.summary().inputs));
  const Tensor scores = out.at("scores").tensor(), boxes = out.at("boxes").tensor();
  const std::vector<double> face = scores.getitem({0, Slice{}, 1}).tolist();
  const std::size_t best = greatest(face);
  EXPECT_NEAR(face[best], 1.0, 0.01);
  const std::vector<double> box = boxes.getitem({0, static_cast<std::int64_t>(best)}).tolist();
  const double expected[] = {0.35, 0.12, 0.53, 0.34};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(box[i], expected[i], 0.01) << i;
}

double accuracy(Runner& runner, const Tensor& images, const std::vector<std::int64_t>& labels,
                bool one_by_one) {
  const auto count = static_cast<std::int64_t>(labels.size());
  const std::string input = runner.summary().inputs.at(0).name;
  std::int64_t right = 0;
  for (std::int64_t i = 0; i < count; i += one_by_one ? 1 : count) {
    const Tensor batch = one_by_one ? images[Slice{i, i + 1}].contiguous() : images;
    const Tensor scores = runner({{input, batch}}).begin()->second.tensor();
    const std::vector<std::int64_t> found = scores.argmax(-1).data<std::int64_t>();
    for (std::size_t k = 0; k < found.size(); ++k)
      right += found[k] == labels[static_cast<std::size_t>(i) + k] ? 1 : 0;
  }
  return static_cast<double>(right) / static_cast<double>(count);
}

TEST_F(Models, ReadDigits) {
  const std::int64_t count = 500;
  const Tensor pixels =
      Tensor::from_bytes(datasets::read_idx(root_ / "mnist/t10k-images-idx3-ubyte.gz").bytes.data(),
                         count * 784, {count, 1, 28, 28}, dtypes::uint8)
          .cast(dtypes::float32)
          .realize();
  const auto read = datasets::read_idx(root_ / "mnist/t10k-labels-idx1-ubyte.gz").bytes;
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < count; ++i)
    labels.push_back(static_cast<std::int64_t>(read[static_cast<std::size_t>(i)]));
  Runner cntk(root_ / "onnx/mnist-cntk/model.onnx"), pytorch(root_ / "onnx/mnist-pytorch/model.onnx");
  EXPECT_GT(accuracy(cntk, pixels, labels, true), 0.97);
  Tensor scaled = ((pixels / 255.0 - 0.1307) / 0.3081).realize();
  EXPECT_GT(accuracy(pytorch, scaled, labels, true), 0.97);
}

// The same images give the same probabilities whatever batch they are in.
TEST_F(Models, TakeAnyBatch) {
  const path folder = root_ / "onnx/resnet8-cifar10";
  Runner runner(folder / "model.onnx"), symbolic(folder / "model.onnx", {.symbolic = {{"N", 16}}});
  const Values inputs = test::load_set(folder / "test_data_set_0", "input", runner.summary().inputs);
  const Values expected = test::load_set(folder / "test_data_set_0", "output", runner.summary().outputs);
  const std::string in = inputs.begin()->first, out = expected.begin()->first;
  const Tensor images = inputs.at(in).tensor();
  const std::vector<double> all = expected.at(out).tensor().tolist();
  for (Runner* one : {&runner, &symbolic})
    for (std::int64_t batch : {1, 3, 16, 5}) {
      const Tensor got = (*one)({{in, images[Slice{0, batch}].contiguous()}}).at(out).tensor();
      const std::vector<double> values = got.tolist();
      ASSERT_EQ(values.size(), static_cast<std::size_t>(batch * 10));
      for (std::size_t i = 0; i < values.size(); ++i)
        EXPECT_NEAR(values[i], all[i], 1e-5) << "batch " << batch << ", element " << i;
    }
}

}  // namespace
}  // namespace lathe::onnx
