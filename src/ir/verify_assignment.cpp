#include "ir/verify_assignment.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "base/small_vector.h"
#include "ir/build.h"
#include "ir/group_ops.h"
#include "ir/walk.h"

namespace lathe {
namespace {

struct Span {
  std::int64_t first, last;
};
using Spans = SmallVector<Span, 8>;

// More pieces than this are taken for all that is between the first and the last.
constexpr std::size_t kMostPieces = 64;

// An index as start + sum of stride * counter, each counter running through 0..count-1 on its own.
struct Affine {
  struct Counter {
    Node of;  // a Range, a Special, an Iota
    std::int64_t stride, count;
  };
  std::int64_t start = 0;
  SmallVector<Counter, 4> counters;

  void add(Node of, std::int64_t stride, std::int64_t count) {
    for (Counter& c : counters)
      if (c.of == of) {
        c.stride += stride;
        return;
      }
    counters.push_back({of, stride, count});
  }
};

// Adds factor * index; false where the index is no such sum.
bool add_index(Affine& sum, Node index, std::int64_t factor) {
  switch (index.op()) {
    case Op::Const: sum.start += factor * index.const_int(); return true;
    case Op::Range:
      if (!index.arg(0).is_const() || index.arg(0).const_int() < 1) return false;
      sum.add(index, factor, index.arg(0).const_int());
      return true;
    case Op::Special:
      if (index.ints()[0] < 1) return false;
      sum.add(index, factor, index.ints()[0]);
      return true;
    case Op::Iota: sum.add(index, factor, index.dtype().lanes); return true;
    case Op::Splat: return add_index(sum, index.arg(0), factor);
    case Op::Cast:
      return index.arg(0).lo() == index.lo() && index.arg(0).hi() == index.hi() &&
             add_index(sum, index.arg(0), factor);
    case Op::Add: return add_index(sum, index.arg(0), factor) && add_index(sum, index.arg(1), factor);
    case Op::Mul: {
      Node by = index.arg(1).is(Op::Splat) ? index.arg(1).arg(0) : index.arg(1);
      return by.is_const() && add_index(sum, index.arg(0), factor * by.const_int());
    }
    default: return false;
  }
}

// The values of the sum: exactly, or nothing where they are too many pieces.
std::optional<Spans> values(Affine sum) {
  for (Affine::Counter& c : sum.counters)
    if (c.stride < 0) {
      sum.start += c.stride * (c.count - 1);
      c.stride = -c.stride;
    }
  std::sort(sum.counters.begin(), sum.counters.end(),
            [](const auto& a, const auto& b) { return a.stride < b.stride; });
  std::int64_t run = 1;  // elements beside each other
  Spans out{{sum.start, sum.start}};
  for (const Affine::Counter& c : sum.counters) {
    if (c.stride <= run && out.size() == 1) {
      run += c.stride * (c.count - 1);
      out[0].last = out[0].first + run - 1;
      continue;
    }
    const std::size_t pieces = out.size();
    if (static_cast<std::int64_t>(pieces) * c.count > static_cast<std::int64_t>(kMostPieces))
      return std::nullopt;
    for (std::int64_t i = 1; i < c.count; ++i)
      for (std::size_t p = 0; p < pieces; ++p)
        out.push_back({out[p].first + i * c.stride, out[p].last + i * c.stride});
  }
  return out;
}

// The elements that have been written, as spans in order with gaps between them.
class Written {
 public:
  void add(Span span) {
    auto first = std::lower_bound(spans_.begin(), spans_.end(), span.first,
                                  [](const Span& s, std::int64_t at) { return s.last + 1 < at; });
    auto last = first;
    for (; last != spans_.end() && last->first <= span.last + 1; ++last) {
      span.first = std::min(span.first, last->first);
      span.last = std::max(span.last, last->last);
    }
    spans_.insert(spans_.erase(first, last), span);
  }
  bool empty() const { return spans_.empty(); }
  // The first element of a span that is not among them.
  std::optional<std::int64_t> missing(Span span) const {
    auto at = std::lower_bound(spans_.begin(), spans_.end(), span.first,
                               [](const Span& s, std::int64_t first) { return s.last < first; });
    if (at == spans_.end() || at->first > span.first) return span.first;
    return at->last < span.last ? std::optional(at->last + 1) : std::nullopt;
  }

