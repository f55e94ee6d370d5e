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

// ---- the column `shape` of structure_ops.def

namespace shapes {

using Args = std::span<const Node>;

Node none(DType, Args, const Attr&) { return Node(); }
Node as_first(DType, Args args, const Attr&) { return args[0].shape_node(); }
Node common(DType, Args args, const Attr&) {
  for (Node a : args)
    if (Node s = a.shape_node()) return s;
  return Node();
}
Node operands(DType, Args args, const Attr&) { return dims(args); }
Node given(DType, Args args, const Attr&) { return dims(args.subspan(1)); }
Node flat(DType, Args, const Attr& attr) {
  Node size = index_const(attr.data->ints[1]);
  return dims(std::span(&size, 1));
}
Node permuted(DType, Args args, const Attr& attr) {
  Sizes out;
  for (std::int64_t axis : attr.data->ints) out.push_back(args[0].shape()[static_cast<std::size_t>(axis)]);
  return dims(out);
}
Node padded(DType, Args args, const Attr&) {
  std::span<const Node> in = args[0].shape();
  Sizes out;
  for (std::size_t i = 0; i < in.size(); ++i)
    out.push_back(extent_padded(in[i], args[1 + i], args[1 + in.size() + i]));
  return dims(out);
}
Node shrunk(DType, Args args, const Attr&) {
  const std::size_t rank = args[0].rank();
  Sizes out;
  for (std::size_t i = 0; i < rank; ++i) out.push_back(extent_between(args[1 + i], args[1 + rank + i]));
  return dims(out);
}
Node with_size(Node x, std::size_t axis, Node size) {
  Sizes out = copy_of(x.shape());
  out[axis] = size;
  return dims(out);
}
Node skewed(DType, Args args, const Attr& attr) {
  return with_size(args[0], static_cast<std::size_t>(attr.data->ints[0]), args[1]);
}
// Tensor form: reduced axes stay, with size 1.
Node reduced(DType, Args args, const Attr& attr) {
  if (attr.kind != Attr::Kind::Data) return Node();
  Sizes out = copy_of(args[0].shape());
  for (std::size_t i = 1; i < attr.data->ints.size(); ++i)
    out[static_cast<std::size_t>(attr.data->ints[i])] = index_const(1);
  return dims(out);
}
// The shared axes, those of the index, and the rest of x.
Node taken(DType, Args args, const Attr& attr) {
  Sizes out = copy_of(args[1].shape());
  std::span<const Node> rest = args[0].shape().subspan(static_cast<std::size_t>(attr.i) + 1);
  out.append(rest.begin(), rest.end());
  return dims(out);
}
Node ragged(DType, Args args, const Attr&) { return with_size(args[0], 0, args[3].shape()[0]); }
Node scattered(DType, Args args, const Attr&) { return with_size(args[0], args[1].rank() - 1, args[2]); }
Node kept(DType, Args args, const Attr& attr) {
  return with_size(args[0], args[0].rank() - 1, index_const(attr.i));
}
Node rescaled(DType dtype, Args args, const Attr&) {
  Node x = args[0];
  if (x.rank() == 0 || dtype.bits() == x.dtype().bits()) return x.shape_node();
  Node bytes = x.shape().back() * index_const(x.dtype().bytes());
  return with_size(x, x.rank() - 1, floor_div(bytes, index_const(dtype.bytes())));
}

}  // namespace shapes

using ShapeRule = Node (*)(DType, std::span<const Node>, const Attr&);
constexpr ShapeRule kShapes[] = {
#define LATHE_OP(...) shapes::common,
#define LATHE_NODE(name, args, form, group, attribute, limits, operands, dtype, shape, ...) shapes::shape,
#include "ir/ops.def"
#include "ir/structure_ops.def"
#undef LATHE_OP
#undef LATHE_NODE
};

}  // namespace

Node shape_of(Op op, DType dtype, std::span<const Node> args, const Attr& attr) {
  return kShapes[static_cast<std::size_t>(op)](dtype, args, attr);
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
