// Labelled pictures to train on, in the IDX files that MNIST and its relatives come in.
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

  std::int64_t count() const;  // of elements
};

// Reads and checks an IDX file. Throws UserError for a file that cannot be read, is not IDX, is cut off, or
// has more bytes than its header says.
IdxArray read_idx(const std::filesystem::path& file);

// Pictures (count, channels, height, width) and their classes, in memory of this process.
struct Pictures {
  std::int64_t count = 0, channels = 1, height = 0, width = 0;
  std::vector<std::uint8_t> pixels;
  std::vector<std::uint8_t> labels;

  std::int64_t picture_size() const { return channels * height * width; }
  // The chosen pictures, uint8 (n, channels, height, width), and their labels, int32 (n).
  std::pair<Tensor, Tensor> batch(std::span<const std::int64_t> indices) const;
  // Those from `begin` up to `end`.
  std::pair<Tensor, Tensor> range(std::int64_t begin, std::int64_t end) const;
};

struct PictureSet {
  Pictures train, test;
  std::int64_t classes = 0;
  std::vector<std::string> class_names;  // one a class
};

// The four files of a folder, train-images-idx3-ubyte and its three relatives, each with or without ".gz".
PictureSet load_idx_folder(const std::filesystem::path& folder);
// A folder of MNIST digits.
PictureSet mnist(const std::filesystem::path& folder);
// Pictures of clothes, from the distribution's package dataset-fashion-mnist unless a folder is named.
PictureSet fashion_mnist(const std::filesystem::path& folder = "/usr/share/datasets/fashion-mnist");

// The numbers 0..count-1 in an order that depends on the seed alone.
std::vector<std::int64_t> shuffled(std::int64_t count, std::uint64_t seed);

}  // namespace lathe::datasets
