#include "reference/machine.h"

#include <algorithm>
#include <bit>
#include <deque>
#include <numeric>

#include <fmt/format.h>

#include "base/error.h"
#include "base/hash.h"
#include "ir/dot.h"
#include "ir/text.h"
#include "reference/arrivals.h"
#include "reference/checked_memory.h"
#include "reference/group_units.h"

namespace lathe::reference {
namespace {

constexpr double kPatience = 8;  // how many times max_ops a run that cannot be sampled may take

// A small generator of its own, so that a seed means the same order everywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(hash_mix(seed ^ 0x243f6a8885a308d3ull)) {}
  std::uint64_t next() { return hash_mix(state_ += 0x9e3779b97f4a7c15ull); }
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(n));
  }

 private:
  std::uint64_t state_;
};

// What a run costs: all of it, and with one position of each sampled nest.
struct Cost {
  double whole = 0, one = 0;
};
Cost cost_of(const Code& code) {
  Cost total;
  std::vector<std::pair<double, double>> around = {{1, 1}};
  for (const Step& s : code.steps) {
    auto [whole, one] = around.back();
    if (s.act == Act::LoopBegin) {
      auto n = static_cast<double>(std::max<std::int64_t>(s.estimate, 0));
      around.emplace_back(whole * n, s.sample_dim >= 0 ? one : one * n);
    } else if (s.act == Act::ThreadsBegin) {
      auto n = static_cast<double>(std::max<std::int64_t>(s.estimate, 1));
      around.emplace_back(whole * n, one * n);
    } else if (s.act == Act::LoopEnd || s.act == Act::ThreadsEnd) {
      around.pop_back();
    } else {
      total.whole += whole * s.lanes;
      total.one += one * s.lanes;
    }
  }
  return total;
}

struct OutOfPatience {};

class Machine : private CheckedMemory {
 public:
  Machine(const Code& code, std::span<const View> params, const EvalOptions& options, EvalReport& report)
      : CheckedMemory(code, report),
        options_(options),
        random_(options.seed),
        barriers_(*this, [this](std::int64_t n) { return random_.below(n); }) {
    for (const MemorySlot& m : code.memories) make_memory(m, params);
  }

  void run(const Bindings& bindings, std::int64_t samples) {
    samples_ = samples;
    Thread driver;
    driver.registers.assign(code.registers, Cell{});
    for (auto [r, value] : code.constants) driver.registers[r] = value;
    for (const auto& [r, name] : code.variables) {
      auto it =
          std::find_if(bindings.begin(), bindings.end(), [&](const auto& b) { return b.first == name; });
      if (it == bindings.end())
        throw UserError("reference", fmt::format("the variable {} has no value", name));
      driver.registers[r].i = it->second;
    }
    go(driver);
    if (!driver.finished && report.faults.empty())
      throw InternalError("reference", "threads are to meet outside of a group");
    report.ops = ops_;
    if (report.sampled) tell_written(params_slots());
  }

 private:
  void make_memory(const MemorySlot& m, std::span<const View> params) {
    if (m.kind == MemorySlot::Kind::Private) {
      memories.emplace_back(m.dtype, nullptr, 0);
      return;
    }
    if (m.kind == MemorySlot::Kind::Group) {
      storage_.emplace_back(static_cast<std::size_t>(m.size) * static_cast<std::size_t>(m.dtype.bytes()));
      memories.emplace_back(m.dtype, storage_.back().data(), m.size).watch_initialised();
      memories.back().watch_accesses();
      return;
    }
    auto slot = static_cast<std::size_t>(m.slot);
    if (slot >= params.size())
      throw UserError("reference", fmt::format("no memory was given for {}", m.name));
    const View& v = params[slot];
    if (v.size < m.size || v.dtype.element() != m.dtype.element())
      throw UserError("reference", fmt::format("{} needs {} elements of {}, was given {} of {}", m.name,
                                               m.size, m.dtype.element().str(), v.size, v.dtype.str()));
    WatchedMemory& memory = memories.emplace_back(m.dtype, v.data, m.size);
    if (!v.initialised) memory.watch_initialised();
    if (m.writes) memory.watch_accesses();
    if (m.writes && m.reads_first) memory.keep_first();
  }

