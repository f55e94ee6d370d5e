#include "reference/group_units.h"

#include <fmt/format.h>

#include "ir/dot.h"
#include "ir/group_ops.h"

namespace lathe::reference {
namespace {

constexpr std::size_t kWarp = 32;

// The shares of 32 threads (ir/dot.h) are put together, multiplied and shared out again.
bool group_dot(const Step& s, std::size_t first, CheckedMemory& m) {
  const DotKind& kind = dot_kind(s.node);
  const DotShape shape = dot_shape(s.node);
  const auto warp = static_cast<std::size_t>(shape.threads);
  std::vector<std::uint32_t> x(8), y(8);
  for (std::size_t lane = 0; lane < warp; ++lane)
    for (unsigned i = 0; i < 4; ++i) {
      Cell* own = m.group[first + lane].registers.data();
      const std::size_t row = lane / 4, high = i / 2, column = lane % 4 * 2 + i % 2;
      for (unsigned k = 0; k < 8; ++k) {
        x[k] = static_cast<std::uint32_t>(
            m.group[first + row * 4 + k % 4].registers[s.a + (k / 4) * 2 + high].i);
        y[k] = static_cast<std::uint32_t>(m.group[first + column * 4 + k % 4].registers[s.b + k / 4].i);
      }
      const Element sum = element_of_cell(DType(kind.sum), own[s.c + i]);
      own[s.dst + i] = cell_of(DType(kind.sum), dot_row_value(kind, x, y, sum));
    }
  return true;
}

// Values that the threads of a warp give each other.
bool exchange(const Step& s, std::size_t first, CheckedMemory& m) {
  std::vector<Cell> given;
  for (std::size_t t = 0; t < kWarp; ++t) given.push_back(m.group[first + t].registers[s.a]);
  for (std::size_t t = 0; t < kWarp; ++t)
    m.group[first + t].registers[s.dst] = given[t ^ static_cast<std::size_t>(s.jump)];
  return true;
}

std::uint32_t bits_at(const CheckedMemory& m, std::uint32_t memory, std::int64_t index) {
  const DType dtype = m.code.memories[memory].dtype;
  const DType code = dtype.bits() == 8 ? dtypes::UInt8 : dtype.bits() == 16 ? dtypes::UInt16 : dtypes::UInt32;
  return static_cast<std::uint32_t>(
      reinterpret(code, dtype, element_of_cell(dtype, m.memories[memory].read(index))).i);
}

// Rows of 8 numbers that the lanes of a warp name, shared out in words (ir/group_ops.h).
bool matrices(const Step& s, std::size_t first, CheckedMemory& m) {
  constexpr std::size_t kSide = 8;
  const auto count = static_cast<std::size_t>(s.node.ints()[0]);
  const bool transposed = s.node.ints()[1] != 0;
  std::uint32_t numbers[4][kSide][kSide] = {};
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t row = 0; row < kSide; ++row) {
      const Thread& t = m.group[first + i * kSide + row];
      const std::int64_t at = t.registers[s.a].i;
      if (at % static_cast<std::int64_t>(kSide) != 0)
        m.fault(s, "misaligned read", fmt::format("a row of a matrix at {}", at));
      for (std::size_t c = 0; c < kSide; ++c) {
        const std::int64_t index = at + static_cast<std::int64_t>(c);
        if (!m.in_bounds(s, index, m.memories[s.memory].size(), "matrix")) continue;
        m.check_read(s, s.memory, index, t, "matrix");
        numbers[i][row][c] = bits_at(m, s.memory, index);
      }
    }
  for (std::size_t lane = 0; lane < kWarp; ++lane)
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t x = lane / 4, y = lane % 4 * 2;
      const std::uint32_t low = transposed ? numbers[i][y][x] : numbers[i][x][y],
                          high = transposed ? numbers[i][y + 1][x] : numbers[i][x][y + 1];
      m.group[first + lane].registers[s.dst + i].i = static_cast<std::int64_t>(high << 16 | low);
    }
  return true;
}

