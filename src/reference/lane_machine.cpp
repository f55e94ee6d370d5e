#include "reference/lane_machine.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <memory>
#include <type_traits>

#include <fmt/format.h>

#include "base/error.h"
#include "ir/build.h"
#include "ir/ranges.h"
#include "ir/text.h"
#include "ir/walk.h"
#include "reference/lane_facts.h"
#include "reference/lane_ops.h"
#include "reference/lane_split.h"
#include "reference/lane_vectors.h"

namespace lathe::reference {
namespace {

constexpr std::size_t kMaxFaults = 16;

struct Register {
  LaneResult one, all;  // of one lane, of every lane; a wide register has only the second
};

// Memory of the kernel's own, an array for every lane: element i of lane k is at i * lanes + k.
struct Panel {
  std::vector<Cell> v;
  std::vector<double> l, w, low;
};

Step copy_of_all_lanes() {
  Step s;
  s.act = Act::Copy;
  return s;
}

struct TooLong {};

// Memory that lives as long as the arena, zeroed.
template <class T>
class Arena {
 public:
  T* take(std::size_t n) {
    if (used_ + n > size_) {
      size_ = std::max<std::size_t>(n, kBlock);
      used_ = 0;
      blocks_.push_back(std::make_unique<T[]>(size_));
    }
    used_ += n;
    return blocks_.back().get() + (used_ - n);
  }

 private:
  static constexpr std::size_t kBlock = 4096;  // much larger ones the system hands out again each time
  std::vector<std::unique_ptr<T[]>> blocks_;
  std::size_t used_ = 0, size_ = 0;
};

class LaneMachine {
 public:
  LaneMachine(const Code& code, std::span<const View> params, const Bindings& bindings,
              std::span<const Position* const> positions, std::size_t lanes, std::span<const OpError> native,
              double max_ops, BoundedReport& report)
      : code_(code),
        params_(params),
        split_(split_lanes(code, positions.size(), lanes)),
        positions_(lane_positions(positions, split_.share)),
        native_(native),
        lanes_(static_cast<int>(positions_.size())),
        max_ops_(max_ops),
        report_(report),
        facts_(lane_facts(code, positions_, split_)),
        may_flush_(std::ranges::any_of(code.steps, [&](const Step& s) { return facts_.may_flush(s); })),
        coarse_(std::ranges::any_of(code.steps, [&](const Step& s) { return facts_.is_fp8(s); })
                    ? coarse_error(native)
                    : 0),
        registers_(code.registers),
        zeros_(padded_lanes(positions_.size())),
        samples_(positions_.size()) {
    allocate();
    set_leaves(bindings);
    for (const Step& s : code_.steps) prepare(s);
  }

  std::vector<Sample> run() {
    for (std::size_t at = 0; at < steps_.size();) at = step(at);
    report_.ops += ops_;
    const auto share = static_cast<std::size_t>(split_.share);
    for (std::size_t i = 1; i * share < samples_.size(); ++i) samples_[i] = samples_[i * share];
    samples_.resize(samples_.size() / share);
    return std::move(samples_);
  }

 private:
  static std::vector<const Position*> lane_positions(std::span<const Position* const> positions, int share) {
    std::vector<const Position*> out;
    for (const Position* p : positions) out.insert(out.end(), static_cast<std::size_t>(share), p);
    return out;
  }

  std::size_t lane_count() const { return positions_.size(); }

  // ---- registers

  LaneResult take(int n, bool bounded) {
    const std::size_t size = padded_lanes(static_cast<std::size_t>(n));
    LaneResult r;
    r.v = cells_.take(size);
    if (bounded) {
      r.l = doubles_.take(size);
      r.w = doubles_.take(size);
      if (facts_.pairs) r.low = doubles_.take(size);
    }
    return r;
  }

  void allocate() {
    for (std::size_t r = 0; r < facts_.registers.size(); ++r) {
      const RegisterFacts& f = facts_.registers[r];
      if (f.wide || f.splat) registers_[r].all = take(lanes_, f.bounded);
      if (!f.wide) registers_[r].one = take(1, f.bounded);
    }
    panels_.resize(code_.memories.size());
    for (std::size_t m = 0; m < code_.memories.size(); ++m) {
      if (code_.memories[m].kind != MemorySlot::Kind::Private) continue;
      const std::size_t size = static_cast<std::size_t>(code_.memories[m].size) * lane_count();
      panels_[m].v.resize(size);
      if (!facts_.memories[m].bounded) continue;
      panels_[m].l.resize(size);
      panels_[m].w.resize(size);
      if (facts_.pairs) panels_[m].low.resize(size);
    }
  }

