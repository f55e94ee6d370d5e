// `lathe demo`: trains a small convolutional net on real images, shows a few with what it takes them for,
// and says which kernels the time went to.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>

#include "lathe/datasets.h"
#include "lathe/dev/machine.h"
#include "lathe/dev/terminal.h"
#include "lathe/jit.h"
#include "lathe/optim.h"
#include "models/demo_net.h"
#include "tools/lathe/commands.h"

namespace lathe::tool {
namespace {

constexpr std::int64_t kBatch = 512, kTestBatch = 500;
constexpr std::int64_t kImagesShown = 8;
constexpr std::size_t kKernelsShown = 10;
constexpr int kProfiledSteps = 3;

struct Options {
  std::string data = "/usr/share/datasets/fashion-mnist";
  int epochs = 3;
  double seconds = 0;  // 0: no limit
  double rate = 0.004;
  bool no_capture = false;
};

using Clock = std::chrono::steady_clock;
double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

datasets::ImageSet load(const std::string& folder) {
  const bool clothes = std::filesystem::path(folder).filename() == "fashion-mnist";
  return clothes ? datasets::fashion_mnist(folder) : datasets::load_idx_folder(folder);
}

class Trainer {
 public:
  Trainer(const datasets::ImageSet& data, const Options& options)
      : data_(data),
        options_(options),
        net_(data.classes, data.train.height, data.train.width),
        optimizer_(nn::get_parameters(net_), options.rate),
        step_(jit([this](const std::vector<Tensor>& in) { return train_step(in); })),
        score_(jit([this](const std::vector<Tensor>& in) { return scores(in); })) {}

  // Seconds it took.
  double train() {
    const Clock::time_point begin = Clock::now();
    const std::int64_t steps = data_.train.count / kBatch;
    for (int epoch = 0; epoch < options_.epochs && !out_of_time(begin); ++epoch) {
      const std::vector<std::int64_t> order =
          datasets::shuffled(data_.train.count, static_cast<std::uint64_t>(epoch));
      dev::ProgressBar bar(fmt::format("epoch {}/{}", epoch + 1, options_.epochs), steps);
      const Clock::time_point epoch_begin = Clock::now();
      std::int64_t step = 0;
      for (; step < steps && !out_of_time(begin); ++step) {
        optimizer_.set_learning_rate(
            rate_at(static_cast<double>(epoch * steps + step) / static_cast<double>(options_.epochs * steps),
                    since(begin)));
        auto [images, labels] = data_.train.batch(std::span(order).subspan(
            static_cast<std::size_t>(step * kBatch), static_cast<std::size_t>(kBatch)));
        run_step(images, labels);
        bar.update(step + 1,
                   fmt::format("loss {:.3f}  accuracy {:.1f} %  {:.0f} images/s", loss_, 100 * accuracy_,
                               static_cast<double>((step + 1) * kBatch) / since(epoch_begin)));
      }
    }
    return since(begin);
  }

  // The share of test images it gets right.
  double test() {
    const NoGradScope no_grad;
    const datasets::Images& set = data_.test;
    double right = 0;
    dev::ProgressBar bar("testing", set.count);
    for (std::int64_t begin = 0; begin < set.count; begin += kTestBatch) {
      auto [images, labels] = set.range(begin, std::min(begin + kTestBatch, set.count));
      const std::vector<std::int32_t> found = classes_of(images), wanted = labels.data<std::int32_t>();
      for (std::size_t i = 0; i < wanted.size(); ++i) right += found[i] == wanted[i];
      bar.update(begin + static_cast<std::int64_t>(wanted.size()));
    }
    return right / static_cast<double>(set.count);
  }

  std::vector<std::int32_t> classes_of(const Tensor& images) {
    const NoGradScope no_grad;
    // The last batch of a set may be smaller than the one that was captured.
    const bool whole = !options_.no_capture && images.size(0) == kTestBatch;
    return (whole ? score_({images}) : scores({images}))[0].data<std::int32_t>();
  }

  // Some more steps with every kernel timed.
  std::vector<dev::KernelCost> profile() {
    auto [images, labels] = data_.train.range(0, kBatch);
    dev::set_profiling(true);
    for (int i = 0; i < kProfiledSteps; ++i) run_step(images, labels);
    dev::set_profiling(false);
    return dev::kernel_costs();
  }

 private:
  std::vector<Tensor> train_step(const std::vector<Tensor>& in) {
    const TrainingScope training;
    optimizer_.zero_grad();
    const Tensor out = net_(in[0]);
    Tensor loss = out.sparse_categorical_crossentropy(in[1]);
    Tensor right = (out.argmax(1) == in[1]).cast(dtypes::float32).mean();
    loss.backward();
    std::vector<Tensor> changed = optimizer_.schedule_step();
    changed.insert(changed.begin(), {loss, right});
    Tensor::realize_all(changed);
    optimizer_.zero_grad();
    return {loss.detach(), right.detach()};
  }

  std::vector<Tensor> scores(const std::vector<Tensor>& in) {
    return {net_(in[0]).argmax(1).cast(dtypes::int32)};
  }

  void run_step(const Tensor& images, const Tensor& labels) {
    const std::vector<Tensor> out =
        options_.no_capture ? train_step({images, labels}) : step_({images, labels});
    loss_ = out[0].item();
    const double right = out[1].item();
    accuracy_ = accuracy_ < 0 ? right : 0.9 * accuracy_ + 0.1 * right;
  }

