#include "tensor/remainder.h"

#include "tensor/exact_remainder.h"
#include "tensor/impl.h"

namespace lathe {
namespace {

struct TensorWords {
  using Value = Tensor;
  static Tensor cast(const Tensor& v, DataType dtype) { return v.cast(dtype); }
  static Tensor bitcast(const Tensor& v, DataType dtype) { return v.bitcast(dtype); }
  static Tensor abs(const Tensor& v) { return v.abs(); }
  static Tensor trunc(const Tensor& v) { return v.trunc(); }
  static Tensor reciprocal(const Tensor& v) { return v.reciprocal(); }
  static Tensor ones(const Tensor& v) { return v.ones_like(); }
  static Tensor shift_left(const Tensor& v, const Operand& n) { return v.lshift(n); }
  static Tensor shift_right(const Tensor& v, const Operand& n) { return v.rshift(n); }
  static Tensor bits_and(const Tensor& v, std::int64_t w) { return v & w; }
  static Tensor bits_or(const Tensor& v, std::int64_t w) { return v | w; }
  static Tensor both(const Tensor& c, const Tensor& d) { return c & d; }
  static Tensor less(const Tensor& v, const Tensor& w) { return v < w; }
  static Tensor less(const Tensor& v, double w) { return v < w; }
  static Tensor less(double v, const Tensor& w) { return w > v; }
  static Tensor at_least(const Tensor& v, const Tensor& w) { return v >= w; }
  static Tensor equal(const Tensor& v, int w) { return v == w; }
  static Tensor where(const Tensor& c, const Operand& v, const Operand& w) { return c.where(v, w); }
};

std::optional<double> constant_of(const Tensor& x) {
  const Node n = node_of(x);
  if (!n.is_const() || n.attr().kind != Attr::Kind::Float) return {};
  return n.attr().f;
}

}  // namespace

Tensor truncated_remainder(const Tensor& dividend, const Tensor& divisor) {
  Scope scope;
  const Tensor x = dividend.detach(), y = divisor.detach();
  return exact_remainder::size_of_rest<TensorWords>(x, y, dividend.dtype(), constant_of(y)).copysign(x);
}

}  // namespace lathe
