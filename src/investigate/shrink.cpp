#include "investigate/shrink.h"

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "codegen/kernel/substitute.h"
#include "investigate/smaller_kernels.h"
#include "ir/text.h"

namespace lathe::investigate {
namespace {

class Shrinker {
 public:
  Shrinker(Subject subject, const StillFails& fails) : now_(std::move(subject)), fails_(fails) {}

  Subject run() {
    const Scope scope;
    forget_elements();
    for (bool again = true; again;) {
      again = drop_options();
      for (const Smaller smaller : {effects_dropped, variables_bound, ranges_dropped, nodes_replaced,
                                    gates_dropped, ranges_shortened, dtypes_plain, memory_trimmed})
        again |= repeat(smaller);
    }
    return now_;
  }

 private:
  bool take(Subject candidate) {
    if (!fails_(candidate)) return false;
    now_ = std::move(candidate);
    return true;
  }

  void forget_elements() {
    if (now_.known.empty()) return;
    Subject candidate = now_;
    candidate.known.clear();
    take(candidate);
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
      if (place >= candidates.size()) return any;
      bool helped = false;
      for (; place < candidates.size() && !helped; helped ? place : ++place)
        helped = take_kernel(candidates[place]);
      any |= helped;
      if (!helped) return any;
    }
  }

  bool take_kernel(const std::function<Node()>& make) {
    Subject candidate = now_;
    try {
      const Node made = make();
      if (!made || made == now_.kernel.node() || made.arg_count() == 0) return false;
      candidate.kernel = numbered(made, candidate.known);
      static_cast<void>(parse_graph(print_graph(candidate.kernel)));  // it has to fit into a file
    } catch (const std::exception&) {
      return false;  // no kernel can be made of that
    }
    return take(std::move(candidate));
  }

  Subject now_;
  const StillFails& fails_;
};

}  // namespace

Subject shrink(Subject subject, const StillFails& fails) { return Shrinker(std::move(subject), fails).run(); }

}  // namespace lathe::investigate
