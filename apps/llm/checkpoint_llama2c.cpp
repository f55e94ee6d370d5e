// A Checkpoint from a file of llama2.c. Version 0 has seven numbers and then float32 tensors, all layers of a
// kind together; later versions begin with "ak42" in a head of 256 bytes, and 2 has its matrices in groups
// of int8 with a scale each.
#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstring>
#include <fstream>

#include "apps/llm/architectures.h"
#include "apps/llm/checkpoint_read.h"
#include "apps/llm/rotary.h"
#include "lathe/error.h"

namespace lathe::llm {

namespace {

constexpr std::uint32_t kMagic = 0x616b3432;
constexpr std::int64_t kHead = 256;
constexpr int kNumbers = 7;

struct Head {
  std::int32_t version = 0;
  std::array<std::int32_t, kNumbers>
      numbers{};  // dim, feed-forward, layers, heads, key heads, tokens, context
  bool tied = true;
  std::int32_t group = 0;  // version 2
  std::int64_t size = 0;   // bytes
};

Head read_head(const std::filesystem::path& file) {
  std::array<char, kHead> raw{};
  std::ifstream in(file, std::ios::binary);
  in.read(raw.data(), raw.size());
  const auto number = [&](std::size_t at) {
    std::int32_t value = 0;
    std::memcpy(&value, raw.data() + at, sizeof value);
    return value;
  };
  Head head;
  const bool early = std::bit_cast<std::uint32_t>(number(0)) != kMagic;
  head.version = early ? 0 : number(4);
  if (head.version < 0 || head.version > 2 || (!early && head.version == 0))
    throw UserError("load_checkpoint",
                    fmt::format("{} is of version {} of llama2.c's format, which is not 0, 1 or 2",
                                file.string(), head.version));
  const std::size_t first = early ? 0 : 8;
  for (std::size_t i = 0; i < kNumbers; ++i) head.numbers[i] = number(first + 4 * i);
  head.tied = early ? head.numbers[5] > 0 : raw[first + 4 * kNumbers] != 0;
  head.numbers[5] = head.numbers[5] == INT32_MIN ? 0 : std::abs(head.numbers[5]);
  if (head.version == 2) std::memcpy(&head.group, raw.data() + first + 4 * kNumbers + 1, sizeof head.group);
  head.size = early ? 4 * kNumbers : kHead;
  return head;
}

// A list of tensors of the file: all layers of a kind are one.
struct Part {
  std::string_view name;       // within a block where it has layers
  std::int64_t layers;         // 0: not part of a block
  std::int64_t rows, columns;  // rows 0: a vector
};

std::vector<Part> parts_of(const ModelConfig& c, const Head& head) {
  const std::int64_t q = c.heads * c.head_dim, k = c.kv_heads * c.head_dim, n = c.layers;
  const Part table{"token_embd", 0, c.vocabulary, c.dim}, attn_norm{"attn_norm", n, 0, c.dim},
      ffn_norm{"ffn_norm", n, 0, c.dim}, last_norm{"output_norm", 0, 0, c.dim}, wq{"attn_q", n, q, c.dim},
      wk{"attn_k", n, k, c.dim}, wv{"attn_v", n, k, c.dim}, wo{"attn_output", n, c.dim, q},
      gate{"ffn_gate", n, c.feed_forward, c.dim}, down{"ffn_down", n, c.dim, c.feed_forward},
      up{"ffn_up", n, c.feed_forward, c.dim}, output{"output", 0, c.vocabulary, c.dim};
  std::vector<Part> all;
  if (head.version == 0) {
    const Part unused{"", 0, c.context, c.head_dim};  // cosines and sines
    all = {table, attn_norm, wq, wk, wv, wo, ffn_norm, gate, down, up, last_norm, unused};
  } else {
    all = {attn_norm, ffn_norm, last_norm, table, wq, wk, wv, wo, gate, down, up};
  }
  if (!head.tied) all.push_back(output);
  return all;
}

// Reads one tensor after the other.
class Cursor {
 public:
  Cursor(Tensor bytes, const Head& head, std::string device, std::string name)
      : bytes_(std::move(bytes)),
        at_(head.size),
        head_(head),
        device_(std::move(device)),
        name_(std::move(name)) {}

