// Searches the options of one kernel, for as long as it is given. Candidates are compiled and run by workers,
// compared with the default kernel, which was compared with REF, and timed; the best one wins if, in turn
// with the default, it is enough faster, else the default stays. A candidate that crashes, hangs or is wrong
// becomes a repro file and the search goes on. So does a default that differs from REF: the kernel without
// options takes its place, and where that is wrong too, nothing may be used.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/node.h"
#include "lathe/options.h"
#include "runtime/devices.h"
#include "search/limits.h"
#include "search/workers.h"

namespace lathe::search {

// The best time known so far, after so many seconds of search.
struct CurvePoint {
  double seconds = 0, best_ns = 0;
};

struct Result {
  std::vector<Opt> default_options, options;  // equal where the default stays
  double default_ns = 0, best_ns = 0;         // best of both in turn
  double seconds = 0;
  bool searched = false;  // false: it could not be, and `why` says so
  std::string why;
  std::string distrusted;  // how the heuristic's options differ from REF; default_options are none then
  bool unusable = false;   // the kernel without options differs too, as `why` says
  std::vector<CurvePoint> curve;
  int tried = 0;  // candidates compiled
  int refused = 0, crashed = 0, hung = 0, wrong = 0;
  std::vector<std::string> repros;  // files of candidates that failed
  bool improved() const { return best_ns < default_ns; }
  bool keeps_default() const { return distrusted.empty() && !improved(); }
};

struct Request {
  Node kernel;
  std::string name;  // of the kernel, for people
  OpenDevice* device = nullptr;
  std::vector<std::vector<Opt>>
      starts;  // lists to begin with besides the default: what an earlier search found
};

// What a person waiting sees: seconds so far, and the best time.
using Watch = std::function<void(double seconds, const Result& so_far)>;

Result search_kernel(const Request& request, const Limits& limits, const Watch& watch = {});

}  // namespace lathe::search