  std::size_t params_slots() const {
    std::size_t n = 0;
    for (const MemorySlot& m : code.memories)
      if (m.kind == MemorySlot::Kind::Param) n = std::max(n, static_cast<std::size_t>(m.slot) + 1);
    return n;
  }

  void tell_written(std::size_t slots) {
    report.written.resize(slots);
    for (std::size_t k = 0; k < code.memories.size(); ++k) {
      const MemorySlot& m = code.memories[k];
      if (m.kind != MemorySlot::Kind::Param || !m.writes) continue;
      std::vector<bool>& out = report.written[static_cast<std::size_t>(m.slot)];
      out.resize(static_cast<std::size_t>(m.size));
      for (std::int64_t i = 0; i < m.size; ++i) out[static_cast<std::size_t>(i)] = memories[k].was_written(i);
    }
  }

  // ---- memory

  struct Place {
    std::int64_t index;
    bool open;  // the gate
  };
  static Place place(const Step& s, const Cell* r, int lane) {
    Cell gate = s.b == kNoRegister ? Cell{1} : r[s.b + (s.gate_lanes > 1 ? static_cast<unsigned>(lane) : 0u)];
    std::int64_t index = s.index_lanes > 1 ? r[s.a + static_cast<unsigned>(lane)].i : r[s.a].i + lane;
    return {index, gate.i != 0};
  }

  void load(const Step& s, Thread& t) {
    Cell* r = t.registers.data();
    WatchedMemory& m = memories[s.memory];
    for (int lane = 0; lane < s.lanes; ++lane) {
      Cell& out = r[s.dst + static_cast<unsigned>(lane)];
      Place p = place(s, r, lane);
      Cell zero{};
      if (!p.open || !in_bounds(s, p.index, m.size(), "load")) {
        out = zero;
        continue;
      }
      check_read(s, s.memory, p.index, t, "load");
      out = s.first ? m.read_first(p.index) : m.read(p.index);
    }
  }

  // ---- copies that arrive later

  void copy_async(const Step& s, Thread& t) {
    const Cell* r = t.registers.data();
    if (s.b != kNoRegister && r[s.b].i == 0) return;
    const auto source = static_cast<std::uint32_t>(s.id);
    for (int lane = 0; lane < s.lanes; ++lane) {
      const std::int64_t to = r[s.a].i + lane, from = r[s.c].i + lane;
      if (!in_bounds(s, to, memories[s.memory].size(), "copy")) continue;
      check_write(s, to, t, "copy");
      Cell value{};
      if (r[s.dst].i != 0) {
        if (from < 0 || from >= memories[source].size()) {
          fault(s, "out of bounds",
                fmt::format("copy of {} at {}, which has {} elements", code.memories[source].name, from,
                            memories[source].size()));
          continue;
        }
        check_read(s, source, from, t, "copy");
        value = memories[source].read(from);
      }
      memories[s.memory].set_in_flight(to, true);
      t.flights.push_back({s.memory, to, value, t.batch});
    }
  }
  void wait_copies(const Step& s, Thread& t) {
    const std::int64_t left = t.batch - s.jump;  // batches before it have arrived
    for (const Flight& f : t.flights) {
      if (f.batch >= left) continue;
      WatchedMemory& m = memories[f.memory];
      m.set_in_flight(f.index, false);
      if (m.note_write(f.index, t.agent)) conflict(s, f.memory, f.index, "copy", t);
      m.note_fences(f.index, t.fence_count());
      m.write(f.index, f.value);
    }
    std::erase_if(t.flights, [&](const Flight& f) { return f.batch < left; });
  }

  void store(const Step& s, Thread& t) {
    Cell* r = t.registers.data();
    WatchedMemory& m = memories[s.memory];
    for (int lane = 0; lane < s.lanes; ++lane) {
      Place p = place(s, r, lane);
      if (!p.open || !in_bounds(s, p.index, m.size(), "store")) continue;
      check_write(s, p.index, t, "store");
      m.write(p.index, r[s.c + static_cast<unsigned>(lane)]);
    }
  }

  void private_load(const Step& s, Thread& t) {
    Cell* r = t.registers.data();
    const MemorySlot& m = code.memories[s.memory];
    for (int lane = 0; lane < s.lanes; ++lane) {
      Cell& out = r[s.dst + static_cast<unsigned>(lane)];
      Place p = place(s, r, lane);
      if (!p.open || !in_bounds(s, p.index, m.size, "load")) {
        out = Cell{};
        continue;
      }
      if (r[m.base + m.size + p.index].i == 0)
        fault(s, "uninitialised read", fmt::format("load of {} at {}", m.name, p.index));
      out = r[m.base + p.index];
    }
  }

