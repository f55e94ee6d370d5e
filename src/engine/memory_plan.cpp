#include "engine/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <tuple>

#include "base/error.h"
#include "base/planted.h"
#include "base/text.h"
#include "ir/build.h"
#include "ir/ranges.h"
#include "ir/walk.h"

namespace lathe::engine {
namespace {

std::size_t aligned(std::size_t bytes) { return (bytes + kArenaAlign - 1) / kArenaAlign * kArenaAlign; }

// Lifetimes of the buffers that are not kept, in order of first use.
NodeMap<int> find_intermediates(const Schedule& schedule, std::span<const Node> kept, MemoryPlan& plan) {
  NodeMap<bool> outside;
  for (const Node& buffer : kept) outside[buffer] = true;
  NodeMap<int> index;
  for (std::size_t s = 0; s < schedule.steps.size(); ++s)
    for (const NodeRef& buffer : schedule.steps[s].buffers) {
      if (outside.contains(buffer)) continue;
      const auto [place, added] = index.try_emplace(buffer, static_cast<int>(plan.buffers.size()));
      const int step = static_cast<int>(s);
      if (added)
        plan.buffers.push_back({buffer, buffer_device(buffer), buffer_bytes(buffer), 0, step, step, -1});
      plan.buffers[static_cast<std::size_t>(*place)].last = step;
    }
  for (const auto& entry : outside) plan.outside.push_back(entry.node);
  return index;
}

// Marks outputs that may take over an input's bytes. An input is taken over once, and only if it is just as
// large.
void find_in_place(const Schedule& schedule, const NodeMap<int>& index, MemoryPlan& plan) {
  std::vector<bool> taken(plan.buffers.size(), false);
  for (std::size_t s = 0; s < schedule.steps.size(); ++s) {
    const Step& step = schedule.steps[s];
    if (step.is_copy()) continue;
    for (std::size_t out = 0; out < step.buffers.size(); ++out) {
      const int* output = index.find(step.buffers[out]);
      if (output == nullptr) continue;
      PlannedBuffer& written = plan.buffers[static_cast<std::size_t>(*output)];
      if (written.first != static_cast<int>(s)) continue;
      for (std::size_t in = 0; in < step.buffers.size() && written.in_place_of < 0; ++in) {
        const int* input = index.find(step.buffers[in]);
        if (input == nullptr || *input == *output || taken[static_cast<std::size_t>(*input)]) continue;
        const PlannedBuffer& read = plan.buffers[static_cast<std::size_t>(*input)];
        if (read.last != static_cast<int>(s) || read.first == static_cast<int>(s) ||
            read.bytes != written.bytes || read.device != written.device)
          continue;
        if (!can_run_in_place(step.ast, static_cast<std::int64_t>(out), static_cast<std::int64_t>(in)))
          continue;
        written.in_place_of = *input;
        taken[static_cast<std::size_t>(*input)] = true;
      }
    }
  }
}

// Buffers that share bytes by in-place reuse are placed as one, alive from the first to the last of the
// chain.
struct Block {
  std::size_t bytes = 0, offset = 0;
  int first = 0, last = 0;
  std::string device;
  std::vector<std::size_t> members;
};

std::vector<Block> join_chains(const MemoryPlan& plan) {
  std::vector<Block> blocks;
  std::vector<std::size_t> block_of(plan.buffers.size());
  for (std::size_t i = 0; i < plan.buffers.size(); ++i) {
    const PlannedBuffer& buffer = plan.buffers[i];
    if (buffer.in_place_of >= 0) {  // its input was first used earlier, so its block exists
      block_of[i] = block_of[static_cast<std::size_t>(buffer.in_place_of)];
      blocks[block_of[i]].last = std::max(blocks[block_of[i]].last, buffer.last);
    } else {
      block_of[i] = blocks.size();
      blocks.push_back(
          {aligned(std::max<std::size_t>(buffer.bytes, 1)), 0, buffer.first, buffer.last, buffer.device, {}});
    }
    blocks[block_of[i]].members.push_back(i);
  }
  return blocks;
}

// Largest first; each goes into the smallest gap between blocks alive at the same time that holds it, or on
// top.
void place_blocks(std::vector<Block>& blocks) {
  std::vector<std::size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const int length_a = blocks[a].last - blocks[a].first, length_b = blocks[b].last - blocks[b].first;
    return std::tie(blocks[b].bytes, length_b, a) < std::tie(blocks[a].bytes, length_a, b);
  });
  std::vector<std::size_t> placed;  // by offset
  for (const std::size_t current : order) {
    Block& block = blocks[current];
    std::size_t end = 0, best = 0, best_gap = SIZE_MAX;
    for (const std::size_t p : placed) {
      const Block& other = blocks[p];
      const bool dead = planted(Fault::PlanOverlap) ? other.last <= block.first : other.last < block.first;
      if (other.device != block.device || dead || block.last < other.first) continue;
      if (other.offset > end && other.offset - end >= block.bytes && other.offset - end < best_gap) {
        best_gap = other.offset - end;
        best = end;
      }
      end = std::max(end, other.offset + other.bytes);
    }
    block.offset = best_gap == SIZE_MAX ? end : best;
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), current,
                         [&](std::size_t a, std::size_t b) { return blocks[a].offset < blocks[b].offset; }),
        current);
  }
}

