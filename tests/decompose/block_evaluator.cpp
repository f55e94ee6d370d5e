#include "decompose/block_evaluator.h"

#include <bit>
#include <cstring>
#include <stdexcept>

#include "ir/build.h"
#include "ir/value.h"

namespace lathe::testing {
namespace {

using namespace value;

template <class T>
T from_raw(std::uint64_t raw) {
  if constexpr (std::is_same_v<T, float>)
    return std::bit_cast<float>(static_cast<std::uint32_t>(raw));
  else if constexpr (std::is_same_v<T, double>)
    return std::bit_cast<double>(raw);
  else
    return static_cast<T>(raw);
}
template <class T>
std::uint64_t to_raw(T v) {
  if constexpr (std::is_same_v<T, float>)
    return std::bit_cast<std::uint32_t>(v);
  else if constexpr (std::is_same_v<T, double>)
    return std::bit_cast<std::uint64_t>(v);
  else if constexpr (std::is_same_v<T, bool>)
    return v;
  else
    return static_cast<std::make_unsigned_t<T>>(v);
}

template <class T, class F>
void with_type(F f) {
  f(T());
}

// Calls f with a value of the C++ type that holds `dtype`.
template <class F>
void by_dtype(DType dtype, F f) {
  switch (dtype.scalar) {
    case Scalar::Bool: return f(bool());
    case Scalar::Int8: return f(std::int8_t());
    case Scalar::UInt8: return f(std::uint8_t());
    case Scalar::Int16: return f(std::int16_t());
    case Scalar::UInt16: return f(std::uint16_t());
    case Scalar::Int32: return f(std::int32_t());
    case Scalar::UInt32: return f(std::uint32_t());
    case Scalar::Int64:
    case Scalar::Index: return f(std::int64_t());
    case Scalar::UInt64: return f(std::uint64_t());
    case Scalar::Float32: return f(float());
    case Scalar::Float64: return f(double());
    default: throw std::runtime_error("arithmetic on " + dtype.str());
  }
}

#define IS_I (std::is_integral_v<T> && !std::is_same_v<T, bool>)
#define IS_F std::is_floating_point_v<T>
#define IS_B std::is_same_v<T, bool>
#define DOM_I IS_I
#define DOM_F IS_F
#define DOM_IF (IS_I || IS_F)
#define DOM_IB (IS_I || IS_B)
#define DOM_IFB true

template <class T>
void scalar(Op op, Block& out, const Block& a, const Block& b, const Block& c) {
  switch (op) {
#define LATHE_OP(name, args, result, domain, traits, u, val, ...)                               \
  case Op::name:                                                                                \
    if constexpr (DOM_##domain && ResultKind::result != ResultKind::Second) {                   \
      for (std::size_t i = 0; i < out.size(); ++i) {                                            \
        [[maybe_unused]] T x = from_raw<T>(a[i]), y = from_raw<T>(b[i]), z = from_raw<T>(c[i]); \
        if constexpr (ResultKind::result == ResultKind::Boolean)                                \
          out[i] = static_cast<bool>(val);                                                      \
        else                                                                                    \
          out[i] = to_raw<T>(static_cast<T>(val));                                              \
      }                                                                                         \
      return;                                                                                   \
    }                                                                                           \
    break;
#include "ir/ops.def"
#undef LATHE_OP
    default: break;
  }
  throw std::runtime_error(std::string(info(op).name) + " on a dtype outside its domain");
}

template <class To, class From>
To plain_cast(From v) {
  if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    // What is left after decomposition is what the machine's instruction can do: the value must fit.
    double wide = static_cast<double>(v);
    if (!(wide >= static_cast<double>(std::numeric_limits<To>::min()) &&
          wide < std::ldexp(1.0, sizeof(To) * 8 - 1)))
      throw std::runtime_error("a cast of a float that does not fit");
  }
  return static_cast<To>(v);
}

void cast_block(DType to, DType from, Block& out, const Block& a) {
  if (from.scalar == Scalar::Float16 && to.scalar == Scalar::Float32) {
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = to_raw(half_to_float(static_cast<std::uint16_t>(a[i])));
    return;
  }
  if (to.scalar == Scalar::Float16 && from.scalar == Scalar::Float32) {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = float_to_half(from_raw<float>(a[i]));
    return;
  }
  by_dtype(to, [&](auto t) {
    by_dtype(from, [&](auto f) {
      using To = decltype(t);
      using From = decltype(f);
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = to_raw<To>(plain_cast<To>(from_raw<From>(a[i])));
    });
  });
}

std::uint64_t constant(Node node) {
  DType integer = node.dtype().bits() == 8 ? dtypes::UInt8 : dtypes::UInt16;
  if (node.dtype().is_float() && node.dtype().bits() < 32)
    return static_cast<std::uint64_t>(reinterpret(integer, node.dtype(), element_of(node)).i);
  std::uint64_t raw = 0;
  by_dtype(node.dtype(), [&](auto t) {
    using T = decltype(t);
    if constexpr (std::is_floating_point_v<T>)
      raw = to_raw<T>(static_cast<T>(node.const_float()));
    else
      raw = to_raw<T>(static_cast<T>(node.const_int()));
  });
  return raw;
}

}  // namespace

BlockEvaluator::BlockEvaluator(Node root, std::span<const Node> inputs) : inputs_(inputs.size()) {
  NodeMap<std::size_t> place;
  for (Node input : inputs) {
    place.try_emplace(input, steps_.size());
    steps_.push_back({input, {}});
  }
  std::vector<Node> order;
  {
    NodeMap<char> seen;
    for (Node input : inputs) seen.try_emplace(input);
    std::vector<std::pair<Node, std::size_t>> stack;
    if (seen.try_emplace(root).second) stack.push_back({root, 0});
    while (!stack.empty()) {
      auto& [node, next] = stack.back();
      if (next < node.arg_count()) {
        Node arg = node.arg(next++);
        if (seen.try_emplace(arg).second) stack.push_back({arg, 0});
      } else {
        order.push_back(node);
        stack.pop_back();
      }
    }
  }
  for (Node node : order) {
    Step step{node, {}};
    for (Node a : node.args()) step.args.push_back(*place.find(a));
    place.try_emplace(node, steps_.size());
    steps_.push_back(std::move(step));
  }
  values_.resize(steps_.size());
}

const Block& BlockEvaluator::run(std::span<const Block> inputs) {
  std::size_t n = inputs[0].size();
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    const Step& step = steps_[s];
    Block& out = values_[s];
    if (s < inputs_) {
      out = inputs[s];
      continue;
    }
    out.resize(n);
    auto arg = [&](std::size_t i) -> const Block& {
      return values_[step.args[std::min(i, step.args.size() - 1)]];
    };
    Node node = step.node;
    switch (node.op()) {
      case Op::Const: std::fill(out.begin(), out.end(), constant(node)); break;
      case Op::Bitcast: out = arg(0); break;
      case Op::Cast: cast_block(node.dtype(), node.arg(0).dtype(), out, arg(0)); break;
      case Op::Where:
        for (std::size_t i = 0; i < n; ++i) out[i] = arg(0)[i] != 0 ? arg(1)[i] : arg(2)[i];
        break;
      default:
        by_dtype(node.arg(0).dtype(),
                 [&](auto t) { scalar<decltype(t)>(node.op(), out, arg(0), arg(1), arg(2)); });
    }
  }
  return values_.back();
}

}  // namespace lathe::testing
