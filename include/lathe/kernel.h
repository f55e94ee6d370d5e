// Hand-written kernels, in the same form as the scheduler's: ranges, loads, reduces and stores over the
// memory of tensors. They get the same checks, options, proofs and printers, on every device.
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

// A value that a kernel computes: an index, or a number of some dtype. A literal takes the dtype of the other
// operand. On indices, `/` and `%` round down; on other integers they truncate, as in C++.
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
  // Python's `//` and `%`, for every dtype: the quotient rounded down, and the remainder with the sign of y.
  static KernelValue floor_div(const KernelValue& x, const KernelValue& y);
  static KernelValue floor_mod(const KernelValue& x, const KernelValue& y);
  // Python's `/`; throws UserError for integers.
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
  // A loop over output positions, and a loop that a reduce closes. Loops nest in the order of these calls.
  KernelValue range(std::int64_t extent);
  KernelValue reduce_range(std::int64_t extent);
  // The element at a row-major index of the tensor with this number in the list; 0 where the gate is false.
  KernelValue load(std::size_t tensor, const KernelValue& index,
                   const std::optional<KernelValue>& gate = std::nullopt);
  // The reduction of the element over the ranges with op "Add", "Mul", "Max", "Min", "And" or "Or".
  KernelValue reduce(std::string_view op, const KernelValue& element, const std::vector<KernelValue>& ranges);
  // Stores to an element of a tensor, where the gate is true.
  void store(std::size_t tensor, const KernelValue& index, const KernelValue& value,
             const std::optional<KernelValue>& gate = std::nullopt);

  // Shared, so that using a builder after its kernel is finished throws instead of crashing.
  struct State;
  explicit KernelBuilder(std::shared_ptr<State> state) : state_(std::move(state)) {}

 private:
  State& state() const;
  std::shared_ptr<State> state_;
};

struct CustomKernelOptions {
  std::string name = "custom";
  std::optional<std::vector<Opt>> options = std::nullopt;  // unset: the heuristic chooses
};

// Adds the kernel over these tensors to the graph and returns the tensors. Tensors it stores to are updated
// in place; the kernel runs when one of them is next read. Throws UserError if the kernel is not well formed.
std::vector<Tensor> custom_kernel(const std::vector<Tensor>& tensors,
                                  const std::function<void(KernelBuilder&)>& body,
                                  const CustomKernelOptions& options = {});

}  // namespace lathe
