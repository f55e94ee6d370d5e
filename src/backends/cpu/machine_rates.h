// How fast a core of this machine computes and is fed, and how much of L3 is its own: of a chip that the
// table knows, else measured once and kept in the cache folder, so that the same machine makes the same
// kernels in every run.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "target/target.h"

namespace lathe::backends {

// What CPUID says about the chip.
struct ChipId {
  std::string vendor;  // "AuthenticAMD"
  int family = 0, model = 0;
  std::string name;  // "AMD EPYC 9654 96-Core Processor"
};
ChipId host_chip();

struct MachineRates {
  CoreRates rates;
  // Bytes of L3 that are read at its rate. A machine reports all of it, however many others it shares it
  // with.
  std::int64_t l3 = 0;
};

// The table's row, for code with vectors of so many bytes; nothing where the chip is in none.
std::optional<MachineRates> rates_of_chip(const ChipId& chip, int vector_bytes);

// Measures caches of the target's sizes, on this core, for some ten milliseconds each.
MachineRates measure_rates(const Target& target);

// As text, "64 64 32 16 4 32": rates of arithmetic, L1, L2, L3 and memory, and MiB of L3; and back. Nothing
// where the text is no five or six positive numbers.
std::string rates_text(const MachineRates& rates);
std::optional<MachineRates> parse_rates(std::string_view text);

// Fills in what is known about this machine by LATHE_RATES: "" as above, "level" leaves the rates of the
// target's level and all of L3, "measure" measures again, or the numbers themselves.
void fill_rates(Target& target);

}  // namespace lathe::backends
