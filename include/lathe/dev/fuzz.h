// Random tensor programs, with symbolic sizes among them, and random lists of options for their kernels: all
// that Lathe makes of them is compared with REF. Unstable: for tools.
#pragma once

#include <cstdint>
#include <string>

namespace lathe::dev {

// What became of one program.
struct FuzzSeed {
  // "kernel" or "graph": `path` is a file that investigate_kernel takes. "program": run_fuzz_program is
  // false.
  std::string kind;  // empty where nothing is wrong
  std::string path, text;
  std::int64_t graphs = 0, kernels = 0, lists = 0, symbolic = 0;  // that were compared
};

// The program of the seed; each of its kernels with its own options, and those not seen before in this
// process with so many lists besides. Files of what fails go to the folder. Runs suspects in this process: a
// crash or a hang is for whoever started it to notice.
FuzzSeed fuzz_seed(std::uint64_t seed, int lists, const std::string& folder);

// The program alone: whether the default device gives what REF gives.
bool run_fuzz_program(std::uint64_t seed);
// Its operations, for people.
std::string fuzz_program_text(std::uint64_t seed);

}  // namespace lathe::dev
