// Lists of options drawn at random, for tests that run kernels with them.
#pragma once

#include <cstdint>
#include <iterator>
#include <random>
#include <vector>

#include "base/error.h"
#include "codegen/codegen.h"

namespace lathe::test {

inline bool fits(Node kernel, const std::vector<Opt>& opts, const Target& target) {
  try {
    apply_options(kernel, opts, target);
    return true;
  } catch (const KernelOptError&) {
    return false;
  } catch (InternalError& error) {
    error.note("options '" + to_string(opts) + "' for " + target.name);
    throw;
  }
}

// A matrix unit: any row, with its instruction or in one of its test modes.
inline Opt random_unit(std::mt19937& random) {
  return {OptOp::TC,
          static_cast<int>(random() % 3),
          {static_cast<std::int64_t>(random() % 3) - 1, static_cast<std::int64_t>(random() % 2),
           1 + static_cast<std::int64_t>(random() % 3)}};
}

inline Opt random_option(std::mt19937& random) {
  constexpr OptOp kOps[] = {OptOp::UPCAST, OptOp::UPCAST, OptOp::UNROLL,   OptOp::UNROLL, OptOp::LOCAL,
                            OptOp::THREAD, OptOp::GROUP,  OptOp::GROUPTOP, OptOp::PADTO,  OptOp::SWAP,
                            OptOp::TILE,   OptOp::STAGE,  OptOp::PIPELINE};
  constexpr std::int64_t kSizes[] = {0, 1, 2, 3, 4, 5, 8, 16, 32};
  Opt opt{kOps[random() % std::size(kOps)],
          static_cast<int>(random() % 4),
          {kSizes[random() % std::size(kSizes)]}};
  if (opt.op == OptOp::SWAP) opt.arg = {static_cast<std::int64_t>(random() % 4)};
  if (opt.op == OptOp::STAGE && random() % 4 == 0) opt.axis = -1;
  if (opt.op == OptOp::STAGE)
    opt.arg = {static_cast<std::int64_t>(random() % 3), static_cast<std::int64_t>(random() % 2)};
  if (opt.op == OptOp::TILE && random() % 2 == 0) opt.arg.push_back(static_cast<std::int64_t>(random() % 4));
  return opt;
}

// Up to six options that the kernel takes, the first one time in four joined ranges, the next one time in two
// a matrix unit; those that do not fit the kernel or the target are drawn in vain.
inline std::vector<Opt> random_options(Node kernel, const Target& target, std::mt19937& random) {
  std::vector<Opt> opts;
  auto add = [&](Opt opt) {
    opts.push_back(std::move(opt));
    if (!fits(kernel, opts, target)) opts.pop_back();
  };
  for (std::size_t joins = random() % 4 == 0 ? 2 : 0; joins > 0; --joins)
    add({OptOp::JOIN, static_cast<int>(random() % 4), {static_cast<std::int64_t>(random() % 4)}});
  if (random() % 2 == 0) add(random_unit(random));
  for (std::size_t tries = random() % 9; tries > 0 && opts.size() < 6; --tries) add(random_option(random));
  return opts;
}

}  // namespace lathe::test
