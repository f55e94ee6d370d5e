// What the runners of the op suite share: the variants of a case (dtype, shape, layout, special values), the
// tensors a variant asks for, and how a result is compared with what REF says.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cases.h"
#include "ir/node.h"
#include "reference/tensor_eval.h"

namespace lathe::test {

// What an operand is: memory as it lies, a view of some, or what another op made of it. Special is memory
// with the values at the edges of the dtype.
enum class Layout : std::uint8_t {
  Plain,
  Transposed,
  Flipped,
  Sliced,
  Special,
  Constant,
  Expanded,
  Stepped,
  Padded,
  Gathered,
  Reduced,
  Symbolic
};

class Inputs : public Maker {
 public:
  Inputs(DataType dtype, Layout layout, std::string device)
      : dtype_(dtype), layout_(layout), device_(std::move(device)) {}
  Tensor operator()(const Shape& shape, double low, double high) override;
  Tensor index(const Shape& shape, std::int64_t low, std::int64_t high) override;
  TensorOptions options() const override { return {dtype_, device_}; }

  std::vector<Tensor> inputs;  // all that was made, in order

 private:
  std::uint64_t next();
  Tensor values(const Shape& shape, double low, double high);
  Tensor specials(const Shape& shape);
  Tensor made_of(const Tensor& base);  // remembered as the input
  Tensor view(const Shape& shape, double low, double high);
  Tensor made(const Shape& shape, double low, double high);

  DataType dtype_;
  Layout layout_;
  std::string device_;
  std::uint64_t seed_ = 1;
  int made_ = 0;  // operands so far
};

struct Variant {
  const Case* of = nullptr;
  DataType dtype;
  Shape shape;
  Layout layout = Layout::Plain;
  std::string str() const;
};
std::vector<Variant> variants_of(const Case& c);  // ordinary values
std::vector<Variant> special_variants_of(const Case& c);
// Every kind of operand, at some of the sizes 1 to 19.
std::vector<Variant> kind_variants_of(const Case& c);

// A seeded part of the variants: about one in n, the same ones every time.
bool chosen(const Variant& variant, std::uint64_t n);
// The number of variants to one that is taken: OPS_SAMPLE, or the fallback where it is not set.
std::uint64_t sample_size(std::uint64_t fallback);
// The device under test: OPS_DEVICE, or CPU.
std::string device_under_test();

struct Wanted {
  Tensor value;
  std::string what;
  const Case* of = nullptr;
  bool special = false;
  bool alike = false;  // operands are constants, or equal in places
};
// The variant's value and, where it has them, gradients.
void add_wanted(const Variant& variant, const std::string& device, std::vector<Wanted>& all);

// The values of the graphs by REF; inputs are on their device and are read back.
std::vector<reference::TensorValue> on_reference(const std::vector<Node>& nodes);

// Everything that is wanted, computed on its device and compared with REF: the first difference in words, or
// nothing.
std::string first_difference(std::vector<Wanted>& all);

// Whether two results are the same bits; any NaN is as good as another.
bool same_bits(DataType dtype, const std::vector<std::byte>& x, const std::vector<std::byte>& y);

}  // namespace lathe::test
