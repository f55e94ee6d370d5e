// Kernels for the tests of codegen, as a scheduler would make them: ranges 0.. outermost first.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/node.h"

namespace lathe::test {

struct NamedKernel {
  std::string name;
  NodeRef kernel;
};

Node matmul(std::int64_t m, std::int64_t n, std::int64_t k);
Node matmul_transposed(std::int64_t m, std::int64_t n, std::int64_t k);  // B stored n x k
// Products of small numbers: A of one dtype by B of another, summed in a third.
Node small_matmul(std::int64_t m, std::int64_t n, std::int64_t k, DType a, DType b, DType sum);
// The lower 7 bits of bytes by bytes with a sign.
Node seven_bit_matmul(std::int64_t m, std::int64_t n, std::int64_t k);
// out[i][j] = sum of x[i][l] * y[l][j] of bfloat16 numbers; each factor has its steps (l) or its outputs as
// neighbours.
Node turned_matmul(std::int64_t m, std::int64_t n, std::int64_t k, bool steps_x, bool steps_y);
// The same of other numbers: bytes are summed in int32, floats in float32, float32 numbers in tf32.
Node unit_matmul(std::int64_t m, std::int64_t n, std::int64_t k, DType x, DType y, bool steps_x,
                 bool steps_y);
// A convolution of bfloat16 numbers whose neighbours are channels, images with their border, and the
// gradient of its weights; images of the result lie channel by channel.
Node channel_convolution(std::int64_t batch, std::int64_t in, std::int64_t out, std::int64_t size,
                         std::int64_t window, std::int64_t every = 1);
Node channel_weight_gradient(std::int64_t batch, std::int64_t in, std::int64_t out, std::int64_t size,
                             std::int64_t window);
// A product of floats, to each of which a few neighbours are added: two reduces in one kernel.
Node product_over_window(std::int64_t m, std::int64_t n, std::int64_t k);
// bf16 by bf16, summed in floats and rounded; `added` to each sum before.
Node bf16_matmul(std::int64_t m, std::int64_t n, std::int64_t k, double added = 0);
// A matrix of small numbers by a vector of floats.
Node matvec(std::int64_t rows, std::int64_t columns, DType dtype);
// Blocks of 32 weights of 4 bits with a half as their scale, by a vector of floats.
Node block_matvec(std::int64_t rows, std::int64_t blocks);
Node bf16_matrix_by_vector(std::int64_t n, std::int64_t k);
// Bytes, cast to one dtype after the other up to int32, by bytes.
Node cast_twice_matmul(std::int64_t m, std::int64_t n, std::int64_t k, DType between);
// Bytes by rows of a table of bytes that a list names, as many as there are steps.
Node gather_matmul(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t table_rows);
// The same by a vector of bytes with scales of their own: products are integers.
Node block_matvec_bytes(std::int64_t rows, std::int64_t blocks);
// 16 times the lower four bits of a byte less 8, and the upper four and 3.
Node nibble_floats(std::int64_t n);
// Blocks of 32 weights of 8 bits.
Node byte_block_matvec(std::int64_t rows, std::int64_t blocks);
// The same with a half before each block's bytes, times several rows of bytes: blocks of 34 bytes.
Node packed_block_product(std::int64_t others, std::int64_t rows, std::int64_t blocks);
Node row_sum(std::int64_t rows, std::int64_t columns);
// out[i] = sum j: a[first + i * every + j], of so many neighbours.
Node neighbour_sums(std::int64_t n, std::int64_t every, std::int64_t neighbours, std::int64_t first = 0);
Node row_max(std::int64_t rows, std::int64_t columns);
Node column_sum(std::int64_t rows, std::int64_t columns);
Node powers_of_two(std::int64_t n);                                             // exp2 of each element
Node column_sums(std::int64_t parts, std::int64_t rows, std::int64_t columns);  // of each part
Node scale_add(std::int64_t n);                                                 // out[i] = a[i] * b[i] + 2
Node scaled(std::int64_t n);                                                    // out[i] = a[i] * 2
Node transpose(std::int64_t rows, std::int64_t columns);
Node convolution(std::int64_t batch, std::int64_t in, std::int64_t out, std::int64_t size,
                 std::int64_t window, DType dtype = dtypes::Float32);
// Each channel by a window of its own, at every `every`th position.
Node depthwise(std::int64_t channels, std::int64_t size, std::int64_t window, std::int64_t every = 1);
Node input_gradient(std::int64_t batch, std::int64_t in, std::int64_t out, std::int64_t size,
                    std::int64_t window);
Node weight_gradient(std::int64_t batch, std::int64_t out, std::int64_t size, std::int64_t window);
Node softmax_denominator(std::int64_t rows,
                         std::int64_t columns);           // two reduces over one range, one in the other
Node variances(std::int64_t rows, std::int64_t columns);  // two reduces one after the other
// Nests one after the other, through a panel; of a matrix or of its transpose.
Node softmax_rows(std::int64_t rows, std::int64_t columns, bool transposed = false);
Node centred_rows(std::int64_t rows, std::int64_t columns);  // two outputs, one of them a row's
Node masked_reduce_in_reduce(std::int64_t i, std::int64_t j, std::int64_t k);
Node masked_reduces_in_reduce(std::int64_t i, std::int64_t j, std::int64_t k, std::int64_t l);
Node arg_max(std::int64_t rows, std::int64_t columns);  // a tuple reduce
// softmax(Q K^T) V with `tiles` tiles of keys: components of different ranges.
Node attention(std::int64_t rows, std::int64_t tiles, std::int64_t tile, std::int64_t width,
               bool causal = false);
// The same of bfloat16 numbers for several heads, as it is scheduled for a matrix unit with tiles of 128
// keys.
Node unit_attention(std::int64_t heads, std::int64_t rows, std::int64_t tiles, std::int64_t width,
                    bool causal);
Node ragged_sum(std::int64_t rows, std::int64_t width);       // lengths are loaded
Node symbolic_rows(std::int64_t most, std::int64_t columns);  // a variable "n" of rows
Node symbolic_columns(std::int64_t rows, std::int64_t most);  // sums over a variable "n" of columns
Node two_outputs(std::int64_t rows, std::int64_t columns);
Node outputs_of_different_shape(std::int64_t rows, std::int64_t columns);
Node momentum_step(std::int64_t n);                            // two stores, each to a param that both read
Node sum_and_update(std::int64_t rows, std::int64_t columns);  // the same after a reduce
Node bias_relu_matmul(std::int64_t m, std::int64_t n, std::int64_t k);
Node total(std::int64_t n);
Node flipped_rows(std::int64_t rows, std::int64_t columns);  // a negative stride and a gate
// Two windows a position, by residue of the stride; elements of neighbouring positions are so far apart.
Node unskewed_windows(std::int64_t rows, std::int64_t n, std::int64_t apart = 4);
Node bytes_to_floats(std::int64_t n);
// Steps summed into the rows that a list names, some of them outside.
Node scatter_sum(std::int64_t batch, std::int64_t rows, std::int64_t steps, std::int64_t width);
Node scatter_last(std::int64_t batch, std::int64_t rows, std::int64_t steps);  // the number of the last step
Node running_sum(std::int64_t batch, std::int64_t steps, std::int64_t width);
Node running_max(std::int64_t batch, std::int64_t steps);
// How many steps so far have the same group, which a list names.
Node running_count(std::int64_t batch, std::int64_t steps, std::int64_t groups);
// out[i, o] = sum k: x[i, k] where o - k is a multiple of `every` and not negative: what a transposed
// convolution with steps reads.
Node every_few_steps(std::int64_t rows, std::int64_t n, std::int64_t window, std::int64_t every);

// All of the above at small odd and even sizes.
std::vector<NamedKernel> small_kernels();

}  // namespace lathe::test
