// What each check of Lathe says of one kernel, asked by itself: so that it shows which of them notice a
// fault, and which do not (`lathe faults --judges`).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "investigate/experiment.h"

namespace lathe::investigate {

// A check, and what it notices.
struct Judge {
  std::string_view name, notices;
};
inline constexpr Judge kVerifier{"verifier", "a compile that makes something malformed"};
inline constexpr Judge kReference{"REF", "a step after which the kernel computes something else"};
inline constexpr Judge kBoundsProof{"bounds proof", "an access that leaves its memory"};
inline constexpr Judge kRaceDetector{"race detector", "threads without an order, a missing barrier"};
inline constexpr Judge kFirstUse{"first-use check", "a result on the device that differs from REF's"};

inline constexpr Judge kFences{"fences",
                               "a write outside of the buffers, when it is run by an investigation"};

struct Opinion {
  std::string judge, says;
};
// Those that found something wrong, with what they said: of what looks at the compile alone, of what REF said
// of its steps, and of what runs the kernel, which may end the process.
std::vector<Opinion> ask_judges(const Subject& subject, const Conditions& conditions);
std::vector<Opinion> opinions_of(const StepsRun& run);
std::vector<Opinion> ask_on_device(const Subject& subject, const Conditions& conditions);

}  // namespace lathe::investigate