void need_scratch(MemoryPlan& plan, const std::string& device, std::size_t bytes, int step) {
  for (PlannedScratch& known : plan.scratch) {
    if (known.device != device) continue;
    if (known.bytes < bytes) known.bytes = bytes, known.step = step;
    return;
  }
  plan.scratch.push_back({device, bytes, step});
}

}  // namespace

// Stores come last in their iteration, after all that is loaded for any of them. So it is enough that no
// other iteration loads the element: equal indices that use every range of the kernel (a reduce would read it
// again later).
bool can_run_in_place(Node kernel, std::int64_t output, std::int64_t input) {
  Node store;
  std::vector<Node> loads;
  for (const Node& node : toposort(kernel)) {
    if (node.is(Op::Store) && base_memory(node.arg(0)).is(Op::Param) &&
        param_slot(base_memory(node.arg(0))) == output) {
      if (store) return false;
      store = node;
    }
    if (node.is(Op::Load) && base_memory(node.arg(0)).is(Op::Param) &&
        param_slot(base_memory(node.arg(0))) == input)
      loads.push_back(node);
    if (node.is(Op::Define)) return false;
  }
  if (!store) return false;
  const Node index = store.arg(1);
  if (store.arg(2).dtype().bits() != base_memory(store.arg(0)).dtype().bits()) return false;
  for (const Node& load : loads)
    if ((load.arg(1) != index && !planted(Fault::PlanInPlace)) ||
        load.dtype().bits() != store.arg(2).dtype().bits())
      return false;
  const std::size_t ranges = all_ranges(kernel).size();
  for (const Node& effect : kernel.args())  // another nest might read what this one has written
    if (closed_ranges(effect).size() != ranges) return false;
  return ranges_of(index).size() == ranges;
}

MemoryPlan plan_memory(const Schedule& schedule, std::span<const Node> kept,
                       std::span<const std::size_t> scratch, Sharing sharing) {
  MemoryPlan plan;
  for (std::size_t i = 0; i < scratch.size(); ++i)
    if (scratch[i] > 0) need_scratch(plan, schedule.steps[i].device, scratch[i], static_cast<int>(i));
  const NodeMap<int> index = find_intermediates(schedule, kept, plan);
  if (sharing == Sharing::Yes) find_in_place(schedule, index, plan);
  std::vector<Block> blocks = join_chains(plan);
  if (sharing == Sharing::No)  // all are alive all the time
    for (Block& block : blocks) block.first = 0, block.last = static_cast<int>(schedule.steps.size());
  place_blocks(blocks);
  for (const Block& block : blocks) {
    for (const std::size_t member : block.members) plan.buffers[member].offset = block.offset;
    auto arena = std::find_if(plan.arenas.begin(), plan.arenas.end(),
                              [&](const Arena& a) { return a.device == block.device; });
    if (arena == plan.arenas.end()) arena = plan.arenas.insert(arena, {block.device, 0});
    arena->bytes = std::max(arena->bytes, block.offset + block.bytes);
  }
  return plan;
}

std::size_t MemoryPlan::arena_bytes(const std::string& device) const {
  for (const Arena& arena : arenas)
    if (arena.device == device) return arena.bytes;
  return 0;
}

std::size_t MemoryPlan::scratch_bytes(const std::string& device) const {
  for (const PlannedScratch& of_device : scratch)
    if (of_device.device == device) return of_device.bytes;
  return 0;
}

std::size_t MemoryPlan::unshared_bytes() const {
  std::size_t sum = 0;
  for (const PlannedBuffer& buffer : buffers) sum += aligned(std::max<std::size_t>(buffer.bytes, 1));
  return sum;
}

std::string to_string(const MemoryPlan& plan, std::size_t most_lines) {
  std::string text;
  std::size_t lines = 0;
  for (const Arena& arena : plan.arenas) {
    text += fmt::format("arena on {}: {}\n", arena.device, human_bytes(arena.bytes));
    for (const PlannedBuffer& buffer : plan.buffers) {
      if (buffer.device != arena.device || ++lines > most_lines) continue;
      text += fmt::format("  {:>10} at {:>12}  steps {}..{}{}\n", human_bytes(buffer.bytes), buffer.offset,
                          buffer.first, buffer.last, buffer.in_place_of >= 0 ? "  in place" : "");
    }
  }
  if (lines > most_lines) text += fmt::format("  and {} more\n", lines - most_lines);
  for (const PlannedScratch& scratch : plan.scratch)
    text += fmt::format("scratch on {}: {}, as step {} needs\n", scratch.device, human_bytes(scratch.bytes),
                        scratch.step);
  return text;
}

}  // namespace lathe::engine
