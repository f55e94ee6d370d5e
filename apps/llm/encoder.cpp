#include "lathe/llm/encoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>

#include "apps/llm/blocks.h"
#include "lathe/context.h"
#include "lathe/error.h"
#include "lathe/jit.h"

namespace lathe::llm {

namespace {

constexpr std::string_view kOp = "Encoder";
constexpr std::int64_t kShortest = 16;                       // tokens that a text is filled up to at least
constexpr std::int64_t kMostTexts = 32, kMostTokens = 4096;  // at once

std::int64_t smallest_power_from(std::int64_t n, std::int64_t least) {
  std::int64_t power = least;
  while (power < n) power *= 2;
  return power;
}

// The texts of a batch, filled up to one length: all rows one below the other.
struct Rows {
  std::int64_t batch, time;
  Tensor positions;  // (batch * time)
  Tensor mask;       // (batch, time) bool
  Angles angles;
};

// What each position looks at: (batch, 1, 1, time or 1, time). One that looks back sees itself at least.
Tensor visible(const ModelConfig& c, const Rows& rows, std::int64_t layer) {
  const Tensor there = rows.mask.reshape({rows.batch, 1, 1, 1, rows.time});
  if (!c.causal) return there;
  const Tensor key =
      Tensor::arange(rows.time, {.device = rows.mask.device()}).reshape({1, 1, 1, 1, rows.time});
  const Tensor query = key.transpose(3, 4);
  Tensor before = key <= query;
  if (c.slides(layer)) before = before & (key > query - c.sliding_window);
  return before & (there | (key == query));
}

Tensor attention(const Checkpoint& c, const Tensor& x, const Rows& rows, std::int64_t layer,
                 const std::string& block) {
  const ModelConfig& config = c.config;
  // Heads that share keys and values are beside one another: (batch, kv_heads, group, time, head_dim).
  const auto placed = [&](const Tensor& t, std::int64_t group) {
    return t.reshape({rows.batch, rows.time, config.kv_heads, group, config.head_dim})
        .permute({0, 2, 3, 1, 4});
  };
  const auto turned_heads = [&](const char* name, std::int64_t heads) {
    return turned(config.rotary, heads_of(c, x, block + name, heads), rows.angles);
  };
  const Tensor q = placed(turned_heads("attn_q", config.heads), config.heads / config.kv_heads);
  const Tensor k = placed(turned_heads("attn_k", config.kv_heads), 1);
  const Tensor v = placed(product(c, x, block + "attn_v"), 1);
  const Tensor scores =
      capped(q.matmul(k.transpose(-1, -2)) * config.attention_scale, config.attention_softcap);
  const Tensor shares =
      visible(config, rows, layer).where(scores, -std::numeric_limits<double>::infinity()).softmax(-1);
  const Tensor mixed = shares.matmul(v).permute({0, 3, 1, 2, 4});
  return product(c, mixed.reshape({rows.batch * rows.time, config.heads * config.head_dim}),
                 block + "attn_output");
}

Tensor pooled(const ModelConfig& c, const Tensor& features, const Tensor& mask) {
  const Tensor there = mask.to_float().unsqueeze(-1);
  if (c.pooling == Pooling::First) return features.getitem({Slice{}, 0});
  if (c.pooling == Pooling::Last) {
    // One where the next position is empty.
    const Tensor after =
        there.pad({{0, 0}, {0, 1}, {0, 0}}).shrink({{0, there.size(0)}, {1, there.size(1) + 1}, {0, 1}});
    return (features * (there - after)).sum({1});
  }
  return (features * there).sum({1}) / there.sum({1});
}

}  // namespace

struct Encoder::Impl {
  struct Shape {
    std::int64_t batch, time;
    auto operator<=>(const Shape&) const = default;
  };

  Checkpoint checkpoint;
  EncoderOptions options;
  std::string device;
  std::mutex mutex;  // of what is below
  std::map<Shape, Jit> runs;

