#include "codegen/lower/prefetch_results.h"

#include <optional>
#include <set>
#include <vector>

#include "codegen/lower/fragments.h"
#include "codegen/lower/relist.h"
#include "ir/build.h"
#include "target/cache_line.h"

namespace lathe {
namespace {

// What is written after a loop: whole rows of lines, evenly apart, counted in elements from `place`.
struct ResultLines {
  Node memory, place;
  std::int64_t first = 0, rows = 0, pitch = 0, lines = 0;
};

// Bytes of cache lines, each by its first, as rows; nothing where they are none.
std::optional<ResultLines> as_rows(const std::set<std::int64_t>& begins, std::int64_t element) {
  const std::vector<std::int64_t> at(begins.begin(), begins.end());
  std::size_t lines = 1;
  while (lines < at.size() && at[lines] == at[lines - 1] + kLineBytes) ++lines;
  if (at.size() % lines != 0) return std::nullopt;
  const std::int64_t pitch = at.size() > lines ? at[lines] - at[0] : 0;
  for (std::size_t i = 0; i < at.size(); ++i)
    if (at[i] != at[0] + static_cast<std::int64_t>(i / lines) * pitch +
                     static_cast<std::int64_t>(i % lines) * kLineBytes)
      return std::nullopt;
  return ResultLines{Node(),          Node(),
                     at[0] / element, static_cast<std::int64_t>(at.size() / lines),
                     pitch / element, static_cast<std::int64_t>(lines)};
}

// Walks a program and collects what is stored between the end of a sum's loop and that of the one around it.
class Finder {
 public:
  Finder(const Program& program, std::int64_t cache)
      : program_(program), fragments_(factor_fragments(program)), cache_(cache) {}

  NodeMap<ResultLines> run() {
    for (Node n : program_.code) {
      if (n.is(Op::Range)) open_.push_back(n);
      if (fragments_.contains(n) && !open_.empty()) {
        if (sum_ && sum_ != open_.back()) finish();
        sum_ = open_.back(), depth_ = open_.size();
      }
      if (n.is(Op::End)) {
        open_.pop_back();
        if (sum_ && open_.size() + 1 < depth_) finish();
      }
      if (sum_ && open_.size() < depth_ && n.is(Op::Store) && base_memory(n.arg(0)).is(Op::Param)) take(n);
    }
    return std::move(found_);
  }

 private:
  void take(Node store) {
    Node param = base_memory(store.arg(0));
    const SplitIndex at = split_index(store.arg(1));
    if (!memory_) memory_ = param, place_ = at.place;
    const std::int64_t element = param.dtype().bytes();
    plain_ &= param == memory_ && at.place == place_ && store.arg(1).dtype().lanes == 1 &&
              memory_size(param) * element * 2 > cache_;
    // The result begins at a line, as buffers do; else a line more is written than prefetched.
    const std::int64_t begin = at.distance * element, end = begin + store.arg(2).dtype().lanes * element;
    for (std::int64_t line = begin / kLineBytes * kLineBytes; line < end; line += kLineBytes)
      lines_.insert(line);
  }
  void finish() {
    std::optional<ResultLines> rows =
        plain_ && !lines_.empty() ? as_rows(lines_, memory_.dtype().bytes()) : std::nullopt;
    if (rows) {
      rows->memory = memory_, rows->place = place_;
      found_[sum_] = *rows;
    }
    sum_ = memory_ = place_ = Node();
    plain_ = true;
    lines_.clear();
  }

  const Program& program_;
  const NodeMap<Fragment> fragments_;
  const std::int64_t cache_;
  std::vector<Node> open_;  // loops
  Node sum_;                // the last loop that added products up, until the loop around it ends
  std::size_t depth_ = 0;
  Node memory_, place_;
  std::set<std::int64_t> lines_;
  bool plain_ = true;
  NodeMap<ResultLines> found_;
};

// At the beginning of a step of the loop.
void put_prefetches(Relist& list, Node loop, const ResultLines& lines) {
  const DType dtype = lines.place.dtype();
  const auto number = [&](std::int64_t v) { return int_const(dtype, v); };
  const std::int64_t steps = loop.arg(0).hi(), rows = (lines.rows + steps - 1) / steps;
  Node from = list.named(lines.place);
  if (lines.pitch > 0) {
    Node step = list.put(apply(Op::Mul, list.sized(list.named(loop), dtype), number(rows * lines.pitch)));
    from = list.put(apply(Op::Add, from, step));
  }
  const std::int64_t line_elements = kLineBytes / lines.memory.dtype().bytes();
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t line = 0; line < lines.lines; ++line) {
      const std::int64_t distance = lines.first + row * lines.pitch + line * line_elements;
      Node index = distance == 0 ? from : list.put(apply(Op::Add, from, number(distance)));
      list.put(prefetch(lines.memory, index, 3));
    }
}

}  // namespace

Program prefetch_results(Program program, const Target& target) {
  if (!has_fragment_products(program)) return program;
  const NodeMap<ResultLines> lines = Finder(program, target.l2).run();
  if (lines.empty()) return program;
  Relist list(std::move(program));
  for (Node n : list.before()) {
    const ResultLines* after = lines.find(n);
    const bool known = after != nullptr && list.is_known(list.named(after->place));
    list.keep(n);
    if (known) put_prefetches(list, n, *after);
  }
  return list.take();
}

}  // namespace lathe