  void set(std::uint32_t r, Cell value) {
    if (registers_[r].one.v != nullptr) registers_[r].one.v[0] = value;
    if (registers_[r].all.v != nullptr) std::fill_n(registers_[r].all.v, lanes_, value);
  }

  void set_leaves(const Bindings& bindings) {
    for (const auto& [r, value] : code_.constants) set(r, value);
    for (const auto& [r, name] : code_.variables) {
      auto it =
          std::find_if(bindings.begin(), bindings.end(), [&](const auto& b) { return b.first == name; });
      if (it == bindings.end())
        throw UserError("reference", fmt::format("the variable {} has no value", name));
      set(r, Cell{it->second});
    }
    for (std::size_t d = 0; d < code_.positions.size(); ++d) {
      const std::uint32_t r = code_.positions[d];
      set(r, Cell{positions_[0]->at[d]});
      if (facts_.registers[r].wide)
        for (std::size_t k = 0; k < positions_.size(); ++k) registers_[r].all.v[k].i = positions_[k]->at[d];
    }
  }

  // ---- steps

  LaneOperand operand(std::uint32_t r, bool wide) const {
    const LaneResult& from = wide ? registers_[r].all : registers_[r].one;
    LaneOperand out{from.v, from.l, from.w, from.low};
    if (out.l == nullptr) out.l = out.w = out.low = zeros_.data();
    return out;
  }

  void prepare(const Step& s) {
    LaneStep out;
    out.from = &s;
    const bool wide = facts_.is_wide(s);
    out.n = wide ? lanes_ : 1;
    out.chained = &whole_;
    if (s.act == Act::LoopBegin) {
      Begin& loop = begins_.emplace_back();
      loop.begin = steps_.size();
      loop.shared = split_.shares(code_, s);
      loop.wide = facts_.registers[s.a].wide;
      loop.folds = passes_on_roundings(s);
      loop.around = loop_stack_.empty() ? -1 : static_cast<int>(loop_stack_.back());
      loop_stack_.push_back(begins_.size() - 1);
      out.loop = static_cast<std::int32_t>(begins_.size() - 1);
      out.x = operand(s.a, loop.wide);
    } else if (s.act == Act::LoopEnd) {
      out.loop = static_cast<std::int32_t>(loop_stack_.back());
      begins_[loop_stack_.back()].end = steps_.size();
      loop_stack_.pop_back();
    } else if (s.act != Act::Halt && s.act != Act::Forget) {
      const bool bounded = s.dst != kNoRegister && facts_.registers[s.dst].bounded;
      if (s.a != kNoRegister) out.x = operand(s.a, wide);
      if (s.b != kNoRegister) out.y = operand(s.b, wide);
      if (s.c != kNoRegister) out.z = operand(s.c, wide);
      const std::uint32_t dst = s.act == Act::ReduceEnd ? s.a : s.dst;
      if (dst != kNoRegister) out.d = wide ? registers_[dst].all : registers_[dst].one;
      out.exact_operands = facts_.has_exact_operands(s);
      out.run = facts_.may_flush(s) ? flushing_conversion
                                    : lane_function(s, bounded, out.exact_operands, facts_.pairs);
      out.checks = s.checks;
      float_facts(s, out);
      out.joins = s.act == Act::ReduceEnd && split_.joins(s.a);
    }
    steps_.push_back(out);
    const std::uint32_t dst = s.act == Act::ReduceEnd ? s.a : s.dst;
    if (!is_control(s.act) && dst != kNoRegister && facts_.registers[dst].splat)
      steps_.push_back(splat_of(dst));
  }

