// Attention over keys and values in pages. A step writes the keys and values of its tokens to the slots it is
// given, then each sequence reads the pages of its own row of the table, of which as many are looked at as
// the longest sequence has.
#pragma once

#include "apps/llm/blocks.h"

namespace lathe::llm {

struct PagedStep {
  std::int64_t sequences, tokens, page_tokens;  // of each sequence as many tokens
  Tensor positions, slots;  // (sequences * tokens); a slot of -1 is that of a token nobody asked for
  Tensor table;             // (sequences, pages to look at)
};

struct PagedCache {
  Tensor keys, values;  // (slots, kv_heads * head_dim)
};

Tensor paged_attention(const Checkpoint& c, const Tensor& rows, std::int64_t layer, const Angles& angles,
                       const PagedStep& step, PagedCache& cache);

}  // namespace lathe::llm
