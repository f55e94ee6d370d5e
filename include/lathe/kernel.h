// Kernels written by hand, in the form the scheduler makes them: ranges, loads, reduces and stores over the
// memory of tensors. The same checks, options, proofs and printers serve them on every device.
//
//   Tensor out = Tensor::empty({n});
//   custom_kernel({out, a, b}, [&](KernelBuilder& k) {
//     KernelValue i = k.range(n);
//     k.store(0, i, k.load(1, i) * k.load(2, i));
//   });
//
// For a gradient, call it from the forward function of a CustomOp.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lathe/dtypes.h"
#include "lathe/options.h"
#include "lathe/tensor.h"

namespace lathe {

struct KernelExpression;

// A number that a kernel computes: an index, or a value of some dtype. A literal takes the dtype of what it
// meets. On indices, `/` and `%` round down; on other integers they are C++'s.
class KernelValue {
 public:
  template <class T>
    requires std::is_arithmetic_v<T>
  KernelValue(T literal) : literal_(literal) {}  // NOLINT
  explicit KernelValue(std::shared_ptr<const KernelExpression> expression)
      : expression_(std::move(expression)) {}

  KernelValue cast(DataType dtype) const;
  // The scalar ops of the IR by their names in docs/ops.md: "Exp2", "Sqrt", "Max" ...
  static KernelValue apply(std::string_view op, const std::vector<KernelValue>& operands);
  // Rounded down for every dtype, and what is left then, which has the sign of y: Python's `//` and `%`.
  static KernelValue floor_div(const KernelValue& x, const KernelValue& y);
  static KernelValue floor_mod(const KernelValue& x, const KernelValue& y);
  // Python's `/`: refused for integers.
  static KernelValue true_div(const KernelValue& x, const KernelValue& y);
  KernelValue where(const KernelValue& yes, const KernelValue& no) const {
    return apply("Where", {*this, yes, no});
  }

  const std::shared_ptr<const KernelExpression>& expression() const { return expression_; }
  Number literal() const { return literal_; }

 private:
  std::shared_ptr<const KernelExpression> expression_;  // null: a literal
  Number literal_ = 0;
};

#define LATHE_KERNEL_OPERATOR(op, name)                                        \
  inline KernelValue operator op(const KernelValue& x, const KernelValue& y) { \
    return KernelValue::apply(name, {x, y});                                   \
  }
LATHE_KERNEL_OPERATOR(+, "Add")
LATHE_KERNEL_OPERATOR(-, "Sub")
LATHE_KERNEL_OPERATOR(*, "Mul")
LATHE_KERNEL_OPERATOR(/, "Div")
LATHE_KERNEL_OPERATOR(%, "Mod")
LATHE_KERNEL_OPERATOR(&, "And")
LATHE_KERNEL_OPERATOR(|, "Or")
LATHE_KERNEL_OPERATOR(^, "Xor")
LATHE_KERNEL_OPERATOR(<, "Less")
LATHE_KERNEL_OPERATOR(==, "Eq")
LATHE_KERNEL_OPERATOR(!=, "Ne")
#undef LATHE_KERNEL_OPERATOR

class KernelBuilder {
 public:
  // A loop over output positions, and one that a reduce closes. Loops nest in the order they are made.
  KernelValue range(std::int64_t extent);
  KernelValue reduce_range(std::int64_t extent);
  // An element of the tensor in this place of the list, in row-major order; 0 where the gate is false.
  KernelValue load(std::size_t tensor, const KernelValue& index,
                   const std::optional<KernelValue>& gate = std::nullopt);
  // "Add", "Mul", "Max", "Min", "And" or "Or" of the element over the ranges.
  KernelValue reduce(std::string_view op, const KernelValue& element, const std::vector<KernelValue>& ranges);
  void store(std::size_t tensor, const KernelValue& index, const KernelValue& value,
             const std::optional<KernelValue>& gate = std::nullopt);

  // Shared, so that a builder kept after the kernel is finished is refused and no more.
  struct State;
  explicit KernelBuilder(std::shared_ptr<State> state) : state_(std::move(state)) {}

 private:
  State& state() const;
  std::shared_ptr<State> state_;
};

struct CustomKernelOptions {
  std::string name = "custom";
  std::optional<std::vector<Opt>> options = std::nullopt;  // the heuristic's where nothing is said
};

// Runs the kernel over these tensors when one that it stores to is next read: those get a new version, in
// place. Gives the tensors back. Throws UserError where the kernel is not well formed.
std::vector<Tensor> custom_kernel(const std::vector<Tensor>& tensors,
                                  const std::function<void(KernelBuilder&)>& body,
                                  const CustomKernelOptions& options = {});

}  // namespace lathe