  void float_facts(const Step& s, LaneStep& out) {
    const bool reduce = s.act == Act::ReduceEnd || (s.act == Act::Scalar && s.carries);
    DType dtype;
    Op op = s.op;
    if (s.act == Act::Scalar) dtype = s.dtype;
    if (s.act == Act::Convert) dtype = s.to, op = Op::Add;
    if (s.act == Act::ReduceEnd) dtype = s.node.dtype().element(), op = Op::Add;
    if (!dtype.is_float()) return;
    out.rounding = &rounding_of(dtype);
    out.own = own_error(op, dtype, native_);
    if (s.act == Act::Convert && s.from.is_float() && (s.from == s.to || widens(s.from, s.to))) out.own = 0;
    if (s.dst != kNoRegister && facts_.registers[s.dst].chained && keeps_chain(s) && !loop_stack_.empty() &&
        begins_[loop_stack_.back()].folds)
      out.chained = &begins_[loop_stack_.back()].likely_part;
    out.may_fuse = s.act == Act::Scalar && s.op == Op::Mul && facts_.registers[s.dst].added;
    out.may_flush = s.act == Act::ReduceEnd && dtype == dtypes::Float32 && may_flush_;
    if (s.act == Act::ReduceEnd && dtype == dtypes::Float32 && s.node.is(Op::Reduce) &&
        reduce_op(s.node) == Op::Add)
      out.coarse = coarse_;
    if (reduce) out.sum = sum_planes(s.act == Act::ReduceEnd ? s.a : s.dst, out.n);
    if (s.act == Act::Scalar && info(s.op).result == ResultKind::Boolean) note_extreme(s, out);
  }

  // A comparison of a value with the maximum (or minimum) over all values like it.
  void note_extreme(const Step& s, LaneStep& out) {
    for (const auto& [r, planes] : sums_)
      for (const bool left : {true, false}) {
        if (r != (left ? s.a : s.b) || !s.node || s.op == Op::Less) continue;
        Node extreme = s.node.arg(left ? 0 : 1), value = s.node.arg(left ? 1 : 0);
        if (!is_extreme_of(extreme, value)) continue;
        out.clear = planes.clear;
        out.clear_stride = facts_.registers[r].wide ? 1 : 0;
      }
  }
  static bool is_extreme_of(Node extreme, Node value) {
    if (!extreme.is(Op::Reduce) || (reduce_op(extreme) != Op::Max && reduce_op(extreme) != Op::Min))
      return false;
    if (extreme.arg(0) == value) return true;
    const std::span<const Node> closed = closed_ranges(extreme);
    if (closed.size() != 1) return false;
    for (Node r : ranges_of(value)) {
      if (r.arg(0) != closed[0].arg(0)) continue;
      NodeMap<Node> renamed;
      renamed[closed[0]] = r;
      if (substitute(extreme.arg(0), renamed) == value) return true;
    }
    return false;
  }

  SumPlanes sum_planes(std::uint32_t r, int lanes) {
    const std::size_t n = padded_lanes(static_cast<std::size_t>(lanes));
    for (auto& [known, planes] : sums_)
      if (known == r) return planes;
    SumPlanes p;
    for (double** plane : {&p.magnitude, &p.squares, &p.partial, &p.terms, &p.uneven, &p.beyond, &p.second,
                           &p.clear, &p.most, &p.least, &p.zeros, &p.infinite})
      *plane = doubles_.take(n);
    sums_.emplace_back(r, p);
    return p;
  }

  static void splat(const LaneStep& s) {
    std::fill_n(s.d.v, s.n, s.x.v[0]);
    if (s.d.l == nullptr) return;
    std::fill_n(s.d.l, s.n, s.x.l[0]);
    std::fill_n(s.d.w, s.n, s.x.w[0]);
    if (s.d.low != nullptr) std::fill_n(s.d.low, s.n, s.x.low[0]);
  }
  LaneStep splat_of(std::uint32_t r) {
    LaneStep out;
    out.from = &kCopy;
    out.run = splat;
    out.n = lanes_;
    out.x = operand(r, false);
    out.d = registers_[r].all;
    return out;
  }

  // ---- running

  struct Begin {
    std::size_t begin = 0, end = 0;
    bool shared = false;  // each lane of a position takes a stretch of it
    bool wide = false;    // its length differs by lane; of a shared one, that of the stretches
    bool folds = false;   // running values that round are passed on in it
    int around = -1;      // the loop around it
    std::int64_t counter = 0, length = 0;
    std::vector<std::int64_t> first, lengths;  // of the stretches
    double likely_part = 1;                    // of the roundings of a fold's running values
    std::vector<char> active;
  };