 private:
  std::vector<Span> spans_;
};

class AssignmentVerifier {
 public:
  explicit AssignmentVerifier(const Program& program) : program_(program) {}

  std::vector<VerifyFault> run() {
    for (const NodeRef& ref : program_.code) {
      if (ref->is(Op::If)) ++conditions_;
      if (ref->is(Op::EndIf)) --conditions_;
      if (!ref->is(Op::Load) && !ref->is(Op::Store) && !ref->is(Op::CopyAsync) && !ref->is(Op::BulkCopy))
        continue;
      Node memory = base_memory(ref->arg(0));
      if (!memory.is(Op::Define) || define_space(memory) == Space::Barrier) continue;
      if (ref->is(Op::CopyAsync))
        note_store(ref, memory, memory.dtype().vec(static_cast<std::uint16_t>(ref->int_attr())));
      else if (ref->is(Op::BulkCopy))
        note_store(ref, memory, memory.dtype().vec(static_cast<std::uint16_t>(bulk_box(ref).elements())));
      else if (ref->is(Op::Store))
        note_store(ref, memory, ref->arg(2).dtype());
      else
        check_load(ref, memory);
    }
    // Under a condition a step may read what an earlier one wrote, so that any store will do.
    for (Node load : conditional_)
      if (!written_.contains(base_memory(load.arg(0)))) fault(load, "");
    return std::move(faults_);
  }

 private:
  void fault(Node load, std::string_view where) {
    faults_.push_back({load, fmt::format("define {} is read{} with no write before it",
                                         define_id(base_memory(load.arg(0))), where)});
  }

  // The index of an access as a sum, with the neighbours that a vector takes along.
  static std::optional<Affine> index_of(Node access, Node memory, DType value) {
    Affine sum;
    if (!add_index(sum, access.arg(1), 1)) return std::nullopt;
    if (access.arg(1).dtype().lanes == 1) sum.add(access, 1, std::max(value.lanes / memory.dtype().lanes, 1));
    return sum;
  }

  void note_store(Node store, Node memory, DType value) {
    Written& to = written_[memory];
    std::optional<Affine> index = index_of(store, memory, value);
    const std::optional<Spans> exact = index ? values(*index) : std::nullopt;
    if (exact) {
      for (Span s : *exact) to.add(s);
      return;
    }
    const std::int64_t last = std::min(store.arg(1).hi(), memory_size(memory) - 1),
                       beside = store.arg(1).dtype().lanes == 1
                                    ? std::max(value.lanes / memory.dtype().lanes, 1)
                                    : 1;
    to.add({std::max<std::int64_t>(store.arg(1).lo(), 0), std::max<std::int64_t>(last, 0) + beside - 1});
  }

  void check_load(Node load, Node memory) {
    if (conditions_ > 0 || load.arg_count() > 2) {
      conditional_.push_back(load);
      return;
    }
    const Written* from = written_.find(memory);
    if (from == nullptr) return fault(load, "");
    const std::optional<Affine> index = index_of(load, memory, load.dtype());
    if (!index) return;
    std::optional<Spans> read = values(*index);
    if (!read) read = ends(*index);
    for (Span s : *read)
      if (auto element = from->missing(s)) return fault(load, fmt::format(" at element {}", *element));
  }

  // The least and the greatest value of a sum, which it takes whatever is between.
  static Spans ends(const Affine& sum) {
    std::int64_t least = sum.start, most = sum.start;
    for (const Affine::Counter& c : sum.counters) (c.stride < 0 ? least : most) += c.stride * (c.count - 1);
    return {{least, least}, {most, most}};
  }

  const Program& program_;
  int conditions_ = 0;  // that are open
  NodeMap<Written> written_;
  std::vector<Node> conditional_;  // loads under one
  std::vector<VerifyFault> faults_;
};

}  // namespace

std::vector<VerifyFault> verify_assignment(const Program& program) {
  return AssignmentVerifier(program).run();
}

}  // namespace lathe
