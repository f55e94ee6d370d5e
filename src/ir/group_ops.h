// What the threads of a group do together beside barriers: copies that arrive later, matrices that a warp
// reads together, products of panels that a unit reads from shared memory itself.
//
//   CopyAsync, CommitCopies, WaitCopies   a thread's copies to shared memory; before the wait nobody may
//   touch
//                                         the place, after it the thread itself, after a barrier all threads
//   ProxyFence                            before the barrier, by every thread that wrote what a PanelDot
//   reads Matrices                              lane 8*i + j of a warp names row j of matrix i, 8 numbers of
//   16 bits;
//                                         lane l gets of each matrix the numbers 2*(l%4) and 2*(l%4) + 1 of
//                                         row l/4 in a word, of a transposed one those of rows in column l/4
//   PanelDot, WaitProducts                sum + x * y of all threads of a warpgroup together. Only the next
//                                         PanelDot or WaitProducts may use its result, which memory of the
//                                         thread's own may hold meanwhile. The wait is for all products but
//                                         so many, the last ones; the panels of others may change from then
//                                         on
//
// A panel of a PanelDot or of Matrices is swizzled (ir/shared_memory.h), in rows of 64 numbers of 16 bits. In
// order Steps a row has the steps of one output, in order Outputs the outputs of one step; 64 outputs more
// are a slab further on. Thread 32*w + 4*g + t, w < 4, of a PanelDot has the sums of
//   rows 16*w + g + 8*h, columns 8*c + 2*t + l    in lane 4*c + 2*h + l
#pragma once

#include <cstdint>

#include "ir/dot.h"
#include "ir/node.h"

namespace lathe {

inline constexpr std::int64_t kPanelRow = 64;  // numbers of 16 bits

enum class PanelRows : std::uint8_t { Steps, Outputs };
struct PanelOperand {
  PanelRows rows = PanelRows::Steps;
  std::int64_t slab = 0;  // elements between slabs
  // Where the element of an output and a step lies, from the panel's first.
  std::int64_t place(std::int64_t output, std::int64_t step) const {
    if (rows == PanelRows::Steps) return output * kPanelRow + step;
    return output / kPanelRow * slab + step * kPanelRow + output % kPanelRow;
  }
};
struct PanelShape {
  int m = 1, n = 1, k = 1;  // in words
  int threads = 1;
  PanelOperand x, y;
};

Node panel_dot(const DotKind& kind, const PanelShape& shape, Node x, Node x_index, Node y, Node y_index,
               Node sum);
PanelShape panel_shape(Node dot);

Node matrices(Node memory, Node index, int count, bool transposed);
Node copy_async(Node memory, Node index, Node source, Node source_index, Node inside, Node gate,
                std::int64_t elements);
Node commit_copies(std::int64_t number);
Node wait_copies(std::int64_t batches, std::int64_t number);
Node proxy_fence(std::int64_t number);
Node wait_products(Node x, std::int64_t left = 0);
// Whether a value is a product's that nothing waited for.
bool is_in_flight(Node value);

// Calls visit(memory) for each operand of an instruction that is memory it reads or writes.
template <class Visit>
void for_each_memory(Node n, Visit visit) {
  switch (n.op()) {
    case Op::Load:
    case Op::Store:
    case Op::Matrices: visit(n.arg(0)); break;
    case Op::CopyAsync:
    case Op::PanelDot:
      visit(n.arg(0));
      visit(n.arg(2));
      break;
    default: break;
  }
}

}  // namespace lathe
