// Trains a small convolutional net to tell images of clothes apart, and says how many of the test images
// it gets right.
//   build/bin/mnist                  Fashion-MNIST, from the package dataset-fashion-mnist
//   build/bin/mnist FOLDER [EPOCHS]  any folder with the four IDX files of such a set, the MNIST digits for
//   example
#include <lathe/lathe.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <span>

using lathe::Tensor;
namespace nn = lathe::nn;
namespace datasets = lathe::datasets;

// A net is a module: it names its layers (for the optimizer, and for saving) and says what it computes from
// them.
struct Net : nn::Module {
  nn::Conv2d conv1{1, 32, 5}, conv2{32, 32, 5};
  nn::BatchNorm norm1{32};
  nn::Conv2d conv3{32, 64, 3}, conv4{64, 64, 3};
  nn::BatchNorm norm2{64};
  nn::Linear linear{576, 10};

  Tensor operator()(const Tensor& images) {
    Tensor x = images.cast(lathe::dtypes::float32) / 255;   // (batch, 1, 28, 28)
    x = norm1(conv2(conv1(x).relu()).relu()).max_pool2d();  // (batch, 32, 10, 10)
    x = norm2(conv4(conv3(x).relu()).relu()).max_pool2d();  // (batch, 64, 3, 3)
    return linear(x.flatten(1));                            // (batch, 10): a score for every class
  }

  void parts(nn::Parts& p) override {
    p("conv1", conv1)("conv2", conv2)("norm1", norm1)("conv3", conv3)("conv4", conv4)("norm2", norm2);
    p("linear", linear);
  }
};

constexpr std::int64_t kBatch = 512;

// One step of training: how wrong the net is, which way is better, and a small step that way. Returns the
// loss.
Tensor train_step(Net& net, nn::optim::Optimizer& optimizer, const Tensor& images, const Tensor& labels) {
  lathe::TrainingScope training;  // batch norm uses the statistics of this batch
  optimizer.zero_grad();
  Tensor loss = net(images).sparse_categorical_crossentropy(labels);
  loss.backward();   // builds the graph of the gradients; nothing has been computed yet
  optimizer.step();  // computes forward, backward and update as one graph
  return loss.detach();
}

// The share of images whose highest score is the right class, in percent.
double accuracy(Net& net, const datasets::Images& set) {
  lathe::NoGradScope no_grad;
  double right = 0;
  for (std::int64_t begin = 0; begin < set.count; begin += kBatch) {
    auto [images, labels] = set.range(begin, std::min(begin + kBatch, set.count));
    right += (net(images).argmax(1) == labels).cast(lathe::dtypes::float32).sum().item();
  }
  return 100 * right / static_cast<double>(set.count);
}

void train(const datasets::ImageSet& data, int epochs) {
  Tensor::manual_seed(1);
  Net net;
  nn::optim::Adam optimizer(nn::get_parameters(net), 0.004);
  const std::int64_t batches = data.train.count / kBatch;
  // Larger and larger steps for the first fifth, then smaller and smaller ones.
  nn::schedulers::Polynomial schedule(optimizer, epochs * batches, 0, 1, epochs * batches / 5);
  // Captured: from the third call on the kernels are replayed without building the graph again.
  auto step = lathe::jit([&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
    return {train_step(net, optimizer, in[0], in[1])};
  });
  for (int epoch = 0; epoch < epochs; ++epoch) {
    const std::vector<std::int64_t> order = datasets::shuffled(data.train.count, epoch);
    for (std::int64_t i = 0; i < batches; ++i) {
      auto [images, labels] = data.train.batch(std::span(order).subspan(i * kBatch, kBatch));
      const Tensor loss = step({images, labels})[0];
      schedule.step();
      std::printf("\repoch %d/%d  batch %3ld/%ld  loss %.4f ", epoch + 1, epochs, i + 1, batches,
                  loss.item());
      std::fflush(stdout);
    }
    std::printf("  test accuracy %.2f %%\n", accuracy(net, data.test));
  }
}

int main(int argc, char** argv) {
  try {
    train(argc > 1 ? datasets::load_idx_folder(argv[1]) : datasets::fashion_mnist(),
          argc > 2 ? std::atoi(argv[2]) : 3);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
