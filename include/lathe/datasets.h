// Labelled images to train on, read from IDX files, the format of MNIST and its variants.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lathe/tensor.h"

namespace lathe::datasets {

// One array of an IDX file, plain or compressed with gzip, in the byte order of this machine.
struct IdxArray {
  DataType dtype;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;

  std::int64_t count() const;  // number of elements
};

// Reads and checks an IDX file. Throws UserError for a file that cannot be read, is not IDX, is truncated, or
// is longer than its header says.
IdxArray read_idx(const std::filesystem::path& file);

// Images (count, channels, height, width) and their classes, in this process's memory.
struct Images {
  std::int64_t count = 0, channels = 1, height = 0, width = 0;
  std::vector<std::uint8_t> pixels;
  std::vector<std::uint8_t> labels;

  std::int64_t image_size() const { return channels * height * width; }  // elements per image
  // The images with these indices, uint8 (n, channels, height, width), and their labels, int32 (n).
  std::pair<Tensor, Tensor> batch(std::span<const std::int64_t> indices) const;
  // The images from `begin` up to, not including, `end`, and their labels.
  std::pair<Tensor, Tensor> range(std::int64_t begin, std::int64_t end) const;
};

struct ImageSet {
  Images train, test;
  std::int64_t classes = 0;
  std::vector<std::string> class_names;  // one per class
};

// Loads {train,t10k}-{images-idx3,labels-idx1}-ubyte from a folder; each file may also end in ".gz".
ImageSet load_idx_folder(const std::filesystem::path& folder);
// Loads a folder of MNIST digits.
ImageSet mnist(const std::filesystem::path& folder);
// Loads Fashion-MNIST (images of clothes); the default folder is that of Debian's package
// dataset-fashion-mnist.
ImageSet fashion_mnist(const std::filesystem::path& folder = "/usr/share/datasets/fashion-mnist");

// A permutation of 0..count-1 that depends only on the seed.
std::vector<std::int64_t> shuffled(std::int64_t count, std::uint64_t seed);

}  // namespace lathe::datasets