  void private_store(const Step& s, Thread& t) {
    Cell* r = t.registers.data();
    const MemorySlot& m = code.memories[s.memory];
    for (int lane = 0; lane < s.lanes; ++lane) {
      Place p = place(s, r, lane);
      if (!p.open || !in_bounds(s, p.index, m.size, "store")) continue;
      r[m.base + p.index] = r[s.c + static_cast<unsigned>(lane)];
      r[m.base + m.size + p.index].i = 1;
    }
  }

  void forget(const Step& s, Thread& t) {
    const MemorySlot& m = code.memories[s.memory];
    if (m.kind == MemorySlot::Kind::Private)
      std::fill_n(t.registers.begin() + static_cast<std::ptrdiff_t>(m.base + m.size), m.size, Cell{});
    else
      memories[s.memory].forget();
  }

  // ---- loops: an unordered one visits (multiplier * counter + offset) mod n, a permutation where they share
  // no factor

  std::int64_t sample_value(std::int64_t sample, int dim, std::int64_t extent) const {
    if (sample == 0) return 0;
    if (sample == 1) return extent - 1;
    // Where tiles of the usual sizes begin and end, if the axis is that long.
    constexpr std::int64_t kEdges[] = {7, 8, 15, 16, 31, 32, 63, 64, 127, 128};
    auto edge = static_cast<std::size_t>(sample - 2);
    if (edge < std::size(kEdges) &&
        kEdges[(edge + static_cast<std::size_t>(dim)) % std::size(kEdges)] < extent)
      return kEdges[(edge + static_cast<std::size_t>(dim)) % std::size(kEdges)];
    std::uint64_t h = hash_combine(hash_combine(hash_mix(options_.seed), static_cast<std::uint64_t>(sample)),
                                   static_cast<std::uint64_t>(dim));
    return static_cast<std::int64_t>(h % static_cast<std::uint64_t>(extent));
  }

  void set_index(const Step& s, Thread& t) {
    Cell* r = t.registers.data();
    Cell* state = r + s.memory;
    std::int64_t n = r[s.a].i, counter = state[0].i;
    if (s.sample_dim >= 0 && sampling_) {
      if (s.sample_dim == 0) sample_ = counter;
      r[s.dst].i = sample_value(sample_, s.sample_dim, n);
    } else if (!s.shuffled) {
      r[s.dst].i = counter;
      return;
    } else {
      __extension__ using Wide = __int128;
      r[s.dst].i = static_cast<std::int64_t>((static_cast<Wide>(state[2].i) * counter + state[3].i) % n);
    }
    if (s.id < 0) return;
    std::uint64_t h =
        hash_combine(hash_combine(static_cast<std::uint64_t>(state[4].i), static_cast<std::uint64_t>(s.id)),
                     static_cast<std::uint64_t>(r[s.dst].i));
    t.agent.group = static_cast<std::uint32_t>(h) | 1u;
  }

  bool begin_loop(const Step& s, Thread& t) {
    Cell* r = t.registers.data();
    Cell* state = r + s.memory;
    std::int64_t n = r[s.a].i;
    if (n <= 0) return false;
    if (s.sample_dim == 0) {
      sampling_ = samples_ > 0 && s.combinations > static_cast<double>(samples_);
      report.sampled = report.sampled || sampling_;
    }
    state[0].i = 0;
    state[1].i = n;
    if (s.sample_dim >= 0 && sampling_) state[1].i = s.sample_dim == 0 ? samples_ : 1;
    if (s.shuffled) {
      std::int64_t factor = 1 + random_.below(n);
      while (std::gcd(factor, n) != 1) factor = 1 + random_.below(n);
      state[2].i = factor;
      state[3].i = random_.below(n);
    }
    state[4].i = t.agent.group;
    set_index(s, t);
    return true;
  }

  // True if there is another iteration.
  bool next_iteration(const Step& begin, Thread& t) {
    Cell* state = t.registers.data() + begin.memory;
    if (++state[0].i < state[1].i) {
      set_index(begin, t);
      return true;
    }
    t.agent.group = static_cast<std::uint32_t>(state[4].i);
    if (begin.sample_dim == 0) sampling_ = false;
    return false;
  }

