#include "reference/lane_facts.h"

#include <algorithm>
#include <utility>

namespace lathe::reference {
namespace {

template <class Visit>
void each_operand(const Step& s, Visit visit) {
  if (s.act == Act::LoopEnd || s.act == Act::Halt || s.act == Act::Forget) return;
  if (s.a != kNoRegister) visit(s.a);
  if (s.b != kNoRegister && s.b != s.a) visit(s.b);
  if (s.c != kNoRegister && s.c != s.a) visit(s.c);
}

bool carries_errors(const Step& s) {
  switch (s.act) {
    case Act::Scalar: return s.dtype.is_float();  // of a comparison too: it may be undecided
    case Act::Convert:
    case Act::Bits: return s.to.is_float();
    default: return false;  // a load is exact, but for an index, a gate or a memory that is not
  }
}

// A running value that rounds with every step of its loop; sums have bounds of their own.
bool is_chain_link(const Step& s) {
  return s.carries && (s.act == Act::Copy || (s.act == Act::Scalar && s.dtype.is_float() && s.op == Op::Mul));
}

bool computes_in_float64(const Step& s) {
  return (s.act == Act::Scalar && s.dtype == dtypes::Float64) ||
         (s.act == Act::Convert && (s.from == dtypes::Float64 || s.to == dtypes::Float64));
}

// Goes over the steps until nothing new is learned.
class FactFinder {
 public:
  FactFinder(const Code& code, const LaneSplit& split) : code_(code), split_(split) {
    facts_.registers.resize(code.registers);
    facts_.memories.resize(code.memories.size());
    facts_.pairs = std::any_of(code.steps.begin(), code.steps.end(), computes_in_float64);
  }

  LaneFacts find(std::span<const Position* const> positions) {
    for (std::size_t d = 0; d < code_.positions.size(); ++d) {
      const std::int64_t first = positions[0]->at[d];
      facts_.registers[code_.positions[d]].wide = std::any_of(
          positions.begin(), positions.end(), [&](const Position* p) { return p->at[d] != first; });
    }
    for (bool again = true; again;) {
      again = false;
      wide_loops_ = {false};
      for (const Step& s : code_.steps) again = learn(s) || again;
    }
    for (const Step& s : code_.steps) look_at_uses(s);
    for (std::size_t i = code_.steps.size(); i-- > 0;) look_at_sums(code_.steps[i]);
    return std::move(facts_);
  }

 private:
  // Whether something new was learned about what the step writes.
  bool learn(const Step& s) {
    if (s.act == Act::LoopEnd) {
      wide_loops_.pop_back();
      return false;
    }
    RegisterFacts in;
    each_operand(s, [&](std::uint32_t r) { add(in, facts_.registers[r]); });
    if (s.act == Act::LoopBegin) {
      const bool shared = split_.shares(code_, s);
      wide_loops_.push_back(wide_loops_.back() || in.wide || shared);
      // A counter is the same in all lanes, but where they share the loop.
      return shared && !std::exchange(facts_.registers[s.dst].wide, true);
    }
    if (s.act == Act::PrivateLoad) add(in, facts_.memories[s.memory]);
    in.wide = in.wide || ((s.carries || s.act == Act::PrivateStore) && wide_loops_.back());
    in.bounded = in.bounded || carries_errors(s);
    in.chained = (keeps_chain(s) && in.chained) || is_chain_link(s);
    if (s.act == Act::PrivateStore) return add(facts_.memories[s.memory], in);
    return s.dst != kNoRegister && add(facts_.registers[s.dst], in);
  }

  static bool add(RegisterFacts& to, const RegisterFacts& from) {
    const bool is_new =
        (from.wide && !to.wide) || (from.bounded && !to.bounded) || (from.chained && !to.chained);
    to.wide = to.wide || from.wide;
    to.bounded = to.bounded || from.bounded;
    to.chained = to.chained || from.chained;
    return is_new;
  }

  void look_at_uses(const Step& s) {
    if (is_control(s.act)) return;
    const bool wide = facts_.is_wide(s), adds = s.act == Act::Scalar && (s.op == Op::Add || s.op == Op::Sub);
    each_operand(s, [&](std::uint32_t r) {
      RegisterFacts& operand = facts_.registers[r];
      operand.splat = operand.splat || (wide && !operand.wide);
      operand.added = operand.added || adds;
    });
  }

  // From a sum back to the factors of what it adds up.
  void look_at_sums(const Step& s) {
    if (is_control(s.act) || s.dst == kNoRegister) return;
    const bool scalar = s.act == Act::Scalar;
    const bool passes =
        s.act == Act::Convert || (scalar && (s.op == Op::Mul || s.op == Op::Neg || s.op == Op::Where));
    const bool is_sum = scalar && s.carries && s.op == Op::Add && s.dtype.is_float();
    if (!is_sum && !(passes && !s.carries && facts_.registers[s.dst].summed)) return;
    each_operand(s, [&](std::uint32_t r) { facts_.registers[r].summed = true; });
  }

  const Code& code_;
  const LaneSplit& split_;
  LaneFacts facts_;
  std::vector<bool> wide_loops_;
};

}  // namespace

bool is_control(Act act) { return act == Act::LoopBegin || act == Act::LoopEnd || act == Act::Halt; }

bool keeps_chain(const Step& s) {
  if (s.act == Act::Copy || s.act == Act::Convert) return true;
  return s.act == Act::Scalar && (s.op == Op::Add || s.op == Op::Sub || s.op == Op::Mul || s.op == Op::Fma ||
                                  s.op == Op::Div || s.op == Op::Neg);
}

bool passes_on_roundings(const Step& begin) {
  int depth = 0;
  for (const Step* s = &begin + 1; s != &begin + begin.jump; ++s) {
    if (s->act == Act::LoopBegin) ++depth;
    if (s->act == Act::LoopEnd) --depth;
    if (depth == 0 && is_chain_link(*s)) return true;
  }
  return false;
}

bool LaneFacts::is_wide(const Step& s) const {
  if (s.act == Act::Store || s.act == Act::PrivateStore) return true;
  const std::uint32_t r = s.act == Act::ReduceEnd ? s.a : s.dst;
  return r != kNoRegister && registers[r].wide;
}

bool LaneFacts::has_exact_operands(const Step& s) const {
  bool exact = true;
  each_operand(s, [&](std::uint32_t r) { exact = exact && !registers[r].bounded; });
  return exact;
}

bool LaneFacts::may_flush(const Step& s) const {
  return s.act == Act::Convert && s.from == dtypes::BFloat16 && s.to == dtypes::Float32 &&
         registers[s.dst].summed;
}

bool LaneFacts::is_fp8(const Step& s) const {
  return s.act == Act::Convert && s.from.is_float() && s.from.bits() == 8 && s.to == dtypes::Float32 &&
         registers[s.dst].summed;
}

LaneFacts lane_facts(const Code& code, std::span<const Position* const> positions, const LaneSplit& split) {
  return FactFinder(code, split).find(positions);
}

}  // namespace lathe::reference
