// Small dense linear algebra from the ordinary ops: QR by reflections, SVD by rotations, Newton-Schulz
// iteration.
#include <cmath>

#include <fmt/format.h>

#include "tensor/gather.h"
#include "tensor/impl.h"

namespace lathe {
namespace {

void check_matrix(std::string_view op, const Tensor& x) {
  if (x.ndim() < 2) throw UserError(op, fmt::format("{} is no matrix", to_string(x.shape())));
  if (!x.dtype().is_float())
    throw TypeError(op, fmt::format("{} tensor where floats are needed", x.dtype().name()));
}

Tensor batched_eye(const Tensor& like, std::int64_t n) {
  Shape shape(like.shape().begin(), like.shape().end() - 2);
  shape.insert(shape.end(), {Size(n), Size(n)});
  return Tensor::eye(n, std::nullopt, {.dtype = like.dtype(), .device = like.device()}).expand(shape);
}

Tensor column(const Tensor& x, std::int64_t i) { return x.getitem({kEllipsis, Slice{i, i + 1}}); }

}  // namespace

// Each step reflects column i onto its axis: R <- R - 2 u (u^T R) / (u^T u), and Q likewise from the right.
std::pair<Tensor, Tensor> Tensor::qr() const {
  Scope scope;
  check_matrix("qr", *this);
  const std::int64_t m = size(-2), n = size(-1);
  Tensor r = *this, q = batched_eye(*this, m);
  Tensor row = iota_along(m, 0, 2, dtypes::int32, device());
  for (std::int64_t i = 0; i < std::min(m - 1, n); ++i) {
    Tensor x = column(r, i);
    x = (row >= i).where(x, zero_beside(x));
    Tensor norm = x.square().sum(-2, true).sqrt();
    Tensor head = x.getitem({kEllipsis, Slice{i, i + 1}, Slice{}});
    Tensor alpha = (head >= 0).where(norm.neg(), norm);
    Tensor u = x - (row == i).where(alpha, zero_beside(alpha));
    Tensor length = u.square().sum(-2, true);
    Tensor factor = (length > 0).where(2.0 / (length == 0).where(1, length), 0);
    r = (r - u * (u.transpose(-1, -2).dot(r)) * factor).contiguous();
    q = (q - q.dot(u) * u.transpose(-1, -2) * factor).contiguous();
  }
  return {q, r};
}

namespace {

// The columns in the order of the next round of a tournament: the first stays, the others move round, so that
// after n - 1 rounds every column has been beside every other.
std::vector<std::int64_t> next_round(std::int64_t n) {
  // Seats are pairs (0, 1), (2, 3), ...; column 0 keeps its seat.
  std::vector<std::int64_t> ring;  // the seats other than 0 as a ring: 1, 3, 5, ..., then back 4, 2
  for (std::int64_t s = 1; s < n; s += 2) ring.push_back(s);
  for (std::int64_t s = n - 2; s > 0; s -= 2) ring.push_back(s);
  std::vector<std::int64_t> from(static_cast<std::size_t>(n), 0);
  for (std::size_t i = 0; i < ring.size(); ++i)
    from[static_cast<std::size_t>(ring[(i + 1) % ring.size()])] = ring[i];
  return from;
}

Tensor reordered(const Tensor& x, const std::vector<std::int64_t>& from) {
  std::vector<Tensor> parts;
  for (std::int64_t c : from) parts.push_back(column(x, c));
  return Tensor::cat(parts, -1);
}

struct Rotated {
  Tensor u, v;
};

// One round: the two columns of each pair of u become orthogonal; v follows.
Rotated rotate_pairs(const Tensor& u, const Tensor& v) {
  auto pairs = [](const Tensor& x) { return x.unflatten(-1, {-1, 2}); };
  auto part = [](const Tensor& x, std::int64_t i) { return x.getitem({kEllipsis, i}); };
  Tensor pu = pairs(u), pv = pairs(v);
  Tensor a = part(pu, 0), b = part(pu, 1);
  Tensor alpha = a.square().sum(-2, true), beta = b.square().sum(-2, true), gamma = (a * b).sum(-2, true);
  Tensor still = gamma == 0;
  Tensor zeta = (beta - alpha) / (still.where(1, gamma) * 2.0);
  Tensor sign = (zeta >= 0).where(1.0, -1.0).cast(u.dtype());
  Tensor t = still.where(0, sign / (zeta.abs() + (zeta.square() + 1.0).sqrt()));
  Tensor c = (t.square() + 1.0).rsqrt(), s = c * t;
  auto turn = [&](const Tensor& x) {
    Tensor x0 = part(x, 0), x1 = part(x, 1);
    return Tensor::stack({x0 * c - x1 * s, x0 * s + x1 * c}, -1).flatten(-2, -1).contiguous();
  };
  return {turn(pu), turn(pv)};
}

}  // namespace

// One-sided Jacobi: rotations make the columns of U orthogonal; their lengths are the singular values.
Tensor::Svd Tensor::svd(bool full_matrices) const {
  Scope scope;
  check_matrix("svd", *this);
  const std::int64_t m = size(-2), n = size(-1);
  if (m < n) {
    Svd turned = transpose(-1, -2).svd(full_matrices);
    return {turned.v.transpose(-1, -2), turned.s, turned.u.transpose(-1, -2)};
  }
  const std::int64_t even = n + n % 2;
  Tensor u = *this, v = batched_eye(*this, n);
  if (even != n) {
    std::vector<std::pair<Size, Size>> one(static_cast<std::size_t>(ndim()), {0, 0});
    one.back() = {0, 1};
    u = u.pad(one);
    v = v.pad(one);
  }
  constexpr int kSweeps = 10;
  if (n > 1) {
    std::vector<std::int64_t> from = next_round(even);
    for (std::int64_t round = 0; round < kSweeps * (even - 1); ++round) {
      Rotated turned = rotate_pairs(u, v);
      u = reordered(turned.u, from).contiguous();
      v = reordered(turned.v, from).contiguous();
    }
  }
  Tensor lengths = u.square().sum(-2).sqrt();
  Tensor order = lengths.argsort(-1, true);
  Shape values(shape().begin(), shape().end() - 2);
  values.push_back(n);
  order = order.shrink_to(values);
  Tensor s = gather_along(lengths, lengths.ndim() - 1, order, kTrusted);
  auto sorted = [&](const Tensor& x) {
    Shape index = x.shape();
    index.back() = n;
    return gather_along(x, x.ndim() - 1, order.unsqueeze(-2).expand(index), kTrusted);
  };
  Tensor us = sorted(u), vs = sorted(v);
  us = us / (s == 0).where(1, s).unsqueeze(-2);
  if (full_matrices && m > n) {
    Tensor rest = us.qr().first.getitem({kEllipsis, Slice{}, Slice{n, {}}});
    us = Tensor::cat({us, rest}, -1);
  }
  return {us, s, vs.transpose(-1, -2)};
}

Tensor Tensor::newton_schulz(std::int64_t steps, const std::vector<double>& coefficients, double eps) const {
  Scope scope;
  check_matrix("newton_schulz", *this);
  if (coefficients.empty()) throw UserError("newton_schulz", "no coefficients");
  Tensor g = *this / (square().sum({-2, -1}, true).sqrt() + eps);
  const bool tall = size(-2).value() > size(-1).value();
  if (tall) g = g.transpose(-1, -2);
  for (std::int64_t i = 0; i < steps; ++i) {
    Tensor gram = g.dot(g.transpose(-1, -2)).contiguous(), power = g;
    Tensor next = g * coefficients[0];
    for (std::size_t c = 1; c < coefficients.size(); ++c) {
      power = gram.dot(power);
      next = next + power * coefficients[c];
    }
    g = next.contiguous();
  }
  return tall ? g.transpose(-1, -2) : g;
}

}  // namespace lathe