  // ---- packed words

  static void pack(const Step& s, Cell* r) {
    const int bits = 32 / s.jump;
    const DType code = bits == 8 ? dtypes::UInt8 : bits == 16 ? dtypes::UInt16 : dtypes::UInt32;
    for (unsigned l = 0; l < s.lanes; ++l) {
      std::uint32_t word = 0;
      for (int p = 0; p < s.jump; ++p) {
        const Cell part = r[s.a + l * static_cast<unsigned>(s.jump) + static_cast<unsigned>(p)];
        const Element bits_of = reinterpret(code, s.from, element_of_cell(s.from, part));
        word |= static_cast<std::uint32_t>(bits_of.i) << (p * bits);
      }
      r[s.dst + l].i = word;
    }
  }
  // Words of floats, summed in float64.
  static double wide_products(const DotKind& kind, std::uint32_t x, std::uint32_t y, double sum) {
    for (int i = kind.parts; i-- > 0;) sum += dot_part(kind, kind.x, x, i) * dot_part(kind, kind.y, y, i);
    return sum;
  }
  static void tile(const Step& s, Cell* r, const DotKind& kind, const DotShape& shape) {
    const auto rows = static_cast<unsigned>(shape.m), columns = static_cast<unsigned>(shape.n),
               words = static_cast<unsigned>(shape.k);
    for (unsigned m = 0; m < rows; ++m)
      for (unsigned n = 0; n < columns; ++n) {
        const Element sum = element_of_cell(DType(kind.sum), r[s.c + m * columns + n]);
        Element total = sum;
        std::vector<std::uint32_t> x(words), y(words);
        for (unsigned k = 0; k < words; ++k) {
          x[k] = static_cast<std::uint32_t>(r[s.a + m * words + k].i);
          y[k] = static_cast<std::uint32_t>(r[s.b + k * columns + n].i);
          if (s.wide && kind.sum == Scalar::Float32) total.f = wide_products(kind, x[k], y[k], total.f);
        }
        if (!s.wide || kind.sum != Scalar::Float32) total = dot_row_value(kind, x, y, sum);
        r[s.dst + m * columns + n] = cell_of(DType(kind.sum), total);
      }
  }
  static void dot(const Step& s, Cell* r) {
    const DotKind& kind = dot_kind(s.node);
    if (const DotShape shape = dot_shape(s.node); shape.is_tile()) return tile(s, r, kind, shape);
    for (unsigned l = 0; l < s.lanes; ++l) {
      const auto x = static_cast<std::uint32_t>(r[s.a + l].i), y = static_cast<std::uint32_t>(r[s.b + l].i);
      const Element sum = element_of_cell(DType(kind.sum), r[s.c + l]);
      const bool wide = s.wide && kind.sum == Scalar::Float32;
      r[s.dst + l] = cell_of(
          DType(kind.sum), wide ? Element{0, wide_products(kind, x, y, sum.f)} : dot_value(kind, x, y, sum));
    }
  }

  void look_outside(const Step& s, const Cell* r) {
    for (unsigned l = 0; l < s.lanes; ++l) report.index_fault |= r[s.dst + l].i < 0 && r[s.c + l].i != 0;
  }

  // ---- running

