// Facts about the CPU this process runs on, read at run time: what it can execute (CPUID, and XGETBV for the
// registers the system saves), its caches and how many CPUs may be used. An object is compiled for a list of
// features and may run exactly where all of them are present.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "target/target.h"

namespace lathe::backends {

// Features of this CPU by LLVM's names, in table order; empty on a machine that is no x86-64.
const std::vector<std::string>& host_features();

// This machine as a target. Its name is the highest x86-64 level it reaches and what it has beyond:
// "x86-64-v3+avxvnni".
const Target& host_target();

// A target by name: the host's own (also as ""), or a level, with the features LLVM needs filled in.
Target cpu_target(std::string_view name);
std::vector<std::string> cpu_target_names();  // the host's own first

// Features of a list ("+avx2,+fma") that this machine lacks, joined by spaces; empty where code for it can
// run.
std::string missing_features(std::string_view features);

}  // namespace lathe::backends
