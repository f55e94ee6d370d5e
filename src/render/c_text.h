// Programs as C-family source. One printer serves every language whose expressions look like C; a dialect
// lists only how it differs from GNU C on a CPU: qualifiers, how launch indices, shared memory and barriers
// are spelt, texts of ops and helper functions. Texts of scalar ops come from the `text` column of
// ir/ops.def; a text that calls `lathe_<name>` uses a helper function, printed once for every dtype it is
// used with, from the table in c_helpers.cpp.
//
// Without GNU vectors a vector is a struct with a member `v`, and ops on vectors go lane by lane.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "ir/op.h"
#include "ir/program.h"

namespace lathe::render {

// A row of an override table: what is spelt, and how.
struct Spelling {
  std::string_view name, text;
};
struct OpSpelling {
  Op op;
  std::string_view text;  // over {0} {1} {2}; may call a helper lathe_<name>
};

struct CDialect {
  std::string_view name = "GNU C";
  // Stands first in every source.
  std::string_view prologue;
  // Before a kernel's name. $block is the number of threads of a group, or 1024 where that is not constant.
  std::string_view kernel = "void";
  // Before a helper function.
  std::string_view helper = "static inline";
  // The CPU's one signature for all kernels: (void** buffers, const int64_t* variables, int64_t part, char*
  // scratch). Else one argument for each buffer and variable.
  bool packed_arguments = true;
  // A buffer argument, over $T its element type and $name; const_buffer where the program never writes it.
  std::string_view buffer = "$T* $name";
  std::string_view const_buffer = "const $T* $name";
  // Declares the memory shared by a group, as bytes named lathe_shared whose number the launch gives, and the
  // statement all threads of a group meet at.
  std::string_view shared = "";
  std::string_view barrier = "";
  // GNU vector extensions (gcc and clang), and the declaration of a vector type, over $T its element, $name,
  // $lanes, $bytes and $align (the alignment that a load of all lanes may rely on).
  bool vectors = true;
  std::string_view vector_type = "typedef $T $name __attribute__((vector_size($bytes)));";
  // Signed arithmetic wraps as it is (-fwrapv); else what may overflow is computed unsigned.
  bool wraps = true;
  // Conversions between half and float are one instruction: helpers lathe_half_to_float and
  // lathe_float_to_half.
  bool native_half = false;
  // The conversion of a float to bfloat16 is one instruction: helper lathe_float_to_bfloat16.
  bool native_bfloat16 = false;
  // Arrays larger than this many bytes live in the scratch argument and not on the stack; 0: all on the
  // stack.
  std::int64_t stack_bytes = 32 * 1024;
  // Launch indices by name: {"g0", "blockIdx.x"}.
  std::span<const Spelling> specials;
  // Types by the dtype's short name: {"i64", "long long"}.
  std::span<const Spelling> types;
  // Helper functions by name, replacing the body of the common table (its placeholders: see c_helpers.h).
  std::span<const Spelling> helpers;
  // Matrix units by name (target/matrix_units.h).
  std::span<const std::string> units;
  // Texts of scalar ops, replacing the `text` column.
  std::span<const OpSpelling> ops;
};

// GNU C for the CPU: what gcc and clang accept with -fwrapv -ffp-contract=off -fno-math-errno.
const CDialect& gnu_c();

// The source of one program, or of several in one unit (their names must differ).
std::string c_text(const Program& program, const CDialect& dialect);
std::string c_text(std::span<const Program> programs, const CDialect& dialect);

}  // namespace lathe::render