  std::size_t step(std::size_t at) {
    const LaneStep& s = steps_[at];
    switch (s.from->act) {
      case Act::Halt: return steps_.size();
      case Act::Forget: return at + 1;
      case Act::LoopBegin: return begin_loop(s, at);
      case Act::LoopEnd: return end_loop(s, at);
      case Act::Load: load(s); break;
      case Act::Store: store(s); break;
      case Act::PrivateLoad: private_load(s); break;
      case Act::PrivateStore: private_store(s); break;
      default:
        if (s.joins) join_lanes(s, split_.share);
        if (s.from->carries && active_ != nullptr)
          run_masked(s);
        else
          s.run(s);
        if (s.checks) check(s);
    }
    ops_ += s.n;
    return at + 1;
  }

  std::size_t begin_loop(const LaneStep& s, std::size_t at) {
    Begin& b = begins_[static_cast<std::size_t>(s.loop)];
    b.length = 0;
    if (b.shared)
      find_stretches(s, b);
    else
      for (int i = 0; i < (b.wide ? lanes_ : 1); ++i) b.length = std::max(b.length, s.x.v[i].i);
    if (b.length <= 0) return b.end + 1;
    b.counter = 0;
    // Roundings along a fold have nothing to do with each other: n of them grow like sqrt(n).
    b.likely_part = std::min(1.0, kLikely / std::sqrt(static_cast<double>(b.length)));
    set_counter(s, b);
    return at + 1;
  }

  // Where the lanes of each position begin in a loop they share, and how far they go.
  void find_stretches(const LaneStep& s, Begin& b) {
    const bool by_lane = facts_.registers[s.from->a].wide;
    b.first.resize(lane_count());
    b.lengths.resize(lane_count());
    for (std::size_t i = 0; i < b.first.size(); ++i) {
      const std::int64_t all = std::max<std::int64_t>(s.x.v[by_lane ? i : 0].i, 0),
                         part = static_cast<std::int64_t>(i) % split_.share;
      b.first[i] = all * part / split_.share;
      b.lengths[i] = all * (part + 1) / split_.share - b.first[i];
      b.length = std::max(b.length, b.lengths[i]);
    }
    b.wide = std::ranges::any_of(b.lengths, [&](std::int64_t length) { return length != b.length; });
  }

  void set_counter(const LaneStep& s, Begin& b) {
    if (b.shared)
      for (std::size_t i = 0; i < b.first.size(); ++i)
        registers_[s.from->dst].all.v[i].i = b.first[i] + b.counter;
    else
      set(s.from->dst, Cell{b.counter});
    const std::vector<char>* outer = mask_around(b);
    if (b.wide) {
      b.active.resize(static_cast<std::size_t>(lanes_));
      for (std::size_t i = 0; i < b.active.size(); ++i)
        b.active[i] = b.counter < (b.shared ? b.lengths[i] : s.x.v[i].i) && (outer == nullptr || (*outer)[i]);
      active_ = &b.active;
    } else {
      active_ = outer;
    }
  }
  const std::vector<char>* mask_around(const Begin& b) const {
    for (int at = b.around; at >= 0; at = begins_[static_cast<std::size_t>(at)].around)
      if (begins_[static_cast<std::size_t>(at)].wide) return &begins_[static_cast<std::size_t>(at)].active;
    return nullptr;
  }

  std::size_t end_loop(const LaneStep& s, std::size_t at) {
    Begin& b = begins_[static_cast<std::size_t>(s.loop)];
    if (ops_ > max_ops_) throw TooLong{};
    if (++b.counter < b.length) {
      set_counter(steps_[b.begin], b);
      return b.begin + 1;
    }
    active_ = mask_around(b);
    return at + 1;
  }

