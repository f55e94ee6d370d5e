// The ops over lanes of bounded values: a step computes a value and two error bounds per lane. The
// propagation of bounds is defined once per op (float_rules.h) and applied to the likely errors of the
// operands and to the worst ones. The rounding error of the device itself follows from the dtype and the
// `error` column of ops.def.
#pragma once

#include <cstdint>
#include <span>

#include "ir/op_error.h"
#include "reference/code.h"
#include "reference/float_rules.h"

namespace lathe::reference {

// Roundings that have nothing to do with each other: a sum of n of them stays within this many times sqrt(n).
inline constexpr double kLikely = 4;

// Where a kernel computes in float64, values are pairs of doubles, v + low: a double alone would round as the
// device does.
struct LaneOperand {
  const Cell* v = nullptr;
  const double *l = nullptr, *w = nullptr;  // likely and worst error
  const double* low = nullptr;              // null without pairs
};
struct LaneResult {
  Cell* v = nullptr;
  double *l = nullptr, *w = nullptr;  // null where the value is exact whatever it is made of
  double* low = nullptr;              // null there too, and without pairs
};

// What a sum keeps beside its value, by lane.
struct SumPlanes {
  double* magnitude = nullptr;  // sum of |element|, the finite ones
  double* squares = nullptr;    // sum of element^2
  double* partial = nullptr;    // sum of |running value|
  double* terms = nullptr;      // elements that are not 0, or need not be
  double* uneven = nullptr;     // elements that are inexact or no multiples of kQuantum
  double* beyond = nullptr;     // sum of the elements that are infinite or NaN
  // Of a maximum or minimum, beside `terms`.
  double* second = nullptr;  // how far the other elements may reach
  double* clear = nullptr;   // whether that is not as far as the one that was taken
  // Of a product, beside `terms` and, here multiplications that round, `uneven`.
  double *most = nullptr, *least = nullptr;      // products of the elements above 1 and of those below
  double *zeros = nullptr, *infinite = nullptr;  // elements that are
};

struct LaneStep;
using LaneFn = void (*)(const LaneStep&);

struct LaneStep {
  const Step* from = nullptr;
  LaneFn run = nullptr;
  int n = 1;  // lanes
  LaneOperand x, y, z;
  LaneResult d;
  const Rounding* rounding = nullptr;  // of a float result
  double own = 0;                      // times |value|: the op's own error
  const double* chained = nullptr;     // which part of it counts as likely
  SumPlanes sum;
  bool may_fuse = false;   // a product that is added to something
  bool may_flush = false;  // of a sum: a matrix unit may do it (LaneFacts::may_flush)
  double coarse = 0;       // of a sum: what a unit that keeps few bits may lose of it (LaneFacts::is_fp8)
  const double* clear = nullptr;  // of a comparison with an extreme of just such values: SumPlanes::clear
  int clear_stride = 0;           // 0 where that is the same in all lanes
  bool exact_operands = false;    // none of them carries an error
  bool checks = false;            // the result is an index that the user's data named
  std::int32_t loop = -1;         // of LoopBegin and LoopEnd
  bool joins = false;             // a ReduceEnd of what several lanes did (lane_split.h)
};

// Magnitudes below this count as 0 where a matrix unit may flush.
inline constexpr double kFlushed = 0x1p-126;

// The function of a Scalar, Convert, Bits, Copy or ReduceEnd step; `bounded` says whether its result carries
// errors, `exact_operands` that none of its operands does, `pairs` whether floats are pairs.
LaneFn lane_function(const Step& step, bool bounded, bool exact_operands, bool pairs);
// A conversion whose result may be flushed.
void flushing_conversion(const LaneStep& step);

// What a device's matrix unit loses of sums of fp8 products, as a multiple of their size: the row of
// PanelDot.
double coarse_error(std::span<const OpError> native);

// How far apart two values are; 0 for the same infinity and for two NaN.
double distance(Cell x, Cell y, bool is_float);

// The own error of a scalar op or of a conversion to a float dtype, as a multiple of |value|.
double own_error(Op op, DType dtype, std::span<const OpError> native = {});

}  // namespace lathe::reference
