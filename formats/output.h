// A file that is written under a temporary name beside the real one and takes its name in the end, so that
// nobody ever sees half of it, and what is being overwritten can still be read while it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "lathe/tensor.h"

namespace lathe::formats {

class Output {
 public:
  Output(std::filesystem::path file, std::string op);
  ~Output();  // removes the temporary file where commit() was not reached
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }
  void number(std::uint64_t value, int bytes);  // the low byte first
  // Replaces bytes that were written before.
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  std::uint64_t position() const { return position_; }

  // On the disk, then under its name.
  void commit();

 private:
  UserError failed(const char* what) const;

  std::string op_;
  std::filesystem::path file_, temporary_;
  int descriptor_ = -1;
  std::uint64_t position_ = 0;
};

// Refuses tensors that have no plain sizes, in words that name the entry.
void check_plain(const Tensor& tensor, const std::string& name, const std::string& op);

}  // namespace lathe::formats