  // Lanes that stand still keep their running values.
  void run_masked(const LaneStep& s) {
    const auto n = static_cast<std::size_t>(s.n);
    double* planes[] = {s.d.l,         s.d.w,       s.d.low,      s.sum.magnitude, s.sum.squares,
                        s.sum.partial, s.sum.terms, s.sum.uneven, s.sum.beyond,    s.sum.second,
                        s.sum.most,    s.sum.least, s.sum.zeros,  s.sum.infinite};
    kept_cells_.assign(s.d.v, s.d.v + n);
    kept_.resize(n * std::size(planes));
    for (std::size_t p = 0; p < std::size(planes); ++p)
      if (planes[p] != nullptr) std::copy_n(planes[p], n, kept_.data() + p * n);
    s.run(s);
    for (std::size_t i = 0; i < n; ++i) {
      if ((*active_)[i]) continue;
      s.d.v[i] = kept_cells_[i];
      for (std::size_t p = 0; p < std::size(planes); ++p)
        if (planes[p] != nullptr) planes[p][i] = kept_[p * n + i];
    }
  }

  bool stands_still(int lane) const {
    return active_ != nullptr && !(*active_)[static_cast<std::size_t>(lane)];
  }

  void check(const LaneStep& s) {
    for (int i = 0; i < s.n; ++i)
      if (s.d.v[i].i < 0 && s.z.v[i].i != 0 && !(s.n > 1 && stands_still(i))) report_.index_fault = true;
  }

  // ---- memory

  void fault(const LaneStep& s, const char* what, std::int64_t index, std::int64_t size) {
    if (report_.faults.size() >= kMaxFaults) return;
    report_.faults.push_back(fmt::format("out of bounds: {} of {} at {}, which has {} elements in {}", what,
                                         code_.memories[s.from->memory].name, index, size,
                                         print_node(s.from->node)));
  }

  const View& view_of(const LaneStep& s) const {
    const MemorySlot& m = code_.memories[s.from->memory];
    const auto slot = static_cast<std::size_t>(m.slot);
    if (slot >= params_.size())
      throw UserError("reference", fmt::format("no memory was given for {}", m.name));
    const View& v = params_[slot];
    if (v.size < m.size || v.dtype.element() != m.dtype.element())
      throw UserError("reference", fmt::format("{} needs {} elements of {}, was given {} of {}", m.name,
                                               m.size, m.dtype.element().str(), v.size, v.dtype.str()));
    return v;
  }

  // What a load does in each lane: 0 behind a closed gate, the hull of both where the gate is undecided,
  // nothing known where the index is.
  template <class Read>
  void load_lanes(const LaneStep& s, std::int64_t size, Read read) {
    const bool gated = s.from->b != kNoRegister;
    const bool is_float = s.from->node.dtype().is_float();
    for (int i = 0; i < s.n; ++i) {
      Cell v{};
      double l = 0, w = 0;
      if (s.d.low != nullptr) s.d.low[i] = 0;
      const std::int64_t index = s.x.v[i].i;
      const bool undecided = gated && s.y.w[i] != 0;
      const bool open = !gated || s.y.v[i].i != 0 || undecided;
      if (open && !(active_ != nullptr && s.n > 1 && stands_still(i))) {
        if (s.x.w[i] != 0) {
          l = s.x.l[i] != 0 ? kOpen : 0;
          w = kOpen;
        }
        if (index >= 0 && index < size)
          read(i, index, v, l, w);
        else if (!undecided && s.x.w[i] == 0)
          fault(s, "load", index, size);
        if (undecided) {
          const double apart = is_float ? std::fabs(v.f) : std::fabs(static_cast<double>(v.i));
          const bool closed = s.y.v[i].i == 0;
          if (s.y.l[i] != 0) l = std::max(l, apart + (closed ? l : 0));
          w = std::max(w, apart + (closed ? w : 0));
          if (closed) v = Cell{};
        }
      }
      s.d.v[i] = v;
      if (s.d.l == nullptr) continue;
      s.d.l[i] = l;
      s.d.w[i] = w;
    }
  }

  // What is read is all there is to say.
  template <class T>
  void load_exact(const LaneStep& s, const View& view, std::int64_t size) {
    const bool gated = s.from->b != kNoRegister;
    for (int i = 0; i < s.n; ++i) {
      Cell v{};
      const std::int64_t index = s.x.v[i].i;
      if (gated && s.y.v[i].i == 0) {
        // closed
      } else if (index >= 0 && index < size) {
        T element;
        std::memcpy(&element, view.data + index * static_cast<std::int64_t>(sizeof element), sizeof element);
        if constexpr (std::is_floating_point_v<T>)
          v.f = static_cast<double>(element);
        else
          v.i = static_cast<std::int64_t>(element);
      } else {
        fault(s, "load", index, size);
      }
      s.d.v[i] = v;
    }
  }

