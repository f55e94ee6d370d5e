// Keccak digests (FIPS 202) of rows of bytes, in tensor ops: the 25 lanes of the state are an axis, rows are
// batched.
#include <array>

#include <fmt/format.h>

#include "tensor/gather.h"
#include "tensor/impl.h"

namespace lathe {
namespace {

struct Digest {
  std::string_view name;
  std::int64_t rate, bytes;  // absorbed at a time, given out
  int suffix;
};
constexpr Digest kDigests[] = {
    {"sha3_224", 144, 28, 0x06},
    {"sha3_256", 136, 32, 0x06},
    {"shake_128", 168, 16, 0x1f},
};

constexpr std::uint64_t kRoundConstants[24] = {
    0x0000000000000001, 0x0000000000008082, 0x800000000000808a, 0x8000000080008000, 0x000000000000808b,
    0x0000000080000001, 0x8000000080008081, 0x8000000000008009, 0x000000000000008a, 0x0000000000000088,
    0x0000000080008009, 0x000000008000000a, 0x000000008000808b, 0x800000000000008b, 0x8000000000008089,
    0x8000000000008003, 0x8000000000008002, 0x8000000000000080, 0x000000000000800a, 0x800000008000000a,
    0x8000000080008081, 0x8000000000008080, 0x0000000080000001, 0x8000000080008008};

// The rotation of each lane and the lane each one comes from, as FIPS 202 walks them: (x, y) <- (y, 2x + 3y).
struct Tables {
  std::vector<std::uint64_t> rotation = std::vector<std::uint64_t>(25, 0);
  std::vector<std::int32_t> from = std::vector<std::int32_t>(25, 0);
};
Tables make_tables() {
  Tables t;
  std::size_t x = 1, y = 0;
  for (std::uint64_t i = 0; i < 24; ++i) {
    t.rotation[5 * y + x] = (i + 1) * (i + 2) / 2 % 64;
    std::size_t next = (2 * x + 3 * y) % 5;
    x = y;
    y = next;
  }
  for (std::size_t r = 0; r < 5; ++r)
    for (std::size_t c = 0; c < 5; ++c)
      t.from[5 * ((2 * c + 3 * r) % 5) + r] = static_cast<std::int32_t>(5 * r + c);
  return t;
}

// lanes is (5, 5, rows): y, x.
Tensor permutation(Tensor lanes, const Tensor& rotation, const Tensor& from) {
  const Shape shape = lanes.shape();
  for (std::uint64_t constant : kRoundConstants) {
    Tensor parity = lanes[0] ^ lanes[1] ^ lanes[2] ^ lanes[3] ^ lanes[4];  // (x, rows)
    Tensor after = parity.roll(-1, 0);
    Tensor mixed = lanes ^ (parity.roll(1, 0) ^ (after << 1 | after >> 63)).unsqueeze(0);
    Tensor turned = (mixed << rotation) | (mixed >> (64 - rotation));
    Tensor moved = take_rows(turned.reshape({25, shape[2]}), from, kTrusted).reshape(shape).contiguous();
    Tensor next = moved ^ (moved.roll(-1, 1).bitwise_not() & moved.roll(-2, 1));
    Tensor round = Tensor::full({1, 1, 1}, constant, {.dtype = dtypes::uint64, .device = lanes.device()})
                       .pad({{0, 4}, {0, 4}, {0, 0}});
    lanes = (next ^ round).contiguous();
  }
  return lanes;
}

}  // namespace

Tensor Tensor::keccak(std::string_view kind) const {
  Scope scope;
  const Digest* digest = nullptr;
  for (const Digest& d : kDigests)
    if (d.name == kind) digest = &d;
  if (digest == nullptr)
    throw UserError("keccak", fmt::format("\"{}\" is unknown", kind)).help("sha3_224, sha3_256 or shake_128");
  if (dtype() != dtypes::uint8 || ndim() == 0)
    throw UserError("keccak", fmt::format("{} tensor of shape {} where rows of uint8 are needed",
                                          dtype().name(), to_string(shape())));
  const std::int64_t n = size(-1), blocks = n / digest->rate + 1, padded = blocks * digest->rate;
  const std::int64_t rows = n == 0 ? 1 : numel().value() / n;
  Tensor data = reshape({Size(rows), Size(n)}).pad({{0, 0}, {0, padded - n}});
  std::vector<std::uint8_t> tail(static_cast<std::size_t>(padded), 0);
  tail[static_cast<std::size_t>(n)] = static_cast<std::uint8_t>(digest->suffix);
  tail.back() |= 0x80;
  data = (data | Tensor(tail, {.device = device()})).contiguous();
  const std::int64_t lanes = digest->rate / 8;
  Tensor words = data.bitcast(dtypes::uint64).reshape({Size(rows), Size(blocks), Size(lanes)});
  Tables tables = make_tables();
  Tensor rotation(tables.rotation, {5, 5, 1}, {.device = device()}), from(tables.from, {.device = device()});
  Tensor state = Tensor::zeros({5, 5, Size(rows)}, {.dtype = dtypes::uint64, .device = device()});
  for (std::int64_t b = 0; b < blocks; ++b) {
    Tensor block =
        words.getitem({Slice{}, b}).transpose().pad({{0, 25 - lanes}, {0, 0}}).reshape({5, 5, Size(rows)});
    state = permutation((state ^ block).contiguous(), rotation, from);
  }
  Tensor bytes = state.reshape({25, Size(rows)}).transpose().contiguous().bitcast(dtypes::uint8);
  Shape out(shape().begin(), shape().end() - 1);
  out.push_back(digest->bytes);
  return bytes.shrink_to({Size(rows), Size(digest->bytes)}).reshape(out);
}

// A tree of shake_128 over leaves of kLeaf bytes, the length first, so that rows are hashed side by side.
Tensor Tensor::hash() const {
  Scope scope;
  constexpr std::int64_t kLeaf = 4096;
  Tensor data = contiguous().flatten().bitcast(dtypes::uint8);
  Tensor length(std::vector<std::uint64_t>{static_cast<std::uint64_t>(data.size(0).value())},
                {.device = device()});
  data = cat({length.bitcast(dtypes::uint8), data});
  while (true) {
    const std::int64_t n = data.size(0), leaves = (n + kLeaf - 1) / kLeaf;
    if (leaves == 1) return data.keccak("shake_128");
    data = data.pad({{0, leaves * kLeaf - n}})
               .reshape({Size(leaves), Size(kLeaf)})
               .keccak("shake_128")
               .flatten();
  }
}

}  // namespace lathe
