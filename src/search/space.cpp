#include "search/space.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/error.h"
#include "codegen/codegen.h"
#include "codegen/options/option_state.h"
#include "engine/compile_context.h"
#include "ir/range_tests.h"

namespace lathe::search {
namespace {

using List = std::vector<Opt>;

// The sizes an option is tried with. Whole vectors and what fits the register files of known machines; a size
// beyond a range's extent is refused by the option itself.
// clang-format off
constexpr std::int64_t kUpcasts[] = {2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 24, 28, 32, 48, 64, 96, 128, 256};
constexpr std::int64_t kUnrolls[] = {2, 3, 4, 5, 7, 8, 16, 32, 64, 128};
constexpr std::int64_t kTiles[] = {2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048, 4096, 16384};
constexpr std::int64_t kThreads[] = {2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128};
constexpr std::int64_t kLocals[] = {2, 4, 8, 16, 32, 64, 128, 256, 512};
constexpr std::int64_t kPads[] = {4, 8, 16, 32, 64};
constexpr std::int64_t kDepths[] = {1, 2, 3, 4};
// clang-format on

std::span<const std::int64_t> sizes_of(OptOp op) {
  switch (op) {
    case OptOp::UPCAST: return kUpcasts;
    case OptOp::UNROLL: return kUnrolls;
    case OptOp::TILE: return kTiles;
    case OptOp::THREAD: return kThreads;
    case OptOp::LOCAL:
    case OptOp::GROUP:
    case OptOp::GROUPTOP: return kLocals;
    case OptOp::PADTO: return kPads;
    case OptOp::PIPELINE: return kDepths;
    default: return {};
  }
}

// The two table entries on either side of a value.
std::vector<std::int64_t> around(std::span<const std::int64_t> table, std::int64_t value) {
  std::vector<std::int64_t> out;
  const auto above = std::upper_bound(table.begin(), table.end(), value) - table.begin();
  const auto below = std::lower_bound(table.begin(), table.end(), value) - table.begin();
  for (std::ptrdiff_t i : {below - 1, above, below - 2, above + 1})
    if (i >= 0 && i < static_cast<std::ptrdiff_t>(table.size()))
      out.push_back(table[static_cast<std::size_t>(i)]);
  return out;
}

// The state after a list, or nothing where an option of it is refused.
std::optional<OptionState> after(Node kernel, std::span<const Opt> list, const Target& target) {
  OptionState state(kernel, target);
  for (const Opt& opt : list)
    if (!state.takes(opt)) return std::nullopt;
  return state;
}

bool within(const OptionState& state, const Limits& limits) {
  double group = 1;
  for (const Axis& axis : state.axes())
    if (in_group(axis.kind)) group *= static_cast<double>(axis.extent.hi());
  return state.copies() <= limits.max_upcast && group <= static_cast<double>(limits.max_locals);
}

class Space {
 public:
  Space(Node kernel, std::span<const Opt> list, const Target& target, const Limits& limits)
      : kernel_(kernel), list_(list.begin(), list.end()), target_(target), limits_(limits) {}

  StepKinds run() {
    begin_kind();
    change_sizes();
    begin_kind();
    drop_each();
    begin_kind();
    exchange();
    append();
    std::erase_if(found_, [](const std::vector<List>& kind) { return kind.empty(); });
    return std::move(found_);
  }

 private:
  void begin_kind() { found_.emplace_back(); }
  void consider(List list) {
    if (list == list_ || !seen_.insert(to_string(list)).second) return;
    if (allowed(kernel_, list, target_, limits_)) found_.back().push_back(std::move(list));
  }
  void with(std::size_t place, const Opt& opt) {
    List list = list_;
    list[place] = opt;
    consider(std::move(list));
  }

  void change_sizes() {
    for (std::size_t i = 0; i < list_.size(); ++i) {
      const Opt& opt = list_[i];
      if (!opt.arg.empty())
        for (const std::int64_t size : around(sizes_of(opt.op), opt.arg[0])) {
          Opt changed = opt;
          changed.arg[0] = size;
          with(i, changed);
        }
      // Where a tile's outer half, or a copy, is.
      for (const int step : {-1, 1}) {
        Opt moved = opt;
        if (opt.op == OptOp::TILE && opt.arg.size() > 1)
          moved.arg[1] += step;
        else if (opt.op == OptOp::STAGE || opt.op == OptOp::THREAD)
          moved.axis += step;
        else
          continue;
        with(i, moved);
      }
    }
  }

  void drop_each() {
    for (std::size_t i = 0; i < list_.size(); ++i) {
      List list = list_;
      list.erase(list.begin() + static_cast<std::ptrdiff_t>(i));
      consider(std::move(list));
    }
  }

  void exchange() {
    for (std::size_t i = 0; i + 1 < list_.size(); ++i) {
      List list = list_;
      std::swap(list[i], list[i + 1]);
      consider(std::move(list));
    }
  }

  void add(OptOp op, int axis, std::vector<std::int64_t> arg) {
    List list = list_;
    list.push_back({op, axis, std::move(arg)});
    consider(std::move(list));
  }
  void add_sizes(OptOp op, int axis) {
    for (const std::int64_t size : sizes_of(op)) add(op, axis, {size});
  }