  void load(const LaneStep& s) {
    const View& view = view_of(s);
    const MemorySlot& m = code_.memories[s.from->memory];
    if (s.exact_operands && active_ == nullptr && view.reads == nullptr && view.fetched == nullptr) {
      if (view.dtype == dtypes::Float32) return load_exact<float>(s, view, m.size);
      if (view.dtype == dtypes::Int32) return load_exact<std::int32_t>(s, view, m.size);
    }
    const Reader reader = reader_of(view.dtype);
    const int width = view.dtype.bytes();
    load_lanes(s, m.size, [&](int, std::int64_t index, Cell& v, double&, double&) {
      if (view.reads != nullptr) view.reads->push_back(index);
      const std::byte* at = view.fetched == nullptr ? view.data + index * width : view.fetched->find(index);
      if (at != nullptr)
        v = reader(at);
      else
        report_.missing.emplace_back(m.slot, index);
    });
  }

  void private_load(const LaneStep& s) {
    const Panel& panel = panels_[s.from->memory];
    const auto lanes = static_cast<std::size_t>(lanes_);
    load_lanes(s, code_.memories[s.from->memory].size,
               [&](int i, std::int64_t index, Cell& v, double& l, double& w) {
                 const std::size_t at = static_cast<std::size_t>(index) * lanes + static_cast<std::size_t>(i);
                 v = panel.v[at];
                 if (panel.l.empty()) return;
                 l = std::max(l, panel.l[at]);
                 w = std::max(w, panel.w[at]);
                 if (facts_.pairs) s.d.low[i] = panel.low[at];
               });
  }

  void private_store(const LaneStep& s) {
    Panel& panel = panels_[s.from->memory];
    const std::int64_t size = code_.memories[s.from->memory].size;
    const auto lanes = static_cast<std::size_t>(lanes_);
    const bool gated = s.from->b != kNoRegister;
    for (int i = 0; i < s.n; ++i) {
      if (stands_still(i)) continue;
      if (s.x.w[i] != 0 || (gated && s.y.w[i] != 0)) {
        undecided_store(s, panel, i);
        continue;
      }
      if (gated && s.y.v[i].i == 0) continue;
      const std::int64_t index = s.x.v[i].i;
      if (index < 0 || index >= size) {
        fault(s, "store", index, size);
        continue;
      }
      const std::size_t at = static_cast<std::size_t>(index) * lanes + static_cast<std::size_t>(i);
      panel.v[at] = s.z.v[i];
      if (panel.l.empty()) continue;
      panel.l[at] = s.z.l[i];
      panel.w[at] = s.z.w[i];
      if (facts_.pairs) panel.low[at] = s.z.low[i];
    }
  }

  // A store whose gate or index is undecided: every element that it may reach holds what it held, or what is
  // stored.
  void undecided_store(const LaneStep& s, Panel& panel, int i) {
    const MemorySlot& m = code_.memories[s.from->memory];
    const bool gated = s.from->b != kNoRegister, passes = !gated || s.y.v[i].i != 0;
    const bool gate_likely = gated && s.y.l[i] != 0;
    const auto index = static_cast<double>(s.x.v[i].i);
    const double reach = s.x.w[i], likely_reach = s.x.l[i];
    const double first = std::max(0.0, index - reach);
    const double last = std::min(static_cast<double>(m.size) - 1, index + reach);
    for (double e = first; e <= last; ++e) {
      const std::size_t at = static_cast<std::size_t>(e) * lane_count() + static_cast<std::size_t>(i);
      const bool taken = passes && e == index;
      const bool likely =
          (gate_likely || (passes && likely_reach != 0)) && std::fabs(e - index) <= likely_reach;
      const double apart = distance(panel.v[at], s.z.v[i], m.dtype.is_float());
      auto bound = [&](double held, double stored, bool either) {
        if (!either) return taken ? stored : held;
        return taken ? std::max(stored, apart + held) : std::max(held, apart + stored);
      };
      panel.l[at] = bound(panel.l[at], s.z.l[i], likely);
      panel.w[at] = bound(panel.w[at], s.z.w[i], true);
      if (!taken) continue;
      panel.v[at] = s.z.v[i];
      if (facts_.pairs) panel.low[at] = s.z.low[i];
    }
  }

