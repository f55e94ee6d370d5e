#include "reference/machine.h"

#include <algorithm>
#include <bit>
#include <deque>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "base/hash.h"
#include "ir/dot.h"
#include "ir/group_ops.h"
#include "ir/text.h"
#include "reference/memory.h"

namespace lathe::reference {
namespace {

constexpr std::size_t kMaxFaults = 16;
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

// A copy that has not arrived.
struct Flight {
  std::uint32_t memory = 0;
  std::int64_t index = 0;
  Cell value{};
  std::int64_t batch = 0;
};

struct Thread {
  std::vector<Cell> registers;
  std::size_t at = 0;
  Agent agent;
  bool finished = false;
  std::vector<Flight> flights;
  std::int64_t batch = 0;                     // of the copies it makes now
  std::uint32_t fences = 0, fence_epoch = 0;  // that it passed, and when the last one was
  // Elements that products may still read, for each of them.
  std::vector<std::vector<std::pair<std::uint32_t, std::int64_t>>> in_products;
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

class Machine {
 public:
  Machine(const Code& code, std::span<const View> params, const EvalOptions& options, EvalReport& report)
      : code_(code), options_(options), report_(report), random_(options.seed) {
    for (const MemorySlot& m : code.memories) make_memory(m, params);
  }

  void run(const Bindings& bindings, std::int64_t samples) {
    samples_ = samples;
    Thread driver;
    driver.registers.assign(code_.registers, Cell{});
    for (auto [r, value] : code_.constants) driver.registers[r] = value;
    for (const auto& [r, name] : code_.variables) {
      auto it =
          std::find_if(bindings.begin(), bindings.end(), [&](const auto& b) { return b.first == name; });
      if (it == bindings.end())
        throw UserError("reference", fmt::format("the variable {} has no value", name));
      driver.registers[r].i = it->second;
    }
    go(driver);
    report_.ops = ops_;
    if (report_.sampled) tell_written(params_slots());
  }

 private:
  void make_memory(const MemorySlot& m, std::span<const View> params) {
    if (m.kind == MemorySlot::Kind::Private) {
      memories_.emplace_back(m.dtype, nullptr, 0);
      return;
    }
    if (m.kind == MemorySlot::Kind::Group) {
      storage_.emplace_back(static_cast<std::size_t>(m.size) * static_cast<std::size_t>(m.dtype.bytes()));
      memories_.emplace_back(m.dtype, storage_.back().data(), m.size).watch_initialised();
      memories_.back().watch_accesses();
      return;
    }
    auto slot = static_cast<std::size_t>(m.slot);
    if (slot >= params.size())
      throw UserError("reference", fmt::format("no memory was given for {}", m.name));
    const View& v = params[slot];
    if (v.size < m.size || v.dtype.element() != m.dtype.element())
      throw UserError("reference", fmt::format("{} needs {} elements of {}, was given {} of {}", m.name,
                                               m.size, m.dtype.element().str(), v.size, v.dtype.str()));
    WatchedMemory& memory = memories_.emplace_back(m.dtype, v.data, m.size);
    if (!v.initialised) memory.watch_initialised();
    if (m.writes) memory.watch_accesses();
    if (m.writes && m.reads_first) memory.keep_first();
  }

  std::size_t params_slots() const {
    std::size_t n = 0;
    for (const MemorySlot& m : code_.memories)
      if (m.kind == MemorySlot::Kind::Param) n = std::max(n, static_cast<std::size_t>(m.slot) + 1);
    return n;
  }

  void tell_written(std::size_t slots) {
    report_.written.resize(slots);
    for (std::size_t k = 0; k < code_.memories.size(); ++k) {
      const MemorySlot& m = code_.memories[k];
      if (m.kind != MemorySlot::Kind::Param || !m.writes) continue;
      std::vector<bool>& out = report_.written[static_cast<std::size_t>(m.slot)];
      out.resize(static_cast<std::size_t>(m.size));
      for (std::int64_t i = 0; i < m.size; ++i)
        out[static_cast<std::size_t>(i)] = memories_[k].was_written(i);
    }
  }

