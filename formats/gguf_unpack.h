// How the packed types of GGUF are unpacked, in tensor operations: each function takes the bytes of blocks,
// (blocks, bytes) uint8, and gives their numbers, (blocks, elements) float32. A kernel that uses the numbers
// does all of it itself. Products with scales are exact in float32, so their order does not matter.
#pragma once

#include <cstdint>

#include "formats/gguf_blocks.h"
#include "lathe/tensor.h"

namespace lathe::formats::gguf {

// Bytes [begin, end) of every block.
inline Tensor part(const Tensor& blocks, std::int64_t begin, std::int64_t end) {
  return blocks.shrink({{0, blocks.size(0)}, {begin, end}});
}
inline Tensor real(const Tensor& x) { return x.cast(dtypes::float32); }
inline Tensor word(const Tensor& x) { return x.cast(dtypes::uint16); }
// The half-precision number at this byte of every block: (blocks, 1).
inline Tensor half_at(const Tensor& blocks, std::int64_t at) {
  return real(part(blocks, at, at + 2).bitcast(dtypes::float16));
}
// 0, step, 2 * step, ... as numbers of the dtype of `like`.
inline Tensor steps(std::int64_t count, std::int64_t step, const Tensor& like) {
  return Tensor::arange(count, {.dtype = like.dtype(), .device = like.device()}) * step;
}
// The fields of `width` bits of each number, the lowest first: (..., k) to (..., k, count).
inline Tensor fields(const Tensor& x, std::int64_t count, std::int64_t width) {
  return (x.unsqueeze(-1) >> steps(count, width, x)) & ((1 << width) - 1);
}
// The same with the first field of all numbers before the second: (..., k) to (..., count, k).
inline Tensor planes(const Tensor& x, std::int64_t count, std::int64_t width) {
  return (x.unsqueeze(-2) >> steps(count, width, x).unsqueeze(-1)) & ((1 << width) - 1);
}
// Pairs and fours of bytes as numbers, the low byte first: (..., n * k) to (..., k).
Tensor words(const Tensor& bytes);
Tensor long_words(const Tensor& bytes);
// The numbers of a small table at these places.
Tensor looked_up(const std::vector<int>& table, const Tensor& places, DataType dtype);

// ---- 32 numbers in a block
Tensor q4_0(const Tensor& b);
Tensor q4_1(const Tensor& b);
Tensor q5_0(const Tensor& b);
Tensor q5_1(const Tensor& b);
Tensor q8_0(const Tensor& b);
Tensor q8_1(const Tensor& b);
Tensor iq4_nl(const Tensor& b);
Tensor mxfp4(const Tensor& b);
Tensor nvfp4(const Tensor& b);  // 64

ByteBlocks q4_0_bytes(const std::vector<Tensor>& blocks);
ByteBlocks q8_0_bytes(const std::vector<Tensor>& blocks);
std::vector<Tensor> q4_k_parts(const Tensor& b);
ByteBlocks q4_k_bytes(const std::vector<Tensor>& parts);
// Scales (blocks, planes) with the blocks side by side in memory: they are the lanes of a product.
Tensor blocks_last(const Tensor& scales);

// ---- 256 numbers in a block
Tensor q2_k(const Tensor& b);
Tensor q3_k(const Tensor& b);
Tensor q4_k(const Tensor& b);
Tensor q5_k(const Tensor& b);
Tensor q6_k(const Tensor& b);
Tensor q8_k(const Tensor& b);
Tensor tq1_0(const Tensor& b);
Tensor tq2_0(const Tensor& b);
Tensor iq4_xs(const Tensor& b);

// ---- 256 numbers in a block, in groups that are points of a grid
Tensor iq1_s(const Tensor& b);
Tensor iq1_m(const Tensor& b);
Tensor iq2_xxs(const Tensor& b);
Tensor iq2_xs(const Tensor& b);
Tensor iq2_s(const Tensor& b);
Tensor iq3_xxs(const Tensor& b);
Tensor iq3_s(const Tensor& b);

}  // namespace lathe::formats::gguf
