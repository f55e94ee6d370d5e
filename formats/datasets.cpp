// Folders of IDX files as images and labels, and batches of them.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "lathe/datasets.h"

namespace lathe::datasets {
namespace {

std::filesystem::path find_file(const std::filesystem::path& folder, const std::string& name) {
  for (const char* ending : {"", ".gz"})
    if (std::filesystem::path file = folder / (name + ending); std::filesystem::is_regular_file(file))
      return file;
  throw MissingFile("load_idx_folder", fmt::format("{} has no {} and no {}.gz", folder.string(), name, name))
      .help("the folder needs train- and t10k- files of images-idx3-ubyte and labels-idx1-ubyte");
}

std::vector<std::uint8_t> unsigned_bytes(const IdxArray& array) {
  std::vector<std::uint8_t> out(array.bytes.size());
  std::memcpy(out.data(), array.bytes.data(), out.size());
  return out;
}

IdxArray read_part(const std::filesystem::path& file, std::size_t rank) {
  IdxArray array = read_idx(file);
  if (array.shape.size() != rank || array.dtype != dtypes::uint8)
    throw UserError(
        "load_idx_folder",
        fmt::format("{} holds {} of shape {}, {} axes of uint8 are needed", file.string(), array.dtype.name(),
                    to_string(Shape(array.shape.begin(), array.shape.end())), rank));
  return array;
}

Images load_part(const std::filesystem::path& folder, const std::string& prefix) {
  const IdxArray images = read_part(find_file(folder, prefix + "-images-idx3-ubyte"), 3);
  const IdxArray labels = read_part(find_file(folder, prefix + "-labels-idx1-ubyte"), 1);
  if (images.shape[0] != labels.shape[0])
    throw UserError("load_idx_folder", fmt::format("{} has {} {} images but {} labels", folder.string(),
                                                   images.shape[0], prefix, labels.shape[0]));
  Images part;
  part.count = images.shape[0];
  part.height = images.shape[1];
  part.width = images.shape[2];
  part.pixels = unsigned_bytes(images);
  part.labels = unsigned_bytes(labels);
  return part;
}

// The shuffle must not depend on the standard library's distributions, which differ between libraries.
struct Mixer {
  std::uint64_t state;
  std::uint64_t next() {
    std::uint64_t z = state += 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }
};

}  // namespace

std::pair<Tensor, Tensor> Images::batch(std::span<const std::int64_t> indices) const {
  const auto size = static_cast<std::size_t>(image_size());
  std::vector<std::uint8_t> some(indices.size() * size);
  std::vector<std::int32_t> some_labels(indices.size());
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] < 0 || indices[i] >= count)
      throw UserError("batch", fmt::format("image {} was requested of {} images", indices[i], count));
    const auto at = static_cast<std::size_t>(indices[i]);
    std::memcpy(some.data() + i * size, pixels.data() + at * size, size);
    some_labels[i] = labels[at];
  }
  return {Tensor(some, Shape{indices.size(), channels, height, width}), Tensor(some_labels)};
}

std::pair<Tensor, Tensor> Images::range(std::int64_t begin, std::int64_t end) const {
  if (begin < 0 || begin > end || end > count)
    throw UserError("range", fmt::format("images {} to {} were requested of {}", begin, end, count));
  std::vector<std::int64_t> indices(static_cast<std::size_t>(end - begin));
  std::iota(indices.begin(), indices.end(), begin);
  return batch(indices);
}

ImageSet load_idx_folder(const std::filesystem::path& folder) {
  if (!std::filesystem::is_directory(folder))
    throw MissingFile("load_idx_folder", fmt::format("there is no folder {}", folder.string()));
  ImageSet set{load_part(folder, "train"), load_part(folder, "t10k"), 0, {}};
  if (set.train.height != set.test.height || set.train.width != set.test.width)
    throw UserError("load_idx_folder",
                    fmt::format("{}: train images are {}x{}, test images {}x{}", folder.string(),
                                set.train.height, set.train.width, set.test.height, set.test.width));
  for (const Images* part : {&set.train, &set.test})
    for (std::uint8_t label : part->labels) set.classes = std::max<std::int64_t>(set.classes, label + 1);
  for (std::int64_t c = 0; c < set.classes; ++c) set.class_names.push_back(std::to_string(c));
  return set;
}

ImageSet mnist(const std::filesystem::path& folder) { return load_idx_folder(folder); }

ImageSet fashion_mnist(const std::filesystem::path& folder) {
  if (!std::filesystem::is_directory(folder))
    throw MissingFile("fashion_mnist", fmt::format("there is no folder {}", folder.string()))
        .help("install the package dataset-fashion-mnist, or name the folder its files are in");
  ImageSet set = load_idx_folder(folder);
  if (set.classes == 10)
    set.class_names = {"T-shirt", "trouser", "pullover", "dress", "coat",
                       "sandal",  "shirt",   "sneaker",  "bag",   "boot"};
  return set;
}

std::vector<std::int64_t> shuffled(std::int64_t count, std::uint64_t seed) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(std::max<std::int64_t>(count, 0)));
  std::iota(order.begin(), order.end(), 0);
  Mixer mixer{seed};
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[mixer.next() % i]);
  return order;
}

}  // namespace lathe::datasets
