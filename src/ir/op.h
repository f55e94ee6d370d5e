// The op table as C++: one enum over the rows of ops.def (scalar arithmetic) and structure_ops.def
// (everything else), and the columns as lookups. Facts about ops are asked here, never re-listed in a switch
// elsewhere.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace lathe {

enum class Op : std::uint8_t {
#define LATHE_OP(name, ...) name,
#define LATHE_NODE(name, ...) name,
#include "ir/ops.def"
#include "ir/structure_ops.def"
#undef LATHE_OP
#undef LATHE_NODE
};

inline constexpr int kScalarOps = 0
#define LATHE_OP(...) +1
#include "ir/ops.def"
#undef LATHE_OP
    ;
inline constexpr int kOps = kScalarOps
#define LATHE_NODE(...) +1
#include "ir/structure_ops.def"
#undef LATHE_NODE
    ;

enum class ResultKind : std::uint8_t { Same, Boolean, Second, None };
enum class UnitKind : std::uint8_t { Zero, One, Low, High, Ones, None };

struct OpInfo {
  std::string_view name;  // "Add"
  int args;               // operands; -n: at least n
  ResultKind result;      // scalar ops only
  bool on_int, on_float, on_bool;
  bool commutative, associative, idempotent;
  UnitKind unit;
  std::string_view text;  // C-family spelling of scalar ops
  std::string_view form;  // forms a structure op may stand in: "T", "K", "P"
};

const OpInfo& info(Op op);
std::optional<Op> parse_op(std::string_view name);

constexpr bool is_scalar_op(Op op) { return static_cast<int>(op) < kScalarOps; }
// Ops that work element by element and keep the shape: scalar ops, casts between dtypes of any width, checks.
constexpr bool is_elementwise(Op op) { return is_scalar_op(op) || op == Op::Cast || op == Op::Check; }
constexpr bool is_movement(Op op) { return op >= Op::Reshape && op <= Op::Unskew; }
inline bool is_commutative(Op op) { return info(op).commutative; }

// What runs at once, and where a range's iterations live. Order here is not loop order: a kernel's list is.
enum class RangeKind : std::uint8_t {
  Global,   // independent iterations, spread over groups on a GPU
  Local,    // threads of one group, may share memory and meet at barriers
  Thread,   // CPU threads
  Loop,     // a sequential loop over output positions
  Reduce,   // a sequential loop that accumulates
  Group,    // a reduce spread over the threads of a group
  Upcast,   // output positions held in registers or vector lanes
  Unroll,   // reduce steps done side by side in registers or vector lanes
  Warp,     // lanes of a warp working on one matrix fragment
  Device,   // devices of a mesh axis
  Cluster,  // groups of a cluster
  Role,     // a different body per index
};
std::string_view name(RangeKind kind);
std::optional<RangeKind> parse_range_kind(std::string_view name);

// Where memory lives.
enum class Space : std::uint8_t { Global, Shared, Register, Fragment, Barrier };
std::string_view name(Space space);

}  // namespace lathe
