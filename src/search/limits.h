// What a search may use and spend: every number that bounds it, with its default (docs/search.md has the
// table).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lathe::search {

struct Limits {
  double seconds = 10;             // for one kernel, all included
  int beam = 4;                    // option lists kept from round to round
  int patience = 8;                // rounds without a gain of 1 % after which it ends early
  std::uint64_t seed = 1;          // the order in which candidates are tried
  std::int64_t max_nodes = 20000;  // instructions of a candidate's program
  std::int64_t max_upcast = 1024;  // copies of the body: the product of all UPCAST and UNROLL of one nest
  std::int64_t max_locals = 1024;  // threads of a group: the product of all LOCAL and GROUP
  double candidate_seconds = 10;   // after which a candidate counts as hanging
  double least_gain = 0.03;        // of the default's time, else the default stays
  std::int64_t max_bytes = std::int64_t{2} << 30;  // of a kernel's buffers; larger ones are not searched
  int compile_processes = 0;                       // 0: one for each usable CPU
  std::vector<std::string> worker;                 // the command of lathe-worker; empty: it is looked for
};

}  // namespace lathe::search