  // Rises for the first fifth of the steps or of the time, whichever ends first, so that a net of random
  // numbers is not thrown about, then falls to nothing, so that the last steps settle.
  double rate_at(double done, double seconds) const {
    if (options_.seconds > 0) done = std::max(done, std::min(1.0, seconds / options_.seconds));
    constexpr double kRising = 0.2;
    return options_.rate * std::min((done + 0.01) / kRising, (1 - done) / (1 - kRising));
  }

  bool out_of_time(Clock::time_point begin) const {
    return options_.seconds > 0 && since(begin) > options_.seconds;
  }

  const datasets::ImageSet& data_;
  const Options& options_;
  models::DemoNet net_;
  nn::optim::Adam optimizer_;
  Jit step_, score_;
  double loss_ = 0, accuracy_ = -1;  // of the last step; a running mean
};

// One line of an image: two rows of pixels a character, by how bright they are.
std::string image_line(const std::uint8_t* pixels, std::int64_t width, std::int64_t row, bool second_row) {
  static constexpr const char* kShades[] = {" ", ".", ":", "-", "=", "+", "*", "#", "%", "@"};
  std::string line;
  for (std::int64_t x = 0; x < width; ++x) {
    const int upper = pixels[row * width + x], lower = second_row ? pixels[(row + 1) * width + x] : upper;
    line += kShades[(upper + lower) / 2 * 9 / 255];
  }
  return line;
}

void show_images(Trainer& trainer, const datasets::ImageSet& data) {
  const std::int64_t height = data.test.height, width = data.test.width;
  const std::int64_t count = std::min(kImagesShown, data.test.count);
  const std::vector<std::int32_t> found = trainer.classes_of(data.test.range(0, count).first);
  auto name = [&](std::int64_t c) { return data.class_names.at(static_cast<std::size_t>(c)); };
  constexpr std::int64_t kAcross = 4;
  for (std::int64_t first = 0; first < count; first += kAcross) {
    const std::int64_t last = std::min(first + kAcross, count);
    for (std::int64_t y = 0; y < height; y += 2) {
      std::string line;
      for (std::int64_t i = first; i < last; ++i)
        line += image_line(&data.test.pixels[static_cast<std::size_t>(i * height * width)], width, y,
                           y + 1 < height) +
                "  ";
      fmt::print("{}\n", line);
    }
    std::string names;
    for (std::int64_t i = first; i < last; ++i) {
      const std::int64_t is = data.test.labels[static_cast<std::size_t>(i)],
                         taken = found[static_cast<std::size_t>(i)];
      std::string text = is == taken ? name(is) : name(taken) + ", not " + name(is);
      text.resize(static_cast<std::size_t>(width) + 2, ' ');
      names += is == taken ? dev::green(text) : dev::red(text);
    }
    fmt::print("{}\n\n", names);
  }
}

void show_kernels(const std::vector<dev::KernelCost>& costs) {
  double total = 0;
  for (const dev::KernelCost& c : costs) total += c.seconds;
  std::vector<std::vector<std::string>> rows{
      {"kernel", "ms a step", "share", "GFLOP/s", "GB/s", "of roof", "from"}};
  for (std::size_t i = 0; i < std::min(costs.size(), kKernelsShown); ++i) {
    const dev::KernelCost& c = costs[i];
    rows.push_back({c.name, fmt::format("{:.2f}", c.seconds * 1e3 / kProfiledSteps),
                    fmt::format("{:.1f} %", 100 * c.seconds / total), fmt::format("{:.1f}", c.gflops),
                    fmt::format("{:.1f}", c.gbytes), c.roof > 0 ? fmt::format("{:.0f} %", 100 * c.roof) : "-",
                    c.origin.substr(0, 48)});
  }
  fmt::print("The most expensive kernels of a training step ({:.1f} ms in kernels):\n",
             total * 1e3 / kProfiledSteps);
  print_table(rows);
}

int run(const Options& options) {
  const datasets::ImageSet data = load(options.data);
  fmt::print("{} images of {}x{} in {} classes from {}, {} to test\n", data.train.count, data.train.width,
             data.train.height, data.classes, options.data, data.test.count);
  Tensor::manual_seed(1);
  Trainer trainer(data, options);
  const double seconds = trainer.train();
  const double right = trainer.test();
  fmt::print("{} of the test images are classified correctly after {}\n\n",
             dev::bold(fmt::format("{:.2f} %", 100 * right)), dev::human_seconds(seconds));
  show_images(trainer, data);
  show_kernels(trainer.profile());
  return 0;
}

}  // namespace

std::vector<Command> add_demo(CLI::App& app) {
  auto options = std::make_shared<Options>();  // shared: the parser's options and the command both hold it
  CLI::App* command = app.add_subcommand("demo", "train a small net on real images");
  command->add_option("--data", options->data, "folder with the four IDX files of an image set")
      ->check(existing_folder());
  command->add_option("--epochs", options->epochs, "passes over the training set")->check(between(1, 1000));
  command->add_option("--seconds", options->seconds, "stop training after this many seconds")
      ->check(above_zero());
  command->add_option("--rate", options->rate, "highest learning rate")->check(above_zero());
  command->add_flag("--no-capture", options->no_capture, "rebuild the graph for every step");
  return {{command, [options] { return run(*options); }}};
}

}  // namespace lathe::tool