  Tensor matrix(std::int64_t rows, std::int64_t columns) {
    if (head_.version != 2 || rows == 0) return plain(rows, columns);
    const std::int64_t count = rows * columns, groups = count / head_.group;
    const Tensor values = take(count, dtypes::int8).reshape({groups, head_.group});
    const Tensor scales = take(groups * 4, dtypes::float32).reshape({groups, 1});
    return (values.cast(dtypes::float32) * scales).reshape({rows, columns});
  }
  std::int64_t left() const { return bytes_.numel().value() - at_; }

 private:
  Tensor plain(std::int64_t rows, std::int64_t columns) {
    const Tensor x = take(std::max<std::int64_t>(rows, 1) * columns * 4, dtypes::float32);
    return rows == 0 ? x : x.reshape({rows, columns});
  }
  Tensor take(std::int64_t count, DataType dtype) {
    if (count > left())
      throw UserError(
          "load_checkpoint",
          fmt::format("{}: the file is truncated: at byte {} a tensor takes {} bytes, {} are left", name_,
                      at_, count, left()));
    const Tensor x = bytes_[Slice{at_, at_ + count}].bitcast(dtype).to(device_);
    at_ += count;
    return x;
  }

  Tensor bytes_;
  std::int64_t at_;
  const Head& head_;
  std::string device_, name_;
};

void check_group(const Head& head, const ModelConfig& c) {
  if (head.version == 2 && (head.group <= 0 || c.dim % head.group != 0 || c.feed_forward % head.group != 0))
    throw UserError("load_checkpoint", fmt::format("rows of {} and {} are not multiples of the group size {}",
                                                   c.dim, c.feed_forward, head.group));
}

// Beside the model: the tokenizer that its project names by the vocabulary's size, or the usual one.
std::filesystem::path tokenizer_beside(const std::filesystem::path& file, std::int64_t vocabulary) {
  for (const std::string& name : {fmt::format("tok{}.bin", vocabulary), std::string("tokenizer.bin")})
    if (std::filesystem::exists(file.parent_path() / name)) return file.parent_path() / name;
  return {};
}

}  // namespace

Draft read_llama2c(const std::filesystem::path& file, const LoadOptions& options) {
  const Head head = read_head(file);
  Draft out;
  out.checkpoint.format = "llama2.c";
  ModelConfig& c = out.checkpoint.config;
  c.architecture = "llama";
  c.name = file.stem().string();
  c.dim = head.numbers[0];
  c.feed_forward = head.numbers[1];
  c.layers = head.numbers[2];
  c.heads = head.numbers[3];
  c.kv_heads = head.numbers[4];
  c.vocabulary = head.numbers[5];
  c.context = head.numbers[6];
  c.tied = head.tied;
  finish_config(c);
  check_config(c);
  check_group(head, c);
  c.rotary = rotary_of(c.head_dim, 10000, c.context, {});
  c.rotary.interleaved = true;
  Cursor cursor(Tensor(file), head, options.device, file.string());
  for (const Part& part : parts_of(c, head))
    for (std::int64_t i = 0; i < std::max<std::int64_t>(part.layers, 1); ++i) {
      const Tensor x = cursor.matrix(part.rows, part.columns);
      if (part.name.empty()) continue;
      const std::string block = part.layers > 0 ? fmt::format("blk.{}.", i) : "";
      out.weights[fmt::format("{}{}.weight", block, part.name)] = {"", x};
    }
  if (cursor.left() != 0)
    throw UserError("load_checkpoint",
                    fmt::format("{}: {} bytes are left after the last tensor", file.string(), cursor.left()));
  if (options.context > 0) c.context = std::min(c.context, options.context);
  const std::filesystem::path beside = tokenizer_beside(file, c.vocabulary);
  if (options.tokenizer.empty() && !beside.empty()) {
    out.checkpoint.tokenizer = Tokenizer::load(beside);
    out.checkpoint.tokenizer_file = beside;
  }
  return out;
}

}  // namespace lathe::llm