  Tensor features(const Tensor& tokens, const Tensor& mask) const;
  void check(std::span<const std::vector<TokenId>> texts) const;
  std::int64_t length_for(std::size_t tokens) const;
  // Vectors of texts that are all filled up to `time`.
  std::vector<float> run(std::span<const std::vector<TokenId>* const> texts, std::int64_t time);
};

Encoder::Encoder(Checkpoint checkpoint, EncoderOptions options) : impl_(std::make_unique<Impl>()) {
  impl_->checkpoint = std::move(checkpoint);
  impl_->options = options;
  if (options.context <= 0) impl_->options.context = std::min<std::int64_t>(config().context, 4096);
  if (options.context > config().context && config().positions == Positions::Learned)
    throw UserError(kOp, fmt::format("a context of {}, but the model has positions for {}", options.context,
                                     config().context));
  impl_->device = impl_->checkpoint.weight("token_embd.weight").device();
  const NoGradScope plain;
  impl_->checkpoint.realize();
}
Encoder::~Encoder() = default;
Encoder::Encoder(Encoder&&) noexcept = default;
Encoder& Encoder::operator=(Encoder&&) noexcept = default;

const ModelConfig& Encoder::config() const { return impl_->checkpoint.config; }
std::int64_t Encoder::context() const { return impl_->options.context; }
const Checkpoint& Encoder::checkpoint() const { return impl_->checkpoint; }
const Tokenizer& Encoder::tokenizer() const {
  if (!impl_->checkpoint.tokenizer)
    throw UserError(kOp, "the model came without a tokenizer").help("LoadOptions::tokenizer");
  return *impl_->checkpoint.tokenizer;
}

Tensor Encoder::features(const Tensor& tokens, const Tensor& mask) const {
  if (tokens.ndim() != 2 || tokens.size(1).max() > context())
    throw UserError(kOp, fmt::format("tokens have shape {}, (batch, up to {}) is needed",
                                     to_string(tokens.shape()), context()));
  return impl_->features(tokens, mask);
}

Tensor Encoder::Impl::features(const Tensor& tokens, const Tensor& mask) const {
  const Checkpoint& c = checkpoint;
  Rows rows{tokens.size(0).value(), tokens.size(1).value(), {}, mask, {}};
  rows.positions =
      Tensor::arange(rows.time, {.device = tokens.device()}).expand({rows.batch, rows.time}).flatten();
  rows.angles = angles_at(c.config.rotary, rows.positions);
  Tensor x = embedded(c, tokens.flatten(), rows.positions);
  if (c.has("token_types.weight")) x = x + c.weight("token_types.weight")[0];  // one sentence
  x = normed(c, x, "token_embd_norm");
  for (std::int64_t layer = 0; layer < c.config.layers; ++layer) {
    const std::string block = fmt::format("blk.{}.", layer);
    x = through_block(c, x, block,
                      [&](const Tensor& seen) { return attention(c, seen, rows, layer, block); });
  }
  return normed(c, x, "output_norm").reshape({rows.batch, rows.time, c.config.dim});
}

void Encoder::Impl::check(std::span<const std::vector<TokenId>> texts) const {
  const ModelConfig& c = checkpoint.config;
  for (const std::vector<TokenId>& text : texts) {
    if (text.empty()) throw UserError(kOp, "a text of no tokens has no features");
    for (const TokenId id : text)
      if (id < 0 || id >= c.vocabulary)
        throw UserError(kOp, fmt::format("token {} of a vocabulary of {}", id, c.vocabulary));
    if (static_cast<std::int64_t>(text.size()) > options.context)
      throw UserError(
          kOp, fmt::format("a text of {} tokens, and {} are read at most", text.size(), options.context))
          .help("split the text");
  }
}

std::int64_t Encoder::Impl::length_for(std::size_t tokens) const {
  return std::min(smallest_power_from(static_cast<std::int64_t>(tokens), kShortest), options.context);
}

std::vector<float> Encoder::Impl::run(std::span<const std::vector<TokenId>* const> texts, std::int64_t time) {
  const Shape shape{smallest_power_from(static_cast<std::int64_t>(texts.size()), 1), time};
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(shape.batch * time));
  std::vector<std::uint8_t> mask(tokens.size());
  for (std::size_t i = 0; i < static_cast<std::size_t>(shape.batch); ++i) {
    const std::vector<TokenId>& text = *texts[std::min(i, texts.size() - 1)];  // the last again fills up
    const auto row = static_cast<std::ptrdiff_t>(i) * time;
    std::copy(text.begin(), text.end(), tokens.begin() + row);
    std::fill_n(mask.begin() + row, text.size(), std::uint8_t{1});
  }
  const std::lock_guard lock(mutex);
  const NoGradScope plain;
  const FlagOverride same_bits("LATHE_INVARIANT", options.invariant ? "1" : "0");
  auto known = runs.find(shape);
  if (known == runs.end())
    known =
        runs.emplace(shape, jit(Jit::Function([this](const std::vector<Tensor>& in) -> std::vector<Tensor> {
                       const Tensor there = in[1].to_bool();
                       return {pooled(checkpoint.config, features(in[0], there), there).to_float()};
                     })))
            .first;
  const lathe::Shape sizes{shape.batch, time};
  return known
      ->second({Tensor(tokens, sizes, {.device = device}), Tensor(mask, sizes, {.device = device})})[0]
      .data<float>();
}

