#include "reference/lane_split.h"

#include <algorithm>
#include <cmath>

#include "ir/build.h"
#include "ir/ranges.h"
#include "ir/value.h"
#include "reference/scalar.h"

namespace lathe::reference {
namespace {

// Loops shorter than this for a lane are not worth sharing, nor are so few lanes.
constexpr std::int64_t kLeastLength = 4;
constexpr std::size_t kLeastShare = 4;

// A reduce whose parts can be made one: where they are, from the outermost loop around it inwards.
struct Candidate {
  std::vector<std::size_t> around;  // steps that begin the loops around its running value
  std::size_t own = 0;              // how many of them, the innermost, are its own
  double length = 1;                // of all its own loops
  std::uint32_t running = kNoRegister;
};

bool can_be_joined(const Step& step) {
  if (step.act != Act::Scalar || !step.carries || !step.node || !step.node.is(Op::Reduce)) return false;
  const Op op = reduce_op(step.node);
  return op == Op::Add || op == Op::Max || op == Op::Min;
}

std::vector<Candidate> candidates_of(const Code& code) {
  std::vector<Candidate> out;
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < code.steps.size(); ++i) {
    const Step& s = code.steps[i];
    if (s.act == Act::LoopBegin) open.push_back(i);
    if (s.act == Act::LoopEnd) open.pop_back();
    if (!can_be_joined(s)) continue;
    Candidate c{open, closed_ranges(s.node).size()};
    c.running = s.dst;
    for (std::size_t k = open.size() - c.own; k < open.size(); ++k)
      c.length *= static_cast<double>(code.steps[open[k]].estimate);
    out.push_back(std::move(c));
  }
  // Outer reduces first: what is inside a shared loop is shared with it.
  std::ranges::stable_sort(out, {}, [](const Candidate& c) { return c.around.size() - c.own; });
  return out;
}

// The longest of the reduce's own loops.
std::size_t longest_loop(const Code& code, const Candidate& c) {
  const auto own = c.around.end() - static_cast<std::ptrdiff_t>(c.own);
  return *std::max_element(own, c.around.end(), [&](std::size_t a, std::size_t b) {
    return code.steps[a].estimate < code.steps[b].estimate;
  });
}

// So many lanes that they take stretches of one length, if there are such.
int share_for(std::int64_t length, std::size_t most) {
  const auto limit =
      static_cast<int>(std::min<std::int64_t>(static_cast<std::int64_t>(most), length / kLeastLength));
  for (int share = limit; share >= limit / 2 && share > 1; --share)
    if (length % share == 0) return share;
  return limit;
}

// The running values of one kind of reduce, as join_lanes goes over the lanes of a position.
void join_sums(const LaneStep& s, int first, int share) {
  const SumPlanes& p = s.sum;
  for (int i = first + 1; i < first + share; ++i) {
    // What was added before is in every running value of this stretch.
    p.partial[first] += p.partial[i] + p.terms[i] * std::fabs(s.d.v[first].f);
    double total = s.d.v[first].f + s.d.v[i].f;
    if (s.d.low != nullptr) {
      s.d.low[first] += rest_of_sum(s.d.v[first].f, s.d.v[i].f, total) + s.d.low[i];
      normalize(total, s.d.low[first]);
    }
    s.d.v[first].f = total;
    s.d.l[first] += s.d.l[i];
    s.d.w[first] += s.d.w[i];
    for (double* plane : {p.magnitude, p.squares, p.terms, p.uneven, p.beyond}) plane[first] += plane[i];
  }
}

void join_extremes(const LaneStep& s, int first, int share, bool is_max) {
  const SumPlanes& p = s.sum;
  const double sign = is_max ? 1 : -1;
  for (int i = first + 1; i < first + share; ++i) {
    if (p.terms[i] == 0) continue;
    const double a = sign * s.d.v[first].f, b = sign * s.d.v[i].f;
    if (p.terms[first] == 0) {
      p.second[first] = p.second[i];
    } else {
      const double other = b > a ? a + s.d.w[first] : b + s.d.w[i];
      p.second[first] = std::max({p.second[first], p.second[i], other});
    }
    auto bound = [&](double e, double f) { return a - e > b + f ? e : b - f > a + e ? f : std::max(e, f); };
    const double v =
        is_max ? value::max_of(s.d.v[first].f, s.d.v[i].f) : value::min_of(s.d.v[first].f, s.d.v[i].f);
    if (s.d.low != nullptr && v != s.d.v[first].f) s.d.low[first] = s.d.low[i];
    s.d.l[first] = bound(s.d.l[first], s.d.l[i]);
    s.d.w[first] = bound(s.d.w[first], s.d.w[i]);
    s.d.v[first].f = v;
    p.terms[first] += p.terms[i];
  }
}

// Integers; those that hang on floats may be off by all that their parts may.
void join_integers(const LaneStep& s, int first, int share, ScalarFn fn) {
  for (int i = first + 1; i < first + share; ++i) {
    const Cell x = s.d.v[first], y = s.d.v[i];
    fn(s.d.v + first, &x, &y, nullptr, 1);
    if (s.d.l == nullptr) continue;
    s.d.l[first] += s.d.l[i];
    s.d.w[first] += s.d.w[i];
  }
}

}  // namespace

