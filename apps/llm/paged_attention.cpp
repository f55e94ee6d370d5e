#include "apps/llm/paged_attention.h"

#include <fmt/format.h>

#include <limits>

#include "lathe/kernel.h"

namespace lathe::llm {
namespace {

// cache[slots[r]] = rows[r], in place: only these rows are touched.
void write_rows(Tensor& cache, const Tensor& slots, const Tensor& rows) {
  const std::int64_t count = slots.size(0).value(), width = cache.size(1).value(),
                     most = cache.size(0).value();
  cache = custom_kernel(
      {cache, rows.reshape({count, width}), slots},
      [&](KernelBuilder& k) {
        const KernelValue row = k.range(count), column = k.range(width);
        const KernelValue slot = k.load(2, row).cast(dtypes::int64);
        k.store(0, slot * width + column.cast(dtypes::int64), k.load(1, row * width + column),
                KernelValue::apply("And", {KernelValue::apply("Less", {KernelValue(-1), slot}),
                                           KernelValue::apply("Less", {slot, KernelValue(most)})}));
      },
      {.name = "write_pages"})[0];
}

// (sequences, kv_heads, positions, head_dim): the pages of each sequence, one after the other.
Tensor read_pages(const ModelConfig& c, const Tensor& cache, const PagedStep& step) {
  const Tensor pages = cache.reshape({-1, step.page_tokens * c.kv_heads * c.head_dim}).getitem({step.table});
  const Size positions = step.table.size(1) * step.page_tokens;
  return pages.reshape({step.sequences, positions, c.kv_heads, c.head_dim}).transpose(1, 2);
}

// Which positions each token may look at: (sequences, 1, 1, tokens, positions).
Tensor visible(const ModelConfig& c, const PagedStep& step, std::int64_t layer) {
  const Size positions = step.table.size(1) * step.page_tokens;
  const Tensor there =
      Tensor::arange(positions, {.device = step.positions.device()}).reshape({1, 1, 1, 1, positions});
  const Tensor here = step.positions.reshape({step.sequences, 1, 1, step.tokens, 1});
  const Tensor before = there <= here;
  return c.slides(layer) ? before & (there > here - c.sliding_window) : before;
}

}  // namespace

Tensor paged_attention(const Checkpoint& c, const Tensor& rows, std::int64_t layer, const Angles& angles,
                       const PagedStep& step, PagedCache& cache) {
  const ModelConfig& config = c.config;
  const std::string block = fmt::format("blk.{}.attn_", layer);
  const Tensor q = turned(config.rotary, heads_of(c, rows, block + "q", config.heads), angles);
  const Tensor k = turned(config.rotary, heads_of(c, rows, block + "k", config.kv_heads), angles);
  write_rows(cache.keys, step.slots, k);
  write_rows(cache.values, step.slots, product(c, rows, block + "v"));

  // Heads that share keys and values are beside one another: (sequences, kv_heads, group, tokens,
  // head_dim).
  const std::int64_t group = config.heads / config.kv_heads;
  const Tensor queries = q.reshape({step.sequences, step.tokens, config.kv_heads, group, config.head_dim})
                             .permute({0, 2, 3, 1, 4});
  const Tensor keys = read_pages(config, cache.keys, step).unsqueeze(2);
  const Tensor values = read_pages(config, cache.values, step).unsqueeze(2);
  const Tensor scores =
      capped(queries.matmul(keys.transpose(-1, -2)) * config.attention_scale, config.attention_softcap);
  const Tensor shares =
      visible(config, step, layer).where(scores, -std::numeric_limits<double>::infinity()).softmax(-1);
  const Tensor mixed = shares.matmul(values).permute({0, 3, 1, 2, 4});
  return product(c, mixed.reshape({step.sequences * step.tokens, config.heads * config.head_dim}),
                 block + "output");
}

}  // namespace lathe::llm
