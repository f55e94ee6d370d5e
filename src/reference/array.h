// REF's typed memory: an Array owns elements of one dtype, stored exactly as on a device; a View is the same
// without ownership. A Cell holds one element during computation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ir/dtype.h"
#include "ir/value.h"

namespace lathe::reference {

// Integers, bool and index in `i` (uint64 by its bits), floats in `f`: an Element without the unused half.
union Cell {
  std::int64_t i;
  double f;
};

inline Cell cell_of(DType dtype, Element v) {
  Cell c;
  if (dtype.is_float())
    c.f = v.f;
  else
    c.i = v.i;
  return c;
}
inline Element element_of_cell(DType dtype, Cell c) {
  return dtype.is_float() ? Element{0, c.f} : Element{c.i, 0};
}

// How one element of a dtype is read from and written to memory. The written value is already rounded to the
// dtype.
using Reader = Cell (*)(const std::byte* at);
using Writer = void (*)(std::byte* at, Cell value);
Reader reader_of(DType dtype);
Writer writer_of(DType dtype);

// Elements of memory that is too far away to be read whole.
class FetchedElements {
 public:
  // `elements` is ascending and holds none that is already here; `bytes` has `width` of them for each.
  void add(std::size_t width, std::span<const std::int64_t> elements, std::span<const std::byte> bytes);
  const std::byte* find(std::int64_t element) const;  // null for one that was not fetched

 private:
  struct Batch {
    std::size_t width;
    std::vector<std::int64_t> elements;
    std::vector<std::byte> bytes;
  };
  std::vector<Batch> batches_;
};

struct View {
  DType dtype;
  std::byte* data = nullptr;
  std::int64_t size = 0;    // elements
  bool initialised = true;  // false: reading an element that nothing wrote is a fault
  std::vector<std::int64_t>* reads =
      nullptr;                               // where set, bounded_eval on one thread notes what it reads here
  const FetchedElements* fetched = nullptr;  // where set, bounded_eval finds elements here and has no `data`
};

class Array {
 public:
  Array() = default;
  Array(DType dtype, std::int64_t size);  // zeros
  // Converts each number to the dtype.
  static Array of(DType dtype, std::span<const double> values);

  DType dtype() const { return dtype_; }
  std::int64_t size() const { return size_; }
  Element at(std::int64_t i) const { return element_of_cell(dtype_, cell(i)); }
  Cell cell(std::int64_t i) const { return read_(bytes_.data() + i * width_); }
  void set(std::int64_t i, Element v) { set_cell(i, cell_of(dtype_, v)); }
  void set_cell(std::int64_t i, Cell v) { write_(bytes_.data() + i * width_, v); }
  double number(std::int64_t i) const;  // as a double, whatever the dtype
  std::vector<double> numbers() const;

  std::byte* data() { return bytes_.data(); }
  const std::byte* data() const { return bytes_.data(); }
  std::size_t byte_count() const { return bytes_.size(); }
  View view(bool initialised = true) { return {dtype_, bytes_.data(), size_, initialised}; }
  bool operator==(const Array& o) const { return dtype_ == o.dtype_ && bytes_ == o.bytes_; }

 private:
  DType dtype_;
  std::int64_t size_ = 0;
  int width_ = 0;
  Reader read_ = nullptr;
  Writer write_ = nullptr;
  std::vector<std::byte> bytes_;
};

}  // namespace lathe::reference
