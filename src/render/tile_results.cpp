#include "render/tile_results.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "ir/build.h"
#include "ir/dot.h"
#include "target/cache_line.h"

namespace lathe::render {
namespace {

// Whole rows of lines, evenly apart; `lines` are the first bytes of cache lines.
std::optional<ResultLines> as_rows(const std::vector<std::int64_t>& lines) {
  ResultLines out;
  out.first = lines[0];
  const auto count = static_cast<std::int64_t>(lines.size());
  for (out.lines = 1;
       out.lines < count && lines[static_cast<std::size_t>(out.lines)] == lines[0] + out.lines * kLineBytes;)
    ++out.lines;
  if (count % out.lines != 0) return std::nullopt;
  out.rows = count / out.lines;
  if (out.rows > 1) out.row_bytes = lines[static_cast<std::size_t>(out.lines)] - lines[0];
  for (std::int64_t i = 0; i < count; ++i)
    if (lines[static_cast<std::size_t>(i)] !=
        lines[0] + i / out.lines * out.row_bytes + i % out.lines * kLineBytes)
      return std::nullopt;
  return out;
}

// An index as a place and a constant distance from it.
std::pair<Node, std::int64_t> place_of(Node index) {
  if (index.is(Op::Add) && index.arg(1).is_const()) return {index.arg(0), index.arg(1).const_int()};
  return {index, 0};
}

bool is_fragment(Node value) { return value.is(Op::Dot) && dot_shape(value).is_tile(); }
bool is_own(Node memory) { return base_memory(memory).is(Op::Define); }

// What may stand between a fragment's store and those of its rows: nothing that reads or writes other memory.
bool is_index(Node n) { return n.is(Op::Add) || n.is(Op::Mul); }

// Whether anything but the loads of its rows reads what the fragment's store leaves in the kernel's memory.
bool read_elsewhere(const Program& program, Node fragment, std::int64_t size, const std::vector<Node>& rows) {
  const std::int64_t first = fragment.arg(1).const_int();
  for (Node n : program.code) {
    if (!n.is(Op::Load) || base_memory(n.arg(0)) != base_memory(fragment.arg(0))) continue;
    if (std::find(rows.begin(), rows.end(), n) != rows.end()) continue;
    if (!n.arg(1).is_const()) return true;
    const std::int64_t at = n.arg(1).const_int();
    if (at < first + size && first < at + n.dtype().lanes) return true;
  }
  return false;
}

}  // namespace

NodeMap<ResultLines> result_lines(const Program& program, const NodeMap<Node>& fragments,
                                  std::int64_t cache) {
  NodeMap<ResultLines> out;
  std::vector<Node> open;
  Node sum;  // the last loop that added products up, until the loop around it ends
  std::size_t depth = 0;
  Node memory, place;
  std::map<std::int64_t, bool> lines;  // in order
  bool plain = true;
  auto finish = [&] {
    std::vector<std::int64_t> firsts;
    for (const auto& [line, found] : lines) firsts.push_back(line);
    std::optional<ResultLines> rows = sum && plain && !firsts.empty() ? as_rows(firsts) : std::nullopt;
    if (rows) {
      rows->memory = memory, rows->place = place;
      out[sum] = *rows;
    }
    sum = memory = place = Node();
    plain = true;
    lines.clear();
  };
  for (Node node : program.code) {
    if (node.is(Op::Range)) open.push_back(node);
    if (node.is(Op::Load) && fragments.contains(node) && !open.empty()) {
      if (sum && sum != open.back()) finish();
      sum = open.back(), depth = open.size();
    }
    if (node.is(Op::End)) {
      open.pop_back();
      if (sum && open.size() + 1 < depth) finish();
    }
    if (!sum || !node.is(Op::Store) || !base_memory(node.arg(0)).is(Op::Param) || open.size() >= depth)
      continue;
    Node param = base_memory(node.arg(0));
    const auto [from, distance] = place_of(node.arg(1));
    if (!memory) memory = param, place = from;
    const int bytes = param.dtype().bytes();
    plain &= param == memory && from == place && node.arg(1).dtype().lanes == 1 &&
             memory_size(param) * bytes * 2 > cache;
    // The result begins at a line, as buffers do; else a line more is written than asked for.
    const std::int64_t begin = distance * bytes, end = begin + node.arg(2).dtype().lanes * bytes;
    for (std::int64_t line = begin / kLineBytes * kLineBytes; line < end; line += kLineBytes)
      lines[line] = true;
  }
  return out;
}

NodeMap<DirectResult> direct_results(const Program& program, int rows, int columns) {
  NodeMap<int> uses;
  NodeMap<char> sums;  // accumulators, and what is loaded from them
  for (Node node : program.code) {
    for (Node arg : node.args()) ++uses[arg];
    if (is_fragment(node) && node.arg(2).is(Op::Load)) sums[base_memory(node.arg(2).arg(0))] = 1;
  }
  NodeMap<DirectResult> out;
  for (std::size_t i = 0; i < program.code.size(); ++i) {
    Node fragment = program.code[i];
    if (!fragment.is(Op::Store) || !is_own(fragment.arg(0)) || !fragment.arg(1).is_const() ||
        sums.contains(base_memory(fragment.arg(0))) || fragment.arg(2).dtype().lanes != rows * columns)
      continue;
    DirectResult result;
    NodeMap<std::int64_t> row_of;  // by load
    int stored = 0;
    for (std::size_t j = i + 1; j < program.code.size() && stored < rows; ++j) {
      Node n = program.code[j];
      if (n.is(Op::Load) && base_memory(n.arg(0)) == base_memory(fragment.arg(0))) {
        if (!n.arg(1).is_const()) break;
        const std::int64_t at = n.arg(1).const_int() - fragment.arg(1).const_int();
        if (at < 0 || at >= rows * columns) continue;  // of another fragment
        if (at % columns != 0 || n.dtype().lanes != columns || uses[n] != 1) break;
        row_of[n] = at / columns;
        result.instead.push_back(n);
      } else if (n.is(Op::Store)) {
        const std::int64_t* row = row_of.find(n.arg(2));
        if (row == nullptr && is_own(n.arg(0))) continue;  // another fragment
        if (row == nullptr || n.arg_count() > 3 || n.arg(1).dtype().lanes > 1) break;
        Node memory = base_memory(n.arg(0));
        const auto [place, distance] = place_of(n.arg(1));
        if (stored == 0) result.memory = memory, result.place = place, result.distance = distance;
        if (stored == 1) result.pitch = distance - result.distance;
        if (!memory.is(Op::Param) || memory != result.memory || place != result.place || *row != stored ||
            distance != result.distance + stored * result.pitch)
          break;
        result.instead.push_back(n);
        ++stored;
      } else if (!is_index(n) && !n.is(Op::After) &&
                 !(n.is(Op::Load) && sums.contains(base_memory(n.arg(0))))) {
        break;
      }
    }
    if (stored == rows && result.memory.dtype() == fragment.arg(2).dtype().element() &&
        !read_elsewhere(program, fragment, rows * columns, result.instead))
      out[fragment] = std::move(result);
  }
  return out;
}

}  // namespace lathe::render
