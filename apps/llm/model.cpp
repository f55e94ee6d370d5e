#include "lathe/llm/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/llm/blocks.h"
#include "apps/llm/paged_attention.h"
#include "lathe/context.h"

namespace lathe::llm {
namespace {

constexpr std::string_view kOp = "Model";

// What a step is given, in this order.
enum Input : std::size_t { kTokens, kPositions, kSlots, kTable, kLast };

std::int64_t smallest_power_from(std::int64_t n) {
  std::int64_t power = 1;
  while (power < n) power *= 2;
  return power;
}

ModelOptions completed(ModelOptions o, const ModelConfig& c) {
  if (o.context <= 0) o.context = std::min<std::int64_t>(c.context, 4096);
  if (o.context > c.context && c.positions == Positions::Learned)
    throw UserError(kOp,
                    fmt::format("a context of {}, but the model has positions for {}", o.context, c.context));
  o.page_tokens = std::clamp<std::int64_t>(o.page_tokens, 1, o.context);
  o.sequences = std::max<std::int64_t>(o.sequences, 1);
  o.chunk = std::clamp<std::int64_t>(o.chunk, 1, o.context);
  const std::int64_t per_sequence = (o.context + o.page_tokens - 1) / o.page_tokens;
  if (o.pages <= 0) {
    constexpr std::int64_t kMostBytes = std::int64_t{1} << 30;
    const std::int64_t page_bytes = 8 * c.layers * o.page_tokens * c.kv_heads * c.head_dim;
    o.pages = std::clamp(kMostBytes / page_bytes, per_sequence, o.sequences * per_sequence);
  }
  return o;
}

Tensor whole_numbers(const std::vector<std::int32_t>& values, const lathe::Shape& shape,
                     const std::string& device) {
  return Tensor(values, shape, {.device = device});
}

}  // namespace

Model::Model(Checkpoint checkpoint, ModelOptions options)
    : checkpoint_(std::move(checkpoint)), options_(completed(std::move(options), checkpoint_.config)) {
  const ModelConfig& c = checkpoint_.config;
  if (!c.causal)
    throw UserError(kOp, fmt::format("{} is an encoder: it writes no text", c.architecture))
        .help("lathe serve and llm::Encoder make embeddings with it");
  const NoGradScope plain;
  checkpoint_.byte_activations = options_.byte_activations;
  checkpoint_.realize();
  const lathe::Shape shape{options_.pages * options_.page_tokens, c.kv_heads * c.head_dim};
  for (std::int64_t layer = 0; layer < c.layers; ++layer)
    for (std::vector<Tensor>* cache : {&keys_, &values_})
      cache->push_back(
          Tensor::zeros(shape, {.dtype = dtypes::float32, .device = options_.device}).contiguous().realize());
}

std::int64_t Model::pages_of(std::int64_t tokens) const {
  return (tokens + options_.page_tokens - 1) / options_.page_tokens;
}

std::int64_t Model::page_bytes() const {
  const ModelConfig& c = checkpoint_.config;
  return 8 * c.layers * options_.page_tokens * c.kv_heads * c.head_dim;
}

// A few shapes serve all steps: one token of 1, 2, 4, ... sequences, or 8, 32, 128, ... tokens of one.
Model::Shape Model::shape_for(std::span<const StepSequence> sequences) const {
  const auto count = static_cast<std::int64_t>(sequences.size());
  if (count > 1 || sequences[0].tokens.size() == 1)
    return {std::min(smallest_power_from(count), options_.sequences), 1};
  std::int64_t tokens = 8;
  while (tokens < static_cast<std::int64_t>(sequences[0].tokens.size())) tokens *= 4;
  return {1, std::min(tokens, options_.chunk)};
}

void Model::check(std::span<const StepSequence> sequences) const {
  if (sequences.empty() || static_cast<std::int64_t>(sequences.size()) > options_.sequences)
    throw UserError(
        kOp, fmt::format("{} sequences in a step of at most {}", sequences.size(), options_.sequences));
  for (const StepSequence& s : sequences) {
    const auto tokens = static_cast<std::int64_t>(s.tokens.size());
    const std::int64_t most = sequences.size() == 1 ? options_.chunk : 1;
    if (tokens < 1 || tokens > most)
      throw UserError(kOp, fmt::format("{} tokens of a sequence in a step of at most {}", tokens, most));
    if (s.position < 0 || s.position + tokens > options_.context)
      throw UserError(kOp, fmt::format("tokens {} to {} do not fit a context of {}", s.position,
                                       s.position + tokens, options_.context));
    if (static_cast<std::int64_t>(s.pages.size()) < pages_of(s.position + tokens))
      throw UserError(kOp, fmt::format("{} pages for {} tokens", s.pages.size(), s.position + tokens));
    for (const TokenId token : s.tokens)
      if (token < 0 || token >= checkpoint_.config.vocabulary)
        throw UserError(kOp,
                        fmt::format("token {} of a vocabulary of {}", token, checkpoint_.config.vocabulary));
    for (const PageId page : s.pages)
      if (page < 0 || page >= options_.pages)
        throw UserError(kOp, fmt::format("page {} of {}", page, options_.pages));
  }
}

std::vector<Tensor> Model::inputs_of(const Shape& shape, std::span<const StepSequence> sequences) const {
  const std::int64_t width = pages_of(options_.context), rows = shape.sequences * shape.tokens;
  const auto fill = [](std::int64_t count, std::int32_t value) {
    return std::vector<std::int32_t>(static_cast<std::size_t>(count), value);
  };
  std::vector<std::int32_t> tokens = fill(rows, 0), positions = fill(rows, 0), slots = fill(rows, -1),
                            table = fill(shape.sequences * width, 0), last = fill(shape.sequences, 0);
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    const StepSequence& sequence = sequences[s];
    const std::size_t row = s * static_cast<std::size_t>(shape.tokens);
    for (std::size_t t = 0; t < sequence.tokens.size(); ++t) {
      const std::int64_t position = sequence.position + static_cast<std::int64_t>(t);
      const std::int64_t page = sequence.pages[static_cast<std::size_t>(position / options_.page_tokens)];
      tokens[row + t] = sequence.tokens[t];
      positions[row + t] = static_cast<std::int32_t>(position);
      slots[row + t] =
          static_cast<std::int32_t>(page * options_.page_tokens + position % options_.page_tokens);
    }
    const auto used = static_cast<std::ptrdiff_t>(
        std::min<std::size_t>(sequence.pages.size(), static_cast<std::size_t>(width)));
    std::copy(sequence.pages.begin(), sequence.pages.begin() + used,
              table.begin() + static_cast<std::ptrdiff_t>(s) * width);
    last[s] = static_cast<std::int32_t>(row + sequence.tokens.size() - 1);
  }
  const std::string& device = options_.device;
  return {whole_numbers(tokens, {rows}, device), whole_numbers(positions, {rows}, device),
          whole_numbers(slots, {rows}, device), whole_numbers(table, {shape.sequences, width}, device),
          whole_numbers(last, {shape.sequences}, device)};
}

