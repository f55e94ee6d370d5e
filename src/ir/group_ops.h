// Ops that the threads of a group execute together, besides barriers: asynchronous copies, matrices that a
// warp loads together, and products of panels that a unit reads from shared memory itself.
//
//   CopyAsync, CommitCopies, WaitCopies
//       a thread's copies to shared memory. Before the wait no thread may access the destination, after it
//       the thread itself may, and after a barrier all threads
//   BulkCopy, BeginArrivals, ArriveBytes, AwaitArrivals
//       a box of a matrix is copied to shared memory by one thread for all. Its bytes arrive at a barrier in
//       memory of Space::Barrier, which has phases: a phase ends after the number of ArriveBytes that
//       BeginArrivals set, when all announced bytes have arrived. A thread that waited for the end of the
//       phase may access the destination. The barrier may only be used after a group barrier that follows
//       BeginArrivals, and by copies only after a ProxyFence as well. ArriveBytes with no bytes says that
//       this thread has finished reading: a thread that waits for the end of that phase may fill the
//       destination again
//   ProxyFence
//       before the barrier, by every thread that wrote what a PanelDot reads or a barrier that a BulkCopy
//       uses
//   Matrices
//       lane 8*i + j of a warp gives the address of row j of matrix i, 8 numbers of 16 bits; lane l gets of
//       each matrix the numbers 2*(l%4) and 2*(l%4) + 1 of row l/4 in a word, or if transposed of column l/4
//   Exchange
//       swaps a value with another thread of the warp, whose number differs in the given bits
//   PanelDot, WaitProducts
//       sum + x * y, by all threads of a warpgroup together. Only the next PanelDot or WaitProducts may use
//       the result, which may be kept in private memory meanwhile. WaitProducts waits for all products except
//       a number of last ones; the panels of the completed ones may change from then on
//
// A panel of a PanelDot or of Matrices is swizzled (ir/shared_memory.h), in rows of 64 numbers of 16 bits, or
// of a PanelDot of 128 bytes or 32 float32 numbers. In order Steps a row has the steps of one output, in
// order Outputs, which only numbers of 16 bits have, the outputs of one step; 64 outputs more are a slab
// further on. Thread 32*w + 4*g + t, w < 4, of a PanelDot has the sums of
//   rows 16*w + g + 8*h, columns 8*c + 2*t + l    in lane 4*c + 2*h + l
// x may be in registers instead: the same thread has the words of
//   rows 16*w + g + 8*h, words 8*i + 4*f + t      in lane 4*i + 2*f + h
// so that the sums of one product, two columns per word, can be x of the next one without moving data.
#pragma once

#include <cstdint>
#include <optional>

#include "ir/dot.h"
#include "ir/node.h"
#include "ir/program.h"
#include "ir/shared_memory.h"

namespace lathe {

// Numbers of a row of so many bytes each.
inline constexpr std::int64_t panel_row(int bytes) { return kSwizzleRow / bytes; }

enum class PanelRows : std::uint8_t { Steps, Outputs };
struct PanelOperand {
  PanelRows rows = PanelRows::Steps;
  std::int64_t slab = 0;  // elements between slabs
  // Where the element of an output and a step lies, from the panel's first, in rows of so many numbers.
  std::int64_t place(std::int64_t output, std::int64_t step, std::int64_t row) const {
    if (rows == PanelRows::Steps) return output * row + step;
    return output / row * slab + step * row + output % row;
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
// Whether each thread has its share of x in registers.
bool holds_x(Node dot);
// The row and the word of x that lane `lane` of a warpgroup's thread holds.
struct HeldWord {
  int row, word;
};
HeldWord held_word(int thread, int lane);

Node exchange(Node x, std::int64_t bits);

Node matrices(Node memory, Node index, int count, bool transposed);
Node copy_async(Node memory, Node index, Node source, Node source_index, Node inside, Node gate,
                std::int64_t elements);
Node commit_copies(std::int64_t number);
Node wait_copies(std::int64_t batches, std::int64_t number);
Node proxy_fence(std::int64_t number);
Node wait_products(Node x, std::int64_t left = 0);

// A box of a matrix: element (r, c) of the matrix is at r*pitch + c of the param, r < all_rows and
// c < all_columns. The box lies row by row in shared memory.
struct BulkBox {
  std::int64_t columns = 1, rows = 1;
  std::int64_t all_columns = 1, all_rows = 1, pitch = 1;
  std::int64_t elements() const { return columns * rows; }
};
Node bulk_copy(const BulkBox& box, Node memory, Node index, Node source, Node column, Node row, Node barriers,
               Node barrier);
BulkBox bulk_box(Node copy);
Node begin_arrivals(Node barriers, Node barrier, std::int64_t arrivals);
Node arrive_bytes(Node barriers, Node barrier, std::int64_t bytes);
Node await_arrivals(Node barriers, Node barrier, Node parity);

// How panels of several slots are filled: by all threads, by bulk copies that one of them starts, or by those
// of warps that do nothing else (kFilled of a Define, beside its SharedForm).
enum class Filling : std::uint8_t { Threads, Bulk, Roles };
Filling filling_of(Node define);
Node with_filling(Node define, Filling filling);

// Four warps more that only start copies, after all others of a group: the consumers. A condition says which
// are meant: index < n, or n - 1 < index, of the last launch index of threads that there is.
inline constexpr std::int64_t kProducers = 128;
struct Role {
  bool produces = false;
  std::int64_t consumers = 0;  // threads
};
// The role that a condition of an If is for, or nothing.
std::optional<Role> role_of(Node condition, const Program& program);

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
      visit(n.arg(0));
      visit(n.arg(2));
      break;
    case Op::PanelDot:
      if (!holds_x(n)) visit(n.arg(0));
      visit(n.arg(2));
      break;
    case Op::BulkCopy:
      visit(n.arg(0));
      visit(n.arg(2));
      visit(n.arg(5));
      break;
    case Op::BeginArrivals:
    case Op::ArriveBytes:
    case Op::AwaitArrivals: visit(n.arg(0)); break;
    default: break;
  }
}

}  // namespace lathe
