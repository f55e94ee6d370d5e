// Small dense linear algebra from the ordinary ops: QR by reflections, SVD by rotations, Newton-Schulz
// iteration.
#include "tensor/linalg.h"

#include <cmath>

#include <fmt/format.h>

#include "tensor/gather.h"
#include "tensor/impl.h"
#include "tensor/own_gradient.h"

namespace lathe {
namespace {

void check_matrix(std::string_view op, const Tensor& x) {
  if (x.ndim() < 2) throw UserError(op, fmt::format("{} is not a matrix", to_string(x.shape())));
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

// The factors without added columns: m x n, 1 x n and n x n for a matrix of m >= n rows.
struct SingularParts {
  Tensor u, s, v;
};

// One-sided Jacobi: rotations make the columns of U orthogonal; their lengths are the singular values.
SingularParts singular_parts(const Tensor& a) {
  const std::int64_t n = a.size(-1), even = n + n % 2;
  Tensor u = a, v = batched_eye(a, n);
  if (even != n) {
    std::vector<std::pair<Size, Size>> one(static_cast<std::size_t>(a.ndim()), {0, 0});
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
  Tensor lengths = u.square().sum(-2, true).sqrt();
  Shape first = lengths.shape();
  first.back() = n;
  const Tensor order = lengths.argsort(-1, true).shrink_to(first);
  auto sorted = [&](const Tensor& x) {
    Shape index = x.shape();
    index.back() = n;
    return gather_along(x, x.ndim() - 1, order.expand(index), kTrusted);
  };
  const Tensor s = sorted(lengths);
  return {sorted(u) / (s == 0).where(1, s), s, sorted(v)};
}

Tensor rows(const Tensor& x, std::int64_t from, std::int64_t to) {
  return x.getitem({kEllipsis, Slice{from, to}, Slice{}});
}

// The parts below each other, as one value that has a gradient, and back.
Tensor packed(const SingularParts& parts) { return Tensor::cat({parts.u, parts.s, parts.v}, -2); }
SingularParts unpacked(const Tensor& all, std::int64_t m) {
  return {rows(all, 0, m), rows(all, m, m + 1), rows(all, m + 1, all.size(-2))};
}

Tensor reciprocal_or_zero(const Tensor& x) {
  const Tensor none = x == 0;
  return none.where(0, none.where(1, x).reciprocal());
}

}  // namespace

// Of U and V only turns of their columns count: those of U within its span, and what leaves the span where U
// has more rows. Columns of equal singular values turn freely, so they get nothing of it.
std::vector<Tensor> svd_gradient(const std::vector<Tensor>& inputs, const Tensor& output,
                                 const Tensor& grad) {
  const std::int64_t m = inputs[0].size(-2), n = inputs[0].size(-1);
  const auto [u, s, v] = unpacked(output, m);
  const auto [gu, gs, gv] = unpacked(grad, m);
  auto turned = [](const Tensor& x) { return x.transpose(-1, -2); };
  const Tensor apart = reciprocal_or_zero(s.square() - turned(s).square());
  auto turns = [&](const Tensor& x, const Tensor& g) {
    const Tensor inner = turned(x).matmul(g);
    return (inner - turned(inner)) * apart;
  };
  const Tensor middle = turns(u, gu) * s + turned(s) * turns(v, gv) + batched_eye(inputs[0], n) * gs;
  Tensor out = u.matmul(middle).matmul(turned(v));
  if (m > n) {
    const Tensor outside = gu - u.matmul(turned(u).matmul(gu));
    out = out + (outside * reciprocal_or_zero(s)).matmul(turned(v));
  }
  return {out};
}

std::vector<Tensor> filled_svd_gradient(const std::vector<Tensor>&, const Tensor&, const Tensor&) {
  throw UserError("svd", "the columns that full_matrices adds are not unique, so they have no gradient")
      .help("use full_matrices=False");
}

// A matrix with more columns than rows is taken on its side. Rotations are of at least 32 bits.
Tensor::Svd Tensor::svd(bool full_matrices) const {
  Scope scope;
  check_matrix("svd", *this);
  const std::int64_t m = size(-2), n = size(-1);
  if (m < n) {
    const Svd turned = transpose(-1, -2).svd(full_matrices);
    return {turned.v.transpose(-1, -2), turned.s, turned.u.transpose(-1, -2)};
  }
  const Tensor wide = cast(sum_accumulator(dtype()));
  const Tensor all = with_own_gradient("lathe.svd", packed(singular_parts(wide.detach())), {wide});
  auto [u, s, v] = unpacked(all, m);
  if (full_matrices && m > n) {
    const Tensor thin = u.detach(), rest = thin.qr().first.getitem({kEllipsis, Slice{}, Slice{n, {}}});
    u = with_own_gradient("lathe.filled_svd", Tensor::cat({thin, rest}, -1), {wide});
  }
  return {u.cast(dtype()), s.squeeze(-2).cast(dtype()), v.transpose(-1, -2).cast(dtype())};
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
