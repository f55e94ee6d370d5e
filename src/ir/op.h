// The op table as C++: one enum over the rows of ops.def (scalar arithmetic) and structure_ops.def
// (everything else), and the columns as lookups. Facts about ops are asked here, never re-listed in a switch
// elsewhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
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

// The dtype of a result: that of the first operand, bool, that of the second operand, none because the node
// is an effect, or one that the op's own check knows.
enum class ResultKind : std::uint8_t { Same, Boolean, Second, Void, None };
enum class UnitKind : std::uint8_t { Zero, One, Low, High, Ones, None };

// What kind of op it is.
enum class OpGroup : std::uint8_t {
  Leaf,     // has no value among its operands
  Move,     // changes the shape of a tensor and not its values
  Element,  // works element by element and keeps the shape: scalar ops, casts between dtypes of any width,
            // checks
  Value,    // any other value
  Memory,   // reads, writes and orders memory
  Scope,    // loops, blocks, and the sinks of graphs
  Vector,   // puts lanes together and takes them apart
  Threads,  // what the threads of a group do together
  Machine,  // what one instruction of some machines does
};

// What an attribute holds: its kind, how many integers there are in a list, and the place of the one that
// stands for an op, a range kind or a space, which is written by its name.
struct AttrForm {
  enum class Kind : std::uint8_t {
    None,
    Number,  // an int, or a float for float dtypes
    Integer,
    OpName,
    Ints,
    OpOrInts,  // the op alone, or a list that begins with it
    Text,      // with a list of integers where there are some
    TextInts,
    MaybeText,
    MaybeInts,
  };
  enum class Named : std::uint8_t { Nothing, OpAt0, KindAt1, SpaceAt2 };
  Kind kind = Kind::None;
  Named named = Named::Nothing;
  std::size_t least = 0, most = 0;
};

inline constexpr int kAny = std::numeric_limits<int>::min();  // any number of operands

struct OpInfo {
  std::string_view name;  // "Add"
  int args;               // operands; -n: at least n; kAny
  ResultKind result;
  OpGroup group;
  AttrForm attribute;
  std::string_view words;  // what the attribute is, for errors
  bool on_int, on_float, on_bool;
  bool commutative, associative, idempotent;
  UnitKind unit;
  std::string_view text;  // C-family spelling of scalar ops
  std::string_view form;  // forms a structure op may be in: "T", "K", "P"
};

const OpInfo& info(Op op);
std::optional<Op> parse_op(std::string_view name);

constexpr bool is_scalar_op(Op op) { return static_cast<int>(op) < kScalarOps; }

inline constexpr OpGroup kOpGroups[] = {
#define LATHE_OP(...) OpGroup::Element,
#define LATHE_NODE(name, args, form, group, ...) OpGroup::group,
#include "ir/ops.def"
#include "ir/structure_ops.def"
#undef LATHE_OP
#undef LATHE_NODE
};
constexpr OpGroup group_of(Op op) { return kOpGroups[static_cast<int>(op)]; }
constexpr bool is_elementwise(Op op) { return group_of(op) == OpGroup::Element; }
constexpr bool is_movement(Op op) { return group_of(op) == OpGroup::Move; }
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
