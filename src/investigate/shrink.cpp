#include "investigate/shrink.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "base/error.h"
#include "codegen/kernel/substitute.h"
#include "investigate/smaller_kernels.h"
#include "ir/text.h"

namespace lathe::investigate {
namespace {

class Shrinker {
 public:
  Shrinker(Subject subject, const FirstFailing& first_failing, std::size_t at_a_time)
      : now_(std::move(subject)), first_failing_(first_failing), at_a_time_(at_a_time) {}

  Subject run() {
    const Scope scope;
    forget_contents();
    for (bool again = true; again;) {
      again = drop_options();
      for (const Smaller smaller : {effects_dropped, variables_bound, ranges_dropped, nodes_replaced,
                                    gates_dropped, ranges_shortened, dtypes_plain, memory_trimmed})
        again |= repeat(smaller);
    }
    return now_;
  }

 private:
  // The place of the one that was taken, or how many there are.
  std::size_t take_first(std::span<const Subject> candidates) {
    const std::size_t at = candidates.empty() ? 0 : first_failing_(candidates);
    if (at < candidates.size()) now_ = candidates[at];
    return at;
  }
  bool take(const Subject& candidate) { return take_first({&candidate, 1}) == 0; }

  // Made-up contents say as much, where the kernel fails with them; else some of what is known may.
  void forget_contents() {
    if (!now_.known.empty()) {
      Subject candidate = now_;
      candidate.known.clear();
      take(candidate);
    }
    if (now_.given.empty()) return;
    Subject candidate = now_;
    candidate.given.clear();
    candidate.inputs.clear();
    if (take(candidate)) return;
    for (std::size_t i = now_.given.size(); i-- > 0;) {
      candidate = now_;
      candidate.given.erase(candidate.given.begin() + static_cast<std::ptrdiff_t>(i));
      take(candidate);
    }
  }

  bool drop_options() {
    bool any = false;
    for (std::size_t i = now_.options.size(); i-- > 0;) {
      Subject candidate = now_;
      candidate.options.erase(candidate.options.begin() + static_cast<std::ptrdiff_t>(i));
      any |= take(candidate);
    }
    return any;
  }

  // One kind of change, from where the last one helped, until none helps any more.
  bool repeat(Smaller smaller) {
    bool any = false;
    for (std::size_t place = 0;;) {
      const Candidates candidates = smaller(now_.kernel, now_.bindings);
      bool helped = false;
      while (place < candidates.size() && !helped) {
        std::vector<Subject> together;
        std::vector<std::size_t> places;
        for (; place < candidates.size() && together.size() < at_a_time_; ++place)
          if (std::optional<Subject> made = with_kernel(candidates[place])) {
            together.push_back(std::move(*made));
            places.push_back(place);
          }
        const std::size_t at = take_first(together);
        helped = at < together.size();
        if (helped) place = places[at];
      }
      any |= helped;
      if (!helped) return any;
    }
  }

  std::optional<Subject> with_kernel(const std::function<Node()>& make) const {
    Subject candidate = now_;
    try {
      const Node made = make();
      if (!made || made == now_.kernel.node() || made.arg_count() == 0) return std::nullopt;
      candidate.kernel = numbered(made, candidate);
      static_cast<void>(parse_graph(print_graph(candidate.kernel)));  // it has to fit into a file
    } catch (const std::exception&) {
      return std::nullopt;  // no kernel can be made of that
    }
    return candidate;
  }

  Subject now_;
  const FirstFailing& first_failing_;
  const std::size_t at_a_time_;
};

}  // namespace

Subject shrink(Subject subject, const FirstFailing& first_failing, std::size_t at_a_time) {
  return Shrinker(std::move(subject), first_failing, at_a_time).run();
}

}  // namespace lathe::investigate
