// Runs kernels and programs on REF with made-up inputs and compares what they store.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "ir/program.h"
#include "lathe/options.h"
#include "pipeline/compile.h"

namespace lathe::test {

// "" where the kernel with the options applied, and the program made of it for the target, both store what
// the kernel as scheduled stores; else what went wrong, with everything needed to repeat it.
std::string compare_with_reference(Node kernel, std::span<const Opt> opts, const Compile& compile,
                                   std::uint64_t seed);

// "" where two option lists give programs that store the same bits; else the first element that differs.
std::string compare_bits(Node kernel, std::span<const Opt> opts, std::span<const Opt> other,
                         const Target& target);

// The same of one option list in two contexts.
std::string compare_bits(Node kernel, std::span<const Opt> opts, const Compile& compile,
                         const Compile& other);

// The text of the error by which a kernel refuses a list of options, without the notes; "accepted" where it
// does not.
std::string refusal(Node kernel, const char* opts, const char* target = "ref");

// Instructions of an op, and those of so many lanes.
int count_ops(const Program& program, Op op);
int count_ops(const Program& program, Op op, int lanes);

}  // namespace lathe::test
