#include <fmt/format.h>

#include <algorithm>

#include "ir/build.h"
#include "ir/shape.h"
#include "ir/verify.h"
#include "ir/verify_node.h"
#include "ir/walk.h"

namespace lathe {
namespace {

std::string name_of(Node n) { return std::string(info(n.op()).name); }

std::string expand_fault(Node n) {
  std::span<const Node> from = n.arg(0).shape(), to = n.shape();
  if (from.empty()) return "";
  if (from.size() != to.size())
    return fmt::format("Expand from {} to {}: ranks differ", shape_text(from), shape_text(to));
  for (std::size_t i = 0; i < from.size(); ++i)
    if (from[i] != to[i] && !from[i].is_const_int(1))
      return fmt::format("Expand from {} to {}: axis {} is not 1", shape_text(from), shape_text(to), i);
  return "";
}

// Sizes that are not known may be anything; known ones must agree.
std::string reshape_fault(Node n) {
  Node from = numel(n.arg(0)), to = numel(n);
  if (from == to || from.hi() != from.lo() || to.hi() != to.lo()) return "";
  return from.lo() == to.lo()
             ? ""
             : fmt::format("Reshape from {} to {}: {} elements become {}", shape_text(n.arg(0).shape()),
                           shape_text(n.shape()), from.lo(), to.lo());
}

std::string pad_fault(Node n) {
  const std::size_t rank = n.arg(0).rank();
  for (std::size_t i = 0; i < rank; ++i)
    if (n.arg(1 + i).hi() < 0 || n.arg(1 + rank + i).hi() < 0)
      return fmt::format("Pad by a negative size at axis {}", i);
  return "";
}

std::string shrink_fault(Node n) {
  const std::size_t rank = n.arg(0).rank();
  for (std::size_t i = 0; i < rank; ++i) {
    Node begin = n.arg(1 + i), end = n.arg(1 + rank + i), size = n.arg(0).shape()[i];
    if (begin.hi() < 0 || end.lo() > size.hi() || begin.lo() > end.hi())
      return fmt::format("Shrink to [{}, {}) of an axis of {}", index_text(begin), index_text(end),
                         index_text(size));
  }
  return "";
}

std::string unskew_fault(Node n) {
  const std::int64_t stride = n.ints()[2], dilation = n.ints()[3];
  return stride >= 1 && dilation >= 0
             ? ""
             : fmt::format("{} with stride {} and dilation {}", name_of(n), stride, dilation);
}

std::string skew_fault(Node n) {
  if (std::string f = unskew_fault(n); !f.empty()) return f;
  const std::int64_t stride = n.ints()[2], dilation = n.ints()[3];
  auto n_axis = static_cast<std::size_t>(n.ints()[0]), k_axis = static_cast<std::size_t>(n.ints()[1]);
  Node size = n.arg(1), from = n.arg(0).shape()[n_axis], k = n.arg(0).shape()[k_axis];
  if (size.lo() <= 0 || k.lo() <= 0) return "";
  std::int64_t last = (size.lo() - 1) * stride + (k.lo() - 1) * dilation;
  return last < from.hi() ? ""
                          : fmt::format("Skew reads position {} of an axis of {}", last, index_text(from));
}

std::string index_fault(Node n, std::size_t place) {
  DType d = n.arg(place).dtype();
  return d.is_int() && !d.is_index()
             ? ""
             : fmt::format("operand {} of {} is {}, not integers", place, name_of(n), d.str());
}

std::string take_fault(Node n) {
  if (std::string f = index_fault(n, 1); !f.empty()) return f;
  Node x = n.arg(0), index = n.arg(1);
  auto shared = static_cast<std::size_t>(n.int_attr());
  for (std::size_t i = 0; i < shared; ++i)
    if (x.shape()[i] != index.shape()[i])
      return fmt::format("Take by {} from {}: axis {} is not shared", shape_text(index.shape()),
                         shape_text(x.shape()), i);
  return x.shape()[shared].hi() >= 1 ? ""
                                     : fmt::format("Take from an empty axis of {}", shape_text(x.shape()));
}

std::string ragged_fault(Node n) {
  for (std::size_t i = 1; i < n.arg_count(); ++i)
    if (std::string f = index_fault(n, i); !f.empty()) return f;
  Node x = n.arg(0), row = n.arg(1), order = n.arg(2), begin = n.arg(3), end = n.arg(4);
  if (row.shape()[0] != x.shape()[0] || order.shape()[0] != x.shape()[0])
    return fmt::format("RaggedReduce of {} with {} rows in an order of {}", shape_text(x.shape()),
                       shape_text(row.shape()), shape_text(order.shape()));
  if (begin.shape_node() != end.shape_node())
    return fmt::format("RaggedReduce over lists that begin {} times and end {} times",
                       shape_text(begin.shape()), shape_text(end.shape()));
  return x.shape()[0].hi() >= 1 ? ""
                                : fmt::format("RaggedReduce of an empty axis of {}", shape_text(x.shape()));
}

std::string scatter_fault(Node n) {
  if (std::string f = index_fault(n, 1); !f.empty()) return f;
  Node x = n.arg(0), index = n.arg(1);
  for (std::size_t i = 0; i < index.rank(); ++i)
    if (x.shape()[i] != index.shape()[i])
      return fmt::format("Scatter of {} by {}: axis {} is not shared", shape_text(x.shape()),
                         shape_text(index.shape()), i);
  return "";
}

std::string scan_fault(Node n) {
  Node x = n.arg(0);
  if (n.arg_count() == 1) return "";
  if (std::string f = index_fault(n, 1); !f.empty()) return f;
  return n.arg(1).shape_node() == x.shape_node()
             ? ""
             : fmt::format("Scan of {} by {}", shape_text(x.shape()), shape_text(n.arg(1).shape()));
}

std::string sort_fault(Node n) {
  if (std::string f = index_fault(n, 0); !f.empty()) return f;
  // Bounds do not tell the greater half of them from the rest (ir/bounds.cpp).
  if (n.arg(0).dtype() == dtypes::UInt64) return "Sort of u64";
  if (n.dtype() != dtypes::Int32) return fmt::format("Sort gives {}", n.dtype().str());
  Node size = n.arg(0).shape().back();
  return n.int_attr() <= size.hi() ? "" : fmt::format("Sort keeps {} of {}", n.int_attr(), index_text(size));
}

// ---- the column `fits` of structure_ops.def

namespace fits {

std::string any(Node) { return ""; }
std::string common(Node n) {
  for (Node a : n.args())
    if (a.shape_node() && a.shape_node() != n.shape_node())
      return fmt::format("{} of shapes {} and {}", name_of(n), shape_text(n.shape()), shape_text(a.shape()));
  return "";
}
std::string store(Node n) {
  Node view = n.arg(0), value = n.arg(1);
  if (!value.shape_node() || value.shape_node() == view.shape_node()) return "";
  return fmt::format("a Store of {} to a view of {}", shape_text(value.shape()), shape_text(view.shape()));
}
constexpr auto reshape = reshape_fault, expand = expand_fault, pad = pad_fault, shrink = shrink_fault,
               skew = skew_fault, unskew = unskew_fault, take = take_fault, ragged = ragged_fault,
               scatter = scatter_fault, scan = scan_fault, sort = sort_fault;

}  // namespace fits

constexpr std::string (*kFits[])(Node) = {
#define LATHE_OP(...) fits::common,
#define LATHE_NODE(name, args, form, group, attribute, limits, operands, dtype, shape, bounds, check, fit, \
                   ...)                                                                                    \
  fits::fit,
#include "ir/ops.def"
#include "ir/structure_ops.def"
#undef LATHE_OP
#undef LATHE_NODE
};

// Nodes that are sizes: index arithmetic over constants and variables, not values with a shape.
bool enter_operands(Node n) { return !n.is(Op::Kernel); }

}  // namespace

std::vector<VerifyFault> verify_tensor(std::span<const Node> roots) {
  std::vector<VerifyFault> faults;
  for (Node n : toposort(roots, enter_operands)) {
    std::string text = local_fault(n, Form::Tensor);
    if (text.empty()) text = kFits[static_cast<std::size_t>(n.op())](n);
    if (!text.empty()) faults.push_back({n, text});
  }
  return faults;
}

}  // namespace lathe