  // Every kind of option is appended to every loop it could be for.
  template <class Add>
  void each_loop(const OptionState& state, Add add_to) {
    begin_kind();
    int reduces = 0;
    for (int axis = 0; axis < static_cast<int>(state.axes().size()); ++axis) {
      const RangeKind kind = state.axes()[static_cast<std::size_t>(axis)].kind;
      if (in_registers(kind)) continue;
      const bool reduce = kind == RangeKind::Reduce;
      add_to(axis, reduce, reduce ? reduces++ : -1);
    }
  }

  void append() {
    const std::optional<OptionState> state = after(kernel_, list_, target_);
    if (!state) return;
    const auto values = static_cast<std::int64_t>(stageable_values(state->kernel()).size());
    each_loop(*state, [&](int axis, bool reduce, int) {
      if (!reduce) add_sizes(OptOp::UPCAST, axis);
    });
    each_loop(*state, [&](int, bool reduce, int number) {
      if (!reduce) return;
      add(OptOp::UNROLL, number, {0});
      add_sizes(OptOp::UNROLL, number);
    });
    if (target_.threads)
      each_loop(*state, [&](int axis, bool reduce, int) {
        if (!reduce) add_sizes(OptOp::THREAD, axis);
      });
    if (target_.groups)
      each_loop(*state, [&](int axis, bool reduce, int number) {
        if (!reduce) return add_sizes(OptOp::LOCAL, axis);
        add_sizes(OptOp::GROUP, number);
        add_sizes(OptOp::GROUPTOP, number);
      });
    each_loop(*state, [&](int axis, bool, int) {
      for (const std::int64_t size : kTiles)
        for (int to = 0; to <= axis; ++to) add(OptOp::TILE, axis, {size, to});
    });
    each_loop(*state, [&](int axis, bool, int) {
      for (int to = 0; to < axis; ++to) add(OptOp::TILE, axis, {1, to});
      if (axis + 1 < static_cast<int>(state->axes().size())) add(OptOp::SWAP, axis, {axis + 1});
    });
    each_loop(*state, [&](int axis, bool, int) {
      for (std::int64_t value = 0; value < values; ++value) add(OptOp::STAGE, axis, {value, 0});
    });
    if (target_.groups && state->pipelines().empty())
      each_loop(*state, [&](int axis, bool, int) {
        add(OptOp::PIPELINE, axis, {3});
        for (std::int64_t how = 1; how <= 2 && target_.bulk_copies; ++how)
          add(OptOp::PIPELINE, axis, {3, how});
      });
    if (!target_.groups && target_.threads && state->pipelines().empty())
      each_loop(*state, [&](int axis, bool, int) { add(OptOp::PIPELINE, axis, {1}); });
  }

  Node kernel_;
  List list_;
  const Target& target_;
  const Limits& limits_;
  StepKinds found_;
  std::set<std::string> seen_;
};

}  // namespace

bool allowed(Node kernel, std::span<const Opt> list, const Target& target, const Limits& limits) {
  const Scope scope;
  const std::optional<OptionState> state = after(kernel, list, target);
  if (!state || !within(*state, limits)) return false;
  // How large panels are shows when they are made.
  if (std::none_of(list.begin(), list.end(), [](const Opt& o) { return o.op == OptOp::STAGE; })) return true;
  return static_cast<bool>(try_options(kernel, list, engine::compile_for(target).quiet()));
}

StepKinds neighbours(Node kernel, std::span<const Opt> list, const Target& target, const Limits& limits) {
  const Scope scope;
  return Space(kernel, list, target, limits).run();
}

std::vector<List> starting_lists(Node kernel, const Target& target, const Limits& limits) {
  using Change = void (*)(Target&);
  constexpr Change kChanges[] = {
      [](Target& t) { t.l1 *= 2; },
      [](Target& t) { t.l1 /= 2; },
      [](Target& t) { t.l2 *= 2; },
      [](Target& t) { t.l2 /= 2; },
      [](Target& t) { t.l2 *= 16; },  // nothing need be cut into blocks
      [](Target& t) { t.l1 = t.l2; },
      [](Target& t) { t.vector_registers = t.vector_registers * 3 / 4; },
      [](Target& t) { t.vector_registers /= 2; },
      [](Target& t) { t.vector_bytes /= 2; },
      [](Target& t) { t.cores *= 2; },
      [](Target& t) { t.cores = (t.cores + 1) / 2; },
      [](Target& t) { t.max_group = (t.max_group + 1) / 2; },
  };
  // What decides the tiles of groups of threads: how many of them a core has at a time, and matrix units.
  constexpr Change kGroupChanges[] = {
      [](Target& t) { t.thread_registers /= 2; },
      [](Target& t) { t.core_registers /= 2; },
      [](Target& t) { t.core_registers *= 2; },
      [](Target& t) { t.core_shared_bytes /= 4, t.shared_bytes /= 4; },
      [](Target& t) { t.cores *= 4; },
      [](Target& t) { t.max_load_bytes /= 2; },
      [](Target& t) { t.units.clear(); },
  };
  std::vector<Change> changes(std::begin(kChanges), std::end(kChanges));
  if (target.groups) changes.insert(changes.end(), std::begin(kGroupChanges), std::end(kGroupChanges));
  std::vector<List> lists;
  for (const Change change : changes) {
    Target other = target;
    change(other);
    List list = choose_options(kernel, engine::compile_for(other));
    const bool known = list.empty() || std::find(lists.begin(), lists.end(), list) != lists.end();
    if (!known && allowed(kernel, list, target, limits)) lists.push_back(std::move(list));
  }
  return lists;
}

}  // namespace lathe::search