  // Runs until a barrier, the end of the group's steps, or the end of all.
  void go(Thread& t) {
    for (;;) {
      const Step& s = code.steps[t.at];
      Cell* r = t.registers.data();
      switch (s.act) {
        case Act::Scalar:
          s.fn(r + s.dst, r + s.a, r + s.b, r + s.c, s.lanes);
          if (s.checks) look_outside(s, r);
          break;
        case Act::Convert:
          for (unsigned l = 0; l < s.lanes; ++l)
            r[s.dst + l] = cell_of(s.to, convert(s.to, s.from, element_of_cell(s.from, r[s.a + l])));
          break;
        case Act::Bits:
          for (unsigned l = 0; l < s.lanes; ++l)
            r[s.dst + l] = cell_of(s.to, reinterpret(s.to, s.from, element_of_cell(s.from, r[s.a + l])));
          break;
        case Act::Copy: std::copy_n(r + s.a, s.lanes, r + s.dst); break;
        case Act::Splat: std::fill_n(r + s.dst, s.lanes, r[s.a]); break;
        case Act::HReduce:
          scratch_.resize(s.lanes);
          r[s.dst] = reduce_lanes(s.fn, r + s.a, s.lanes, scratch_.data());
          break;
        case Act::Pack: pack(s, r); break;
        case Act::Dot: dot(s, r); break;
        case Act::Load: load(s, t); break;
        case Act::Store: store(s, t); break;
        case Act::PrivateLoad: private_load(s, t); break;
        case Act::PrivateStore: private_store(s, t); break;
        case Act::LoopBegin:
          if (!begin_loop(s, t)) t.at += static_cast<std::size_t>(s.jump);
          break;
        case Act::LoopEnd:
          count(static_cast<double>(s.jump));
          if (next_iteration(code.steps[t.at - static_cast<std::size_t>(s.jump)], t))
            t.at -= static_cast<std::size_t>(s.jump);
          break;
        case Act::If:
          if (r[s.a].i == 0) t.at += static_cast<std::size_t>(s.jump);
          break;
        case Act::CopyAsync: copy_async(s, t); break;
        case Act::CommitCopies: ++t.batch; break;
        case Act::WaitCopies: wait_copies(s, t); break;
        case Act::ProxyFence: t.fences.push_back(t.agent.epoch); break;
        case Act::BeginArrivals: barriers_.begin(s, t); break;
        case Act::ArriveBytes: barriers_.arrive(s, t); break;
        case Act::BulkCopy: barriers_.copy(s, t); break;
        case Act::AwaitArrivals:
          t.waits = !barriers_.await(s, t);
          if (t.waits) return;
          moved_ = true;
          break;
        case Act::WaitProducts: wait_products(s, t); break;
        case Act::GroupDot:
        case Act::Matrices:
        case Act::PanelDot:
        case Act::Exchange:
        case Act::Barrier: ++t.at; return;
        case Act::ThreadsBegin:
          run_group(s, t);
          t.at += static_cast<std::size_t>(s.jump);
          break;
        case Act::Forget: forget(s, t); break;
        case Act::ReduceEnd: break;
        case Act::ThreadsEnd:
        case Act::Halt: t.finished = true; return;
      }
      ++t.at;
    }
  }

  void count(double steps) {
    ops_ += steps;
    if (ops_ > options_.max_ops * kPatience) throw OutOfPatience{};
  }