LaneSplit split_lanes(const Code& code, std::size_t positions, std::size_t lanes) {
  LaneSplit split;
  const std::size_t most = lanes / std::max<std::size_t>(positions, 1);
  if (most < kLeastShare) return split;
  const std::vector<Candidate> candidates = candidates_of(code);
  const auto longest = std::ranges::max_element(candidates, {}, &Candidate::length);
  if (longest == candidates.end()) return split;
  split.share = share_for(code.steps[longest_loop(code, *longest)].estimate, most);
  if (split.share < static_cast<int>(kLeastShare)) return {};
  split.loops.resize(code.steps.size());
  for (const Candidate& c : candidates) {
    const auto shared = [&](std::size_t loop) { return split.loops[loop] != 0; };
    if (std::ranges::any_of(c.around, shared)) continue;
    const std::size_t loop = longest_loop(code, c);
    if (code.steps[loop].estimate < split.share * kLeastLength) continue;
    split.loops[loop] = 1;
    split.reduces.push_back(c.running);
  }
  // What cannot be shared is done by all lanes of a position, which may cost more than sharing saves.
  return lockstep_cost(code, split, positions) < lockstep_cost(code, {}, positions) ? split : LaneSplit();
}

double lockstep_cost(const Code& code, const LaneSplit& split, std::size_t positions) {
  const double lanes = kLanesPerStep + static_cast<double>(positions) * split.share;
  double total = 0;
  std::vector<double> around = {lanes};
  for (const Step& s : code.steps) {
    if (s.act == Act::LoopBegin) {
      const auto length = static_cast<double>(std::max<std::int64_t>(s.estimate, 0));
      around.push_back(around.back() * (split.shares(code, s) ? std::ceil(length / split.share) : length));
    } else if (s.act == Act::LoopEnd) {
      around.pop_back();
    } else {
      total += around.back();
    }
  }
  return total;
}

void join_lanes(const LaneStep& s, int share) {
  const Node reduce = s.from->node;
  const Op op = reduce_op(reduce);
  const bool is_float = reduce.dtype().is_float();
  const ScalarFn fn = is_float ? nullptr : scalar_function(op, reduce.dtype().element());
  const SumPlanes& p = s.sum;
  for (int first = 0; first < s.n; first += share) {
    if (!is_float)
      join_integers(s, first, share, fn);
    else if (op == Op::Add)
      join_sums(s, first, share);
    else
      join_extremes(s, first, share, op == Op::Max);
    for (int i = first + 1; i < first + share; ++i) {
      s.d.v[i] = s.d.v[first];
      for (double* plane :
           {s.d.l, s.d.w, s.d.low, p.magnitude, p.squares, p.partial, p.terms, p.uneven, p.beyond, p.second})
        if (plane != nullptr) plane[i] = plane[first];
    }
  }
}

}  // namespace lathe::reference