// The words of a panel, output by output.
std::vector<std::uint32_t> panel_words(const Step& s, std::uint32_t memory, std::int64_t at,
                                       const PanelOperand& operand, int outputs, int words, Thread& t,
                                       CheckedMemory& m) {
  std::vector<std::uint32_t> out;
  const DType dtype = m.code.memories[memory].dtype;
  const int parts = 32 / dtype.bits();
  for (int output = 0; output < outputs; ++output)
    for (int word = 0; word < words; ++word) {
      std::uint32_t bits = 0;
      for (int part = 0; part < parts; ++part) {
        const std::int64_t index = at + operand.place(output, parts * word + part, panel_row(dtype.bytes()));
        if (!m.in_bounds(s, index, m.memories[memory].size(), "product")) continue;
        m.check_unit_read(s, memory, index, t);
        const WatchedMemory::LastWrite writer = m.memories[memory].last_write(index);
        const Thread& wrote = m.group[writer.thread];
        const bool fenced = m.memories[memory].arrival(index).barrier > 0 ||
                            wrote.fenced_before(writer.fences, t.agent.epoch);
        if (m.code.has_fences && !fenced)
          m.fault(s, "missing proxy fence",
                  fmt::format("product of {} at {}, written by thread {}", m.code.memories[memory].name,
                              index, writer.thread));
        t.in_products.back().emplace_back(memory, index);
        bits |= bits_at(m, memory, index) << (dtype.bits() * part);
      }
      out.push_back(bits);
    }
  return out;
}
// The words of x that the threads of a warpgroup have in registers, row by row.
std::vector<std::uint32_t> held_words(const Step& s, const PanelShape& shape, std::size_t first,
                                      const CheckedMemory& m) {
  std::vector<std::uint32_t> out(static_cast<std::size_t>(shape.m) * static_cast<std::size_t>(shape.k));
  const int lanes = shape.m * shape.k / shape.threads;
  for (int thread = 0; thread < shape.threads; ++thread)
    for (int lane = 0; lane < lanes; ++lane) {
      const HeldWord at = held_word(thread, lane);
      const Thread& t = m.group[first + static_cast<std::size_t>(thread)];
      out[static_cast<std::size_t>(at.row * shape.k + at.word)] =
          static_cast<std::uint32_t>(t.registers[s.a + static_cast<std::uint32_t>(lane)].i);
    }
  return out;
}
// A product of panels for each warpgroup; the first thread stands for what all of them read, and the last
// warp's reads as long as it does, so that memory knows of several.
bool panel_dot(const Step& s, std::size_t first, CheckedMemory& m) {
  const DotKind& kind = dot_kind(s.node);
  const PanelShape shape = panel_shape(s.node);
  const auto together = static_cast<std::size_t>(shape.threads), step = std::size_t{8};
  const auto words = static_cast<std::size_t>(shape.k);
  Thread& head = m.group[first];
  head.in_products.emplace_back();
  const bool held = holds_x(s.node);
  for (std::size_t i = 1; i < together; ++i)
    if ((!held && m.group[first + i].registers[s.a].i != head.registers[s.a].i) ||
        m.group[first + i].registers[s.b].i != head.registers[s.b].i)
      m.fault(s, "different panels", fmt::format("of threads {} and {}", first, first + i));
  const std::vector<std::uint32_t> x =
      held ? held_words(s, shape, first, m)
           : panel_words(s, s.memory, head.registers[s.a].i, shape.x, shape.m, shape.k, head, m);
  const std::vector<std::uint32_t> y = panel_words(s, static_cast<std::uint32_t>(s.id), head.registers[s.b].i,
                                                   shape.y, shape.n, shape.k, head, m);
  if (x.size() != words * static_cast<std::size_t>(shape.m) ||
      y.size() != words * static_cast<std::size_t>(shape.n))
    return false;
  Thread& last = m.group[first + together - kWarp];
  last.in_products.push_back(head.in_products.back());
  for (const auto& [memory, index] : last.in_products.back()) m.check_unit_read(s, memory, index, last);
  for (std::size_t lane = 0; lane < together; ++lane) {
    Cell* own = m.group[first + lane].registers.data();
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
  return true;
}

}  // namespace

bool needs_group(Node node) {
  return node.is(Op::Barrier) || group_of(node.op()) == OpGroup::Threads ||
         (node.is(Op::Define) && define_space(node) == Space::Shared) ||
         (node.is(Op::Dot) && dot_shape(node).threads > 1);
}

std::size_t threads_together(const Step& step) {
  switch (step.act) {
    case Act::GroupDot: return static_cast<std::size_t>(dot_shape(step.node).threads);
    case Act::PanelDot: return static_cast<std::size_t>(panel_shape(step.node).threads);
    case Act::Matrices:
    case Act::Exchange: return kWarp;
    default: return 0;
  }
}

bool run_together(const Step& step, std::size_t first, CheckedMemory& memory) {
  switch (step.act) {
    case Act::GroupDot: return group_dot(step, first, memory);
    case Act::Matrices: return matrices(step, first, memory);
    case Act::Exchange: return exchange(step, first, memory);
    default: return panel_dot(step, first, memory);
  }
}

}  // namespace lathe::reference