std::vector<std::vector<float>> Encoder::embed(std::span<const std::vector<TokenId>> texts,
                                               bool unit_length) const {
  impl_->check(texts);
  // By its own length, not that of the longest: what a text is filled up to does not depend on the others.
  std::map<std::int64_t, std::vector<std::size_t>> by_length;
  for (std::size_t i = 0; i < texts.size(); ++i) by_length[impl_->length_for(texts[i].size())].push_back(i);
  const auto dim = static_cast<std::size_t>(config().dim);
  std::vector<std::vector<float>> out(texts.size());
  for (const auto& [time, which] : by_length) {
    const auto most = static_cast<std::size_t>(std::clamp<std::int64_t>(kMostTokens / time, 1, kMostTexts));
    for (std::size_t begin = 0; begin < which.size(); begin += most) {
      const std::size_t count = std::min(most, which.size() - begin);
      std::vector<const std::vector<TokenId>*> some;
      for (std::size_t i = 0; i < count; ++i) some.push_back(&texts[which[begin + i]]);
      const std::vector<float> all = impl_->run(some, time);
      for (std::size_t i = 0; i < count; ++i) {
        const auto at = all.begin() + static_cast<std::ptrdiff_t>(i * dim);
        out[which[begin + i]].assign(at, at + static_cast<std::ptrdiff_t>(dim));
      }
    }
  }
  if (unit_length)
    for (std::vector<float>& vector : out) to_unit_length(vector);
  return out;
}

std::vector<std::vector<float>> Encoder::embed(const std::vector<std::string>& texts,
                                               bool unit_length) const {
  std::vector<std::vector<TokenId>> ids;
  for (const std::string& text : texts) ids.push_back(tokenizer().encode(text));
  return embed(ids, unit_length);
}

void Encoder::warm_up() const {
  constexpr int kUntilReplayed = 3;
  constexpr std::int64_t kLongest = 512;
  const std::int64_t longest = std::min(context(), kLongest);
  for (std::int64_t time = kShortest; time < 2 * longest; time *= 2) {
    const std::vector<TokenId> text(static_cast<std::size_t>(std::min(time, longest)), 0);
    for (int i = 0; i < kUntilReplayed; ++i) embed(std::span(&text, 1));
  }
}

void to_unit_length(std::span<float> vector) {
  double square = 0;
  for (const float x : vector) square += double{x} * x;
  const double length = std::sqrt(square);
  if (length > 0)
    for (float& x : vector) x = static_cast<float>(x / length);
}

}  // namespace lathe::llm
