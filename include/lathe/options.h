// Kernel options, which change how a kernel computes but not what. A list of options is attached to a kernel
// by the heuristic, the search or the user (Tensor::contiguous takes one) and applied by rewriting the
// kernel's ranges. docs/options.md defines each option and its axis and arg.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lathe {

enum class OptOp : std::uint8_t {
  TC,
  UPCAST,
  UNROLL,
  LOCAL,
  THREAD,
  GROUP,
  GROUPTOP,
  PADTO,
  SWAP,
  NOLOCALS,
  TILE,
  STAGE,
  PIPELINE,
  JOIN
};

struct Opt {
  OptOp op;
  int axis = 0;
  std::vector<std::int64_t> arg;
  bool operator==(const Opt&) const = default;
};

std::string_view name(OptOp op);
std::string to_string(std::span<const Opt> opts);    // "UPCAST(0, 4) UNROLL(0, 0)"
std::vector<Opt> parse_opts(std::string_view text);  // the same form; throws KernelOptError

}  // namespace lathe