  // The store of a requested position: nothing is written, its value is the result.
  void store(const LaneStep& s) {
    const MemorySlot& m = code_.memories[s.from->memory];
    for (int i = 0; i < s.n; ++i) {
      Sample& out = samples_[static_cast<std::size_t>(i)];
      out.slot = m.slot;
      out.element = s.x.v[i].i;
      out.written = s.from->b == kNoRegister || s.y.v[i].i != 0;
      out.value = s.z.v[i];
      // Of a pair the value has the upper part.
      const double rest = facts_.pairs ? std::fabs(s.z.low[i]) : 0;
      out.likely = s.z.l[i] + rest;
      out.worst = s.z.w[i] + rest;
      const bool gate_open = s.from->b != kNoRegister && s.y.l[i] != 0;
      out.open = !(out.likely < kOpen) || s.x.l[i] != 0 || gate_open;
      if (out.written && !out.open && (out.element < 0 || out.element >= m.size))
        fault(s, "store", out.element, m.size);
    }
  }

  static const Step kCopy;

  const Code& code_;
  std::span<const View> params_;
  LaneSplit split_;
  std::vector<const Position*> positions_;  // by lane
  std::span<const OpError> native_;
  int lanes_;
  double max_ops_;
  BoundedReport& report_;
  LaneFacts facts_;
  bool may_flush_;
  double coarse_;
  std::vector<Register> registers_;
  std::vector<double> zeros_;
  std::vector<Sample> samples_;
  Arena<Cell> cells_;
  Arena<double> doubles_;
  std::vector<Panel> panels_;
  std::vector<LaneStep> steps_;
  std::vector<std::size_t> loop_stack_;
  std::deque<Begin> begins_;
  std::vector<std::pair<std::uint32_t, SumPlanes>> sums_;
  const std::vector<char>* active_ = nullptr;
  std::vector<Cell> kept_cells_;
  std::vector<double> kept_;
  double whole_ = 1;
  double ops_ = 0;
};

const Step LaneMachine::kCopy = copy_of_all_lanes();

bool reads_own_results(const Step& s) {
  return s.act == Act::Load && s.node.arg(0).is(Op::After) && base_memory(s.node.arg(0)).is(Op::Param);
}

}  // namespace

std::string lane_refusal(const Code& code) {
  for (const MemorySlot& m : code.memories)
    if (m.kind == MemorySlot::Kind::Group) return "the threads of a group share memory";
  for (const Step& s : code.steps) {
    if (reads_own_results(s)) return "a nest reads what another nest of the kernel stores";
    if (s.lanes > 1) return "it holds vectors";
    switch (s.act) {
      case Act::Splat:
      case Act::HReduce:
      case Act::Pack:
      case Act::Dot: return "it holds vectors";
      case Act::Barrier:
      case Act::ThreadsBegin: return "its threads meet at barriers";
      default: break;
    }
  }
  return "";
}

double lane_cost(const Code& code) {
  double total = 0;
  std::vector<double> around = {1};
  for (const Step& s : code.steps) {
    if (s.act == Act::LoopBegin)
      around.push_back(around.back() * static_cast<double>(std::max<std::int64_t>(s.estimate, 0)));
    else if (s.act == Act::LoopEnd)
      around.pop_back();
    else
      total += around.back();
  }
  return total;
}

std::vector<Sample> run_lanes(const Code& code, std::span<const View> params, const Bindings& bindings,
                              std::span<const Position* const> positions, std::size_t lanes,
                              std::span<const OpError> native, double max_ops, BoundedReport& report) {
  LaneMachine machine(code, params, bindings, positions, lanes, native, max_ops, report);
  try {
    return machine.run();
  } catch (const TooLong&) {
    report.incomplete = true;
    report.reason = fmt::format("it takes more than {:.0f} operations", max_ops);
  }
  return {};
}

}  // namespace lathe::reference