  // One fault a step and kind: the first says enough.
  void fault(const Step& step, const char* kind, const std::string& detail) {
    if (report_.faults.size() >= kMaxFaults || !told_.insert({&step, kind}).second) return;
    report_.faults.push_back(
        fmt::format("{}: {}{}", kind, detail, step.node ? " in " + print_node(step.node) : ""));
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

  bool in_bounds(const Step& s, std::int64_t index, std::int64_t size, const char* what) {
    if (index >= 0 && index < size) return true;
    fault(s, "out of bounds",
          fmt::format("{} of {} at {}, which has {} elements", what, code_.memories[s.memory].name, index,
                      size));
    return false;
  }

  void load(const Step& s, Thread& t) {
    Cell* r = t.registers.data();
    WatchedMemory& m = memories_[s.memory];
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

  void check_read(const Step& s, std::uint32_t memory, std::int64_t index, const Thread& t,
                  const char* what) {
    WatchedMemory& m = memories_[memory];
    if (m.is_in_flight(index))
      fault(s, "read before arrival",
            fmt::format("{} of {} at {}", what, code_.memories[memory].name, index));
    else if (!m.is_set(index))
      fault(s, "uninitialised read", fmt::format("{} of {} at {}", what, code_.memories[memory].name, index));
    if (m.note_read(index, t.agent)) conflict(s, memory, index, what, t);
  }
  void check_write(const Step& s, std::int64_t index, Thread& t, const char* what) {
    WatchedMemory& m = memories_[s.memory];
    if (m.is_in_flight(index))
      fault(s, "write before arrival",
            fmt::format("{} to {} at {}", what, code_.memories[s.memory].name, index));
    if (m.note_write(index, t.agent) && !code_.memories[s.memory].is_fault_cell)
      conflict(s, s.memory, index, what, t);
    if (code_.memories[s.memory].kind == MemorySlot::Kind::Group) m.note_fences(index, t.fences);
  }

  // ---- copies that arrive later

  void copy_async(const Step& s, Thread& t) {
    const Cell* r = t.registers.data();
    if (s.b != kNoRegister && r[s.b].i == 0) return;
    const auto source = static_cast<std::uint32_t>(s.id);
    for (int lane = 0; lane < s.lanes; ++lane) {
      const std::int64_t to = r[s.a].i + lane, from = r[s.c].i + lane;
      if (!in_bounds(s, to, memories_[s.memory].size(), "copy")) continue;
      check_write(s, to, t, "copy");
      Cell value{};
      if (r[s.dst].i != 0) {
        if (from < 0 || from >= memories_[source].size()) {
          fault(s, "out of bounds",
                fmt::format("copy of {} at {}, which has {} elements", code_.memories[source].name, from,
                            memories_[source].size()));
          continue;
        }
        check_read(s, source, from, t, "copy");
        value = memories_[source].read(from);
      }
      memories_[s.memory].set_in_flight(to, true);
      t.flights.push_back({s.memory, to, value, t.batch});
    }
  }
  void wait_copies(const Step& s, Thread& t) {
    const std::int64_t left = t.batch - s.jump;  // batches before it have arrived
    for (const Flight& f : t.flights) {
      if (f.batch >= left) continue;
      WatchedMemory& m = memories_[f.memory];
      m.set_in_flight(f.index, false);
      if (m.note_write(f.index, t.agent)) conflict(s, f.memory, f.index, "copy", t);
      m.note_fences(f.index, t.fences);
      m.write(f.index, f.value);
    }
    std::erase_if(t.flights, [&](const Flight& f) { return f.batch < left; });
  }

  void store(const Step& s, Thread& t) {
    Cell* r = t.registers.data();
    WatchedMemory& m = memories_[s.memory];
    for (int lane = 0; lane < s.lanes; ++lane) {
      Place p = place(s, r, lane);
      if (!p.open || !in_bounds(s, p.index, m.size(), "store")) continue;
      check_write(s, p.index, t, "store");
      m.write(p.index, r[s.c + static_cast<unsigned>(lane)]);
    }
  }

  void conflict(const Step& s, std::uint32_t memory, std::int64_t index, const char* what, const Thread& t) {
    fault(s, "race",
          fmt::format("{} of {} at {} by thread {} with no order to another's access", what,
                      code_.memories[memory].name, index, t.agent.thread));
  }

  void private_load(const Step& s, Thread& t) {
    Cell* r = t.registers.data();
    const MemorySlot& m = code_.memories[s.memory];
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
    const MemorySlot& m = code_.memories[s.memory];
    for (int lane = 0; lane < s.lanes; ++lane) {
      Place p = place(s, r, lane);
      if (!p.open || !in_bounds(s, p.index, m.size, "store")) continue;
      r[m.base + p.index] = r[s.c + static_cast<unsigned>(lane)];
      r[m.base + m.size + p.index].i = 1;
    }
  }

  void forget(const Step& s, Thread& t) {
    const MemorySlot& m = code_.memories[s.memory];
    if (m.kind == MemorySlot::Kind::Private)
      std::fill_n(t.registers.begin() + static_cast<std::ptrdiff_t>(m.base + m.size), m.size, Cell{});
    else
      memories_[s.memory].forget();
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
      report_.sampled = report_.sampled || sampling_;
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
    const DType code = bits == 8 ? dtypes::UInt8 : dtypes::UInt16;
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
  // Words of two floats each, summed in float64.
  static double wide_products(std::uint32_t x, std::uint32_t y, double sum) {
    auto part = [](std::uint32_t word) { return static_cast<double>(std::bit_cast<float>(word)); };
    return sum + part(x & 0xffff0000) * part(y & 0xffff0000) + part(x << 16) * part(y << 16);
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
          if (s.wide) total.f = wide_products(x[k], y[k], total.f);
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
      r[s.dst + l] = cell_of(DType(kind.sum),
                             wide ? Element{0, wide_products(x, y, sum.f)} : dot_value(kind, x, y, sum));
    }
  }

  // ---- running

  // Runs until a barrier, the end of the group's steps, or the end of all.
  void go(Thread& t) {
    for (;;) {
      const Step& s = code_.steps[t.at];
      Cell* r = t.registers.data();
      switch (s.act) {
        case Act::Scalar: s.fn(r + s.dst, r + s.a, r + s.b, r + s.c, s.lanes); break;
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
          if (next_iteration(code_.steps[t.at - static_cast<std::size_t>(s.jump)], t))
            t.at -= static_cast<std::size_t>(s.jump);
          break;
        case Act::If:
          if (r[s.a].i == 0) t.at += static_cast<std::size_t>(s.jump);
          break;
        case Act::CopyAsync: copy_async(s, t); break;
        case Act::CommitCopies: ++t.batch; break;
        case Act::WaitCopies: wait_copies(s, t); break;
        case Act::ProxyFence: ++t.fences, t.fence_epoch = t.agent.epoch; break;
        case Act::WaitProducts: wait_products(s, t); break;
        case Act::GroupDot:
        case Act::Matrices:
        case Act::PanelDot:
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
    const ThreadDims& dims = code_.threads[s.memory];
    std::int64_t total = 1;
    for (std::uint32_t e : dims.extent) total *= std::max<std::int64_t>(driver.registers[e].i, 0);
    for (std::size_t k = 0; k < memories_.size(); ++k)
      if (code_.memories[k].kind == MemorySlot::Kind::Group) memories_[k].forget();
    group_.resize(static_cast<std::size_t>(total));
    for (std::int64_t i = 0; i < total; ++i) {
      Thread& t = group_[static_cast<std::size_t>(i)];
      t.registers = driver.registers;
      t.at = driver.at + 1;
      t.finished = false;
      t.agent = driver.agent;
      t.agent.thread = static_cast<std::uint16_t>(i);
      t.agent.epoch = 0;
      t.flights.clear();
      t.in_products.clear();
      t.batch = 0;
      t.fences = t.fence_epoch = 0;
      std::int64_t rest = i;
      for (std::size_t d = dims.index.size(); d-- > 0;) {
        std::int64_t n = driver.registers[dims.extent[d]].i;
        t.registers[dims.index[d]].i = rest % n;
        rest /= n;
      }
    }
    std::vector<std::size_t> order(group_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    while (!order.empty()) {
      for (std::size_t k = order.size(); k > 1; --k)
        std::swap(order[k - 1], order[static_cast<std::size_t>(random_.below(static_cast<std::int64_t>(k)))]);
      for (std::size_t k : order) go(group_[k]);
      if (!all_met(s, order)) return;
      const Step& met = code_.steps[group_[order[0]].at - 1];
      if (!group_[order[0]].finished && met.act != Act::Barrier) {
        const bool done = met.act == Act::GroupDot   ? group_dot(met, order.size())
                          : met.act == Act::Matrices ? matrices(met, order.size())
                                                     : panel_dot(met, order.size());
        if (!done) return;
        continue;  // no thread has waited for another's memory
      }
      std::erase_if(order, [&](std::size_t k) { return group_[k].finished; });
      for (std::size_t k : order) ++group_[k].agent.epoch;
    }
  }

  // The shares of every 32 threads (ir/dot.h) are put together, multiplied and shared out again.
  bool group_dot(const Step& s, std::size_t threads) {
    const DotKind& kind = dot_kind(s.node);
    const DotShape shape = dot_shape(s.node);
    const auto warp = static_cast<std::size_t>(shape.threads);
    if (threads % warp != 0 || threads != group_.size()) {
      fault(s, "product of a part of a warp", fmt::format("{} threads meet for it", threads));
      return false;
    }
    std::vector<std::uint32_t> x(8), y(8);
    for (std::size_t first = 0; first < threads; first += warp)
      for (std::size_t lane = 0; lane < warp; ++lane)
        for (unsigned i = 0; i < 4; ++i) {
          Cell* own = group_[first + lane].registers.data();
          const std::size_t row = lane / 4, high = i / 2, column = lane % 4 * 2 + i % 2;
          for (unsigned k = 0; k < 8; ++k) {
            x[k] = static_cast<std::uint32_t>(
                group_[first + row * 4 + k % 4].registers[s.a + (k / 4) * 2 + high].i);
            y[k] = static_cast<std::uint32_t>(group_[first + column * 4 + k % 4].registers[s.b + k / 4].i);
          }
          const Element sum = element_of_cell(DType(kind.sum), own[s.c + i]);
          own[s.dst + i] = cell_of(DType(kind.sum), dot_row_value(kind, x, y, sum));
        }
    return true;
  }

  bool whole_warps(const Step& s, std::size_t threads, std::size_t together) {
    if (threads % together == 0 && threads == group_.size()) return true;
    fault(s, "a part of a warp", fmt::format("{} threads meet", threads));
    return false;
  }
  std::uint32_t bits_at(std::uint32_t memory, std::int64_t index) const {
    const DType dtype = code_.memories[memory].dtype;
    return static_cast<std::uint32_t>(
        reinterpret(dtypes::UInt16, dtype, element_of_cell(dtype, memories_[memory].read(index))).i);
  }

  // Rows of 8 numbers that the lanes of each warp name, shared out in words (ir/group_ops.h).
  bool matrices(const Step& s, std::size_t threads) {
    constexpr std::size_t kWarp = 32, kSide = 8;
    if (!whole_warps(s, threads, kWarp)) return false;
    const auto count = static_cast<std::size_t>(s.node.ints()[0]);
    const bool transposed = s.node.ints()[1] != 0;
    for (std::size_t first = 0; first < threads; first += kWarp) {
      std::uint32_t numbers[4][kSide][kSide] = {};
      for (std::size_t i = 0; i < count; ++i)
        for (std::size_t row = 0; row < kSide; ++row) {
          const Thread& t = group_[first + i * kSide + row];
          const std::int64_t at = t.registers[s.a].i;
          if (at % static_cast<std::int64_t>(kSide) != 0)
            fault(s, "misaligned read", fmt::format("a row of a matrix at {}", at));
          for (std::size_t c = 0; c < kSide; ++c) {
            const std::int64_t index = at + static_cast<std::int64_t>(c);
            if (!in_bounds(s, index, memories_[s.memory].size(), "matrix")) continue;
            check_read(s, s.memory, index, t, "matrix");
            numbers[i][row][c] = bits_at(s.memory, index);
          }
        }
      for (std::size_t lane = 0; lane < kWarp; ++lane)
        for (std::size_t i = 0; i < count; ++i) {
          const std::size_t x = lane / 4, y = lane % 4 * 2;
          const std::uint32_t low = transposed ? numbers[i][y][x] : numbers[i][x][y],
                              high = transposed ? numbers[i][y + 1][x] : numbers[i][x][y + 1];
          group_[first + lane].registers[s.dst + i].i = static_cast<std::int64_t>(high << 16 | low);
        }
    }
    return true;
  }

  // The words of a panel, output by output.
  std::vector<std::uint32_t> panel_words(const Step& s, std::uint32_t memory, std::int64_t at,
                                         const PanelOperand& operand, int outputs, int words, Thread& t) {
    std::vector<std::uint32_t> out;
    for (int output = 0; output < outputs; ++output)
      for (int word = 0; word < words; ++word) {
        std::uint32_t bits = 0;
        for (int part = 0; part < 2; ++part) {
          const std::int64_t index = at + operand.place(output, 2 * word + part);
          if (!in_bounds(s, index, memories_[memory].size(), "product")) continue;
          check_read(s, memory, index, t, "product");
          const WatchedMemory::LastWrite writer = memories_[memory].last_write(index);
          const Thread& wrote = group_[writer.thread];
          const bool fenced = wrote.fences > writer.fences && wrote.fence_epoch < t.agent.epoch;
          if (code_.has_fences && !fenced)
            fault(s, "missing proxy fence",
                  fmt::format("product of {} at {}, written by thread {}", code_.memories[memory].name, index,
                              writer.thread));
          t.in_products.back().emplace_back(memory, index);
          bits |= bits_at(memory, index) << (16 * part);
        }
        out.push_back(bits);
      }
    return out;
  }
  // A product of panels for each warpgroup; the first thread stands for what all of them read.
  bool panel_dot(const Step& s, std::size_t threads) {
    const DotKind& kind = dot_kind(s.node);
    const PanelShape shape = panel_shape(s.node);
    const auto together = static_cast<std::size_t>(shape.threads), step = std::size_t{8};
    if (!whole_warps(s, threads, together)) return false;
    const auto words = static_cast<std::size_t>(shape.k);
    for (std::size_t first = 0; first < threads; first += together) {
      Thread& head = group_[first];
      head.in_products.emplace_back();
      for (std::size_t i = 1; i < together; ++i)
        if (group_[first + i].registers[s.a].i != head.registers[s.a].i ||
            group_[first + i].registers[s.b].i != head.registers[s.b].i)
          fault(s, "different panels", fmt::format("of threads {} and {}", first, first + i));
      const std::vector<std::uint32_t> x =
          panel_words(s, s.memory, head.registers[s.a].i, shape.x, shape.m, shape.k, head);
      const std::vector<std::uint32_t> y = panel_words(
          s, static_cast<std::uint32_t>(s.id), head.registers[s.b].i, shape.y, shape.n, shape.k, head);
      if (x.size() != words * static_cast<std::size_t>(shape.m) ||
          y.size() != words * static_cast<std::size_t>(shape.n))
        return false;
      for (std::size_t lane = 0; lane < together; ++lane) {
        Cell* own = group_[first + lane].registers.data();
        for (std::uint32_t i = 0; i < s.lanes; ++i) {
          const std::size_t row = lane / 32 * 16 + lane % 32 / 4 + i / 2 % 2 * 8,
                            column = i / 4 * 8 + lane % 4 * 2 + i % 2;
          Element sum = element_of_cell(DType(kind.sum), own[s.c + i]);
          for (std::size_t k = 0; k < words; k += step)
            sum = dot_row_value(kind, std::span(x).subspan(row * words + k, step),
                                std::span(y).subspan(column * words + k, step), sum);
          own[s.dst + i] = cell_of(DType(kind.sum), sum);
        }
      }
    }
    return true;
  }
  // The unit has read the panels of a product when the wait for it is over, not before.
  void wait_products(const Step& s, Thread& t) {
    const auto left = static_cast<std::size_t>(s.node.int_attr());
    while (t.in_products.size() > left) {
      for (const auto& [memory, index] : t.in_products.front()) check_read(s, memory, index, t, "product");
      t.in_products.erase(t.in_products.begin());
    }
    std::copy_n(t.registers.begin() + s.a, s.lanes, t.registers.begin() + s.dst);
  }

  // Whether all threads of the group stopped at the same place.
  bool all_met(const Step& begin, const std::vector<std::size_t>& order) {
    const Thread& first = group_[order[0]];
    for (std::size_t k : order) {
      const Thread& t = group_[k];
      if (t.finished == first.finished && t.at == first.at) continue;
      const Thread& waiting = t.finished ? first : t;
      const Thread& other = t.finished ? t : first;
      const Step& barrier = code_.steps[waiting.at - 1];
      fault(barrier.node ? barrier : begin, "divergent barrier",
            fmt::format("thread {} waits while thread {} {}", waiting.agent.thread, other.agent.thread,
                        other.finished ? "has finished" : "waits at another barrier"));
      return false;
    }
    return true;
  }

  const Code& code_;
  const EvalOptions& options_;
  EvalReport& report_;
  Random random_;
  std::deque<WatchedMemory> memories_;
  std::deque<std::vector<std::byte>> storage_;
  std::vector<Thread> group_;
  std::vector<Cell> scratch_;
  std::set<std::pair<const Step*, std::string>> told_;
  std::int64_t samples_ = 0, sample_ = 0;
  bool sampling_ = false;
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
