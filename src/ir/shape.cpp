#include "ir/shape.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/small_vector.h"
#include "ir/build.h"
#include "ir/walk.h"

namespace lathe {
namespace {

using Sizes = SmallVector<Node, 8>;

Sizes copy_of(std::span<const Node> s) { return Sizes(s.begin(), s.end()); }

// Adds the terms of factor * n to a sum of terms and a constant.
void add_terms(Node n, std::int64_t factor, NodeMap<std::int64_t>& terms, std::int64_t& constant) {
  struct Part {
    Node node;
    std::int64_t factor;
  };
  SmallVector<Part, 8> stack;
  stack.push_back({n, factor});
  while (!stack.empty()) {
    Part part = stack.back();
    stack.pop_back();
    Node x = part.node;
    if (x.is_const()) {
      constant += part.factor * x.const_int();
    } else if (x.is(Op::Add)) {
      stack.push_back({x.arg(0), part.factor});
      stack.push_back({x.arg(1), part.factor});
    } else if (x.is(Op::Mul) && x.arg(1).is_const()) {
      stack.push_back({x.arg(0), part.factor * x.arg(1).const_int()});
    } else {
      terms[x] += part.factor;
    }
  }
}

// A sum with each term once, so that what cancels is gone: x[i : i + 1] has size 1 whatever i is, and cutting
// off what was padded gives the size before.
Node sum_of(const NodeMap<std::int64_t>& terms, std::int64_t constant) {
  SmallVector<std::pair<Node, std::int64_t>, 8> left;
  for (const auto& [term, factor] : terms)
    if (factor != 0) left.push_back({term, factor});
  std::sort(left.begin(), left.end(),
            [](const auto& a, const auto& b) { return a.first.key() < b.first.key(); });
  Node sum = index_const(constant);
  for (const auto& [term, factor] : left) {
    Node part = factor == 1 ? term : term * index_const(factor);
    sum = sum.is_const_int(0) ? part : part + sum;
  }
  return sum;
}

// end - begin
Node extent_between(Node begin, Node end) {
  if (begin.is_const() && end.is_const()) return end - begin;
  NodeMap<std::int64_t> terms;
  std::int64_t constant = 0;
  add_terms(end, 1, terms, constant);
  add_terms(begin, -1, terms, constant);
  return sum_of(terms, constant);
}

// size + low + high
Node extent_padded(Node size, Node low, Node high) {
  if (size.is_const() && low.is_const() && high.is_const()) return size + low + high;
  NodeMap<std::int64_t> terms;
  std::int64_t constant = 0;
  for (Node n : {size, low, high}) add_terms(n, 1, terms, constant);
  return sum_of(terms, constant);
}

Node movement_shape(Op op, std::span<const Node> args, const Attr& attr) {
  std::span<const Node> in = args[0].shape();
  Sizes out;
  switch (op) {
    case Op::Reshape:
    case Op::Expand: return dims(args.subspan(1));
    case Op::Permute:
      for (std::int64_t axis : attr.data->ints) out.push_back(in[static_cast<std::size_t>(axis)]);
      return dims(out);
    case Op::Pad:
      for (std::size_t i = 0; i < in.size(); ++i)
        out.push_back(extent_padded(in[i], args[1 + i], args[1 + in.size() + i]));
      return dims(out);
    case Op::Shrink:
      for (std::size_t i = 0; i < in.size(); ++i)
        out.push_back(extent_between(args[1 + i], args[1 + in.size() + i]));
      return dims(out);
    case Op::Skew:
    case Op::Unskew:
      out = copy_of(in);
      out[static_cast<std::size_t>(attr.data->ints[0])] = args[1];
      return dims(out);
    default: return args[0].shape_node();  // Flip
  }
}

Node reduce_shape(std::span<const Node> args, const Attr& attr) {
  // Tensor form: reduced axes stay, with size 1.
  Sizes out = copy_of(args[0].shape());
  for (std::size_t i = 1; i < attr.data->ints.size(); ++i)
    out[static_cast<std::size_t>(attr.data->ints[i])] = index_const(1);
  return dims(out);
}

// The shared axes, those of the index, and the rest of x.
Node take_shape(std::span<const Node> args, const Attr& attr) {
  Sizes out = copy_of(args[1].shape());
  std::span<const Node> rest = args[0].shape().subspan(static_cast<std::size_t>(attr.i) + 1);
  out.append(rest.begin(), rest.end());
  return dims(out);
}

Node ragged_shape(std::span<const Node> args) {
  Sizes out = copy_of(args[0].shape());
  out[0] = args[3].shape()[0];
  return dims(out);
}

Node scatter_shape(std::span<const Node> args) {
  Sizes out = copy_of(args[0].shape());
  out[args[1].rank() - 1] = args[2];
  return dims(out);
}

Node bitcast_shape(DType dtype, Node x) {
  if (x.rank() == 0 || dtype.bits() == x.dtype().bits()) return x.shape_node();
  Sizes out = copy_of(x.shape());
  Node bytes = out.back() * index_const(x.dtype().bytes());
  out.back() = floor_div(bytes, index_const(dtype.bytes()));
  return dims(out);
}

}  // namespace

Node shape_of(Op op, DType dtype, std::span<const Node> args, const Attr& attr) {
  if (is_elementwise(op)) {
    for (Node a : args)
      if (Node s = a.shape_node()) return s;
    return Node();
  }
  if (is_movement(op)) return movement_shape(op, args, attr);
  switch (op) {
    case Op::Buffer: {
      Node size = index_const(attr.data->ints[1]);
      return dims(std::span(&size, 1));
    }
    case Op::Arange: return dims(args);
    case Op::Reduce: return attr.kind == Attr::Kind::Data ? reduce_shape(args, attr) : Node();
    case Op::Take: return take_shape(args, attr);
    case Op::RaggedReduce: return ragged_shape(args);
    case Op::Scatter: return scatter_shape(args);
    case Op::Bitcast: return bitcast_shape(dtype, args[0]);
    case Op::Contiguous:
    case Op::Detach:
    case Op::GradFence:
    case Op::Custom:
    case Op::Copy:
    case Op::After:
    case Op::Scan:
    case Op::Get: return args[0].shape_node();
    default: return Node();
  }
}

Node dims(std::span<const Node> sizes) {
  return sizes.empty() ? Node() : intern(Op::Dims, dtypes::Void, sizes);
}

Node dims(std::span<const std::int64_t> sizes) {
  Sizes nodes;
  for (std::int64_t s : sizes) nodes.push_back(index_const(s));
  return dims(nodes);
}

Node numel(Node node) {
  Node n = index_const(1);
  for (Node d : node.shape()) n = n * d;
  return n;
}

std::int64_t numel_max(Node node) {
  std::int64_t n = 1;
  for (Node d : node.shape()) {
    if (__builtin_mul_overflow(n, std::max<std::int64_t>(d.hi(), 0), &n))
      throw UserError("shape",
                      "the number of elements of " + shape_text(node.shape()) + " does not fit 64 bits");
  }
  return n;
}

std::string shape_text(std::span<const Node> shape) {
  std::string out = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) out += ", ";
    out += index_text(shape[i]);
  }
  return out + (shape.size() == 1 ? ",)" : ")");
}

}  // namespace lathe