  void run_group(const Step& s, Thread& driver) {
    const ThreadDims& dims = code.threads[s.memory];
    std::int64_t total = 1;
    for (std::uint32_t e : dims.extent) total *= std::max<std::int64_t>(driver.registers[e].i, 0);
    for (std::size_t k = 0; k < memories.size(); ++k)
      if (code.memories[k].kind == MemorySlot::Kind::Group) memories[k].forget();
    barriers_.forget();
    group.resize(static_cast<std::size_t>(total));
    for (std::int64_t i = 0; i < total; ++i) {
      Thread& t = group[static_cast<std::size_t>(i)];
      t.registers = driver.registers;
      t.at = driver.at + 1;
      t.finished = false;
      t.agent = driver.agent;
      t.agent.thread = static_cast<std::uint16_t>(i);
      t.agent.epoch = 0;
      t.flights.clear();
      t.in_products.clear();
      t.batch = 0;
      t.fences.clear();
      t.phases.clear();
      t.arrivals = 0;
      t.known.clear();
      t.waits = false;
      std::int64_t rest = i;
      for (std::size_t d = dims.index.size(); d-- > 0;) {
        std::int64_t n = driver.registers[dims.extent[d]].i;
        t.registers[dims.index[d]].i = rest % n;
        rest /= n;
      }
    }
    std::vector<std::size_t> order(group.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    stuck_ = false;
    for (std::size_t k : shuffled(order)) go(group[k]);
    while (!order.empty()) {
      // Threads that wait go on when others have arrived, warps when all of their threads are there.
      if (arrived(order) || (warps_met() && !stuck_)) continue;
      if (stuck_ || !all_met(s, order)) return;
      std::erase_if(order, [&](std::size_t k) { return group[k].finished; });
      for (std::size_t k : order) ++group[k].agent.epoch;
      barriers_.met(group);
      for (std::size_t k : shuffled(order)) go(group[k]);
    }
  }

  std::vector<std::size_t> shuffled(std::vector<std::size_t> order) {
    for (std::size_t k = order.size(); k > 1; --k)
      std::swap(order[k - 1], order[static_cast<std::size_t>(random_.below(static_cast<std::int64_t>(k)))]);
    return order;
  }

  // Whether a thread that waited for arrivals could go on.
  bool arrived(const std::vector<std::size_t>& order) {
    moved_ = false;
    for (std::size_t k : order)
      if (group[k].waits) go(group[k]);
    return moved_;
  }

  // Whether all threads of some warps stood at a step that they take together; then it is taken.
  bool warps_met() {
    bool any = false;
    for (std::size_t first = 0; first < group.size();) {
      const Thread& head = group[first];
      const bool stands = !head.finished && !head.waits;
      const Step& step = code.steps[stands ? head.at - 1 : 0];
      const std::size_t together = stands ? threads_together(step) : 0;
      bool all = together > 0 && first % together == 0 && first + together <= group.size();
      for (std::size_t i = 0; all && i < together; ++i)
        all = !group[first + i].finished && !group[first + i].waits && group[first + i].at == head.at;
      if (!all) {
        ++first;
        continue;
      }
      if (stuck_ = !run_together(step, first, *this); stuck_) return true;
      std::vector<std::size_t> threads(together);
      std::iota(threads.begin(), threads.end(), first);
      for (std::size_t k : shuffled(threads)) go(group[k]);
      any = true;
      first += together;
    }
    return any;
  }

  // The unit has read the panels of a product when the wait for it is over, not before.
  void wait_products(const Step& s, Thread& t) {
    const auto left = static_cast<std::size_t>(s.node.int_attr());
    while (t.in_products.size() > left) {
      for (const auto& [memory, index] : t.in_products.front()) check_unit_read(s, memory, index, t);
      t.in_products.erase(t.in_products.begin());
    }
    std::copy_n(t.registers.begin() + s.a, s.lanes, t.registers.begin() + s.dst);
  }

  // Whether all threads of the group stopped at the same place: a barrier, or the end. Those that waited for
  // others have been seen to.
  bool all_met(const Step& begin, const std::vector<std::size_t>& order) {
    const Thread& first = group[order[0]];
    for (std::size_t k : order) {
      const Thread& t = group[k];
      if (t.waits) {
        fault(code.steps[t.at], "nothing arrives",
              fmt::format("thread {} waits for a phase that does not end", t.agent.thread));
        return false;
      }
      if (t.finished || threads_together(code.steps[t.at - 1]) == 0) continue;
      fault(code.steps[t.at - 1], "a part of a warp",
            fmt::format("thread {} is there, others of its warp are not", t.agent.thread));
      return false;
    }
    for (std::size_t k : order) {
      const Thread& t = group[k];
      if (t.finished == first.finished && t.at == first.at) continue;
      const Thread& waiting = t.finished ? first : t;
      const Thread& other = t.finished ? t : first;
      const Step& barrier = code.steps[waiting.at - 1];
      fault(barrier.node ? barrier : begin, "divergent barrier",
            fmt::format("thread {} waits while thread {} {}", waiting.agent.thread, other.agent.thread,
                        other.finished ? "has finished" : "waits at another barrier"));
      return false;
    }
    return true;
  }

  const EvalOptions& options_;
  Random random_;
  ArrivalBarriers barriers_;
  std::deque<std::vector<std::byte>> storage_;
  std::vector<Cell> scratch_;
  std::int64_t samples_ = 0, sample_ = 0;
  bool sampling_ = false;
  bool moved_ = false;  // a thread found that what it waited for has arrived
  bool stuck_ = false;  // a step that threads take together could not be taken
  double ops_ = 0;
};

}  // namespace

EvalReport run_code(const Code& code, std::span<const View> params, const Bindings& bindings,
                    const EvalOptions& options) {
  EvalReport report;
  Cost cost = cost_of(code);
  std::int64_t samples = 0;
  if (cost.whole > options.max_ops)
    samples = std::max<std::int64_t>(2, static_cast<std::int64_t>(options.max_ops / std::max(cost.one, 1.0)));
  if (samples > 0 && cost.one * 2 > options.max_ops * kPatience) {
    report.incomplete = true;
    return report;
  }
  Machine machine(code, params, options, report);
  try {
    machine.run(bindings, samples);
  } catch (const OutOfPatience&) {
    report.incomplete = true;
  }
  return report;
}

}  // namespace lathe::reference