Jit Model::captured(const Shape& shape) const {
  return jit(
      [this, shape](const std::vector<Tensor>& in, const std::vector<Size>& bound) -> std::vector<Tensor> {
        const ModelConfig& c = checkpoint_.config;
        const PagedStep step{.sequences = shape.sequences,
                             .tokens = shape.tokens,
                             .page_tokens = options_.page_tokens,
                             .positions = in[kPositions],
                             .slots = in[kSlots],
                             .table = in[kTable].shrink({{0, shape.sequences}, {0, bound[0]}})};
        const Angles angles = angles_at(c.rotary, in[kPositions]);
        Tensor x = embedded(checkpoint_, in[kTokens], in[kPositions]);
        for (std::int64_t layer = 0; layer < c.layers; ++layer) {
          const std::string block = fmt::format("blk.{}.", layer);
          PagedCache cache{keys_[static_cast<std::size_t>(layer)], values_[static_cast<std::size_t>(layer)]};
          x = through_block(checkpoint_, x, block, [&](const Tensor& seen) {
            return paged_attention(checkpoint_, seen, layer, angles, step, cache);
          });
        }
        const Tensor rows = x.getitem({in[kLast]});
        return {logits_of(checkpoint_, normed(checkpoint_, rows, "output_norm"))};
      });
}

std::vector<std::vector<float>> Model::step(std::span<const StepSequence> sequences) {
  check(sequences);
  const NoGradScope plain;
  const FlagOverride invariant("LATHE_INVARIANT", options_.invariant ? "1" : "0");
  const Shape shape = shape_for(sequences);
  const auto known = steps_.find(shape);
  Jit& run = known != steps_.end() ? known->second : steps_.emplace(shape, captured(shape)).first->second;
  std::int64_t pages = 1;
  for (const StepSequence& s : sequences)
    pages = std::max(pages, pages_of(s.position + static_cast<std::int64_t>(s.tokens.size())));
  const Variable pages_read("pages", 1, pages_of(options_.context));
  const Tensor logits = run(inputs_of(shape, sequences), {pages_read.bind(pages)})[0];
  // Read where they are, if that can be: a vocabulary's logits are half a megabyte.
  const auto* there = static_cast<const float*>(logits.host_data());
  const std::vector<float> copied = there == nullptr ? logits.data<float>() : std::vector<float>();
  const float* all = there == nullptr ? copied.data() : there;
  const auto width = static_cast<std::ptrdiff_t>(checkpoint_.config.vocabulary);
  std::vector<std::vector<float>> out;
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    const float* begin = all + static_cast<std::ptrdiff_t>(s) * width;
    out.emplace_back(begin, begin + width);
  }
  return out;
}

void Model::warm_up() {
  const std::vector<TokenId> zeros(static_cast<std::size_t>(options_.chunk), 0);
  std::vector<PageId> pages;
  for (std::int64_t p = 0; p < std::min(options_.pages, pages_of(options_.context)); ++p)
    pages.push_back(static_cast<PageId>(p));
  const auto run = [&](std::size_t count, std::int64_t tokens) {
    const StepSequence one{std::span(zeros).first(static_cast<std::size_t>(tokens)), 0, pages};
    const std::vector<StepSequence> all(count, one);
    constexpr int kUntilReplayed = 3;
    for (int i = 0; i < kUntilReplayed; ++i) step(all);
  };
  for (std::int64_t n = 1; n < 2 * options_.sequences; n *= 2)
    run(static_cast<std::size_t>(std::min(n, options_.sequences)), 1);
  for (std::int64_t tokens = 8; tokens < 4 * options_.chunk; tokens *= 4)
    run(1, std::min(tokens, options_.chunk));
}

}  // namespace lathe::llm
