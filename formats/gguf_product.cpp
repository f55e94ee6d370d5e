// Products with packed weights in integers, as programs of the format compute them: the other factor is
// rounded to bytes with a scale per block, so that products and their sums within a block are whole numbers.
#include <fmt/format.h>

#include "formats/gguf_blocks.h"
#include "formats/gguf_unpack.h"
#include "lathe/error.h"
#include "lathe/state.h"

namespace lathe::state {

using formats::GgufType;

namespace {

// Of the blocks of a matrix, or what a product reads instead.
std::vector<Tensor> parts_of(const GgufType& type, const Tensor& stored) {
  const Tensor blocks = stored.reshape({Size(stored.numel().value() / type.bytes), Size(type.bytes)});
  return type.byte_parts != nullptr ? type.byte_parts(blocks) : std::vector<Tensor>{blocks};
}

void check_parts(const std::vector<Tensor>& given, const std::vector<Tensor>& wanted) {
  bool same = given.size() == wanted.size();
  for (std::size_t i = 0; same && i < given.size(); ++i)
    same = given[i].shape() == wanted[i].shape() && given[i].dtype() == wanted[i].dtype();
  if (!same)
    throw UserError("gguf_byte_product",
                    fmt::format("{} tensors are given that are not the parts of the matrix", given.size()))
        .help("gguf_byte_parts(type, stored) of the same matrix");
}

}  // namespace

bool gguf_has_byte_product(std::string_view type) {
  const GgufType* found = formats::gguf_type(type);
  return found != nullptr && found->bytes_of != nullptr;
}

std::vector<Tensor> gguf_byte_parts(std::string_view type, const Tensor& stored) {
  const GgufType* found = formats::gguf_type(type);
  if (found == nullptr || found->byte_parts == nullptr || stored.ndim() != 2 ||
      stored.dtype() != dtypes::uint8 || stored.size(1).value() % found->bytes != 0)
    return {};
  return parts_of(*found, stored);
}

Tensor gguf_byte_product(std::string_view type, const Tensor& stored, const Tensor& rows,
                         const std::vector<Tensor>& kept) {
  const GgufType* found = formats::gguf_type(type);
  if (found == nullptr || found->bytes_of == nullptr)
    throw UserError("gguf_byte_product",
                    fmt::format("{} is no type of GGUF whose numbers are bytes with a scale per block", type))
        .help(
            "gguf_has_byte_product says which types are; rows.linear(gguf_unpack(type, stored).transpose())");
  if (stored.ndim() != 2 || stored.dtype() != dtypes::uint8 || rows.ndim() != 2 ||
      stored.size(1).value() % found->bytes != 0 ||
      rows.size(1).value() != stored.size(1).value() / found->bytes * found->elements)
    throw UserError("gguf_byte_product", fmt::format("rows {} and a matrix of {} {} do not go together",
                                                     rows.str(), found->name, stored.str()));
  constexpr std::int64_t kBlock = formats::gguf::kByteBlock;
  const Size out = stored.size(0), count = rows.size(0);
  const std::int64_t blocks = rows.size(1).value() / kBlock;
  const Tensor wide = rows.to_float().reshape({count, blocks, kBlock});
  std::vector<Tensor> parts = parts_of(*found, stored);
  if (!kept.empty()) {
    check_parts(kept, parts);
    parts = kept;
  }
  const formats::gguf::ByteBlocks weights = found->bytes_of(parts);
  Tensor scale = wide.abs().max(-1) / 127;
  if (weights.scale.ndim() > 1)  // as those of the weights lie
    scale = formats::gguf::blocks_last(
                scale.reshape({count * (blocks / weights.scale.size(1).value()), weights.scale.size(1)}))
                .reshape({count, Size(blocks)});
  else
    scale = scale.contiguous();
  // Blocks of zeros have no scale to divide by. What overflows or is NaN shows in the scale.
  const Tensor divisor = (scale > 0).where(scale, 1).unsqueeze(-1);
  const Tensor bytes = (wide / divisor).round().cast(dtypes::int8).contiguous();

  // (rows, out, blocks of the type, parts..., numbers of a part...)
  const Size whole = weights.codes.size(0).value() / out.value();
  Shape codes{1, out, whole}, factors{count, 1, whole}, scales{1, out, whole}, row_scales{count, 1, whole};
  std::vector<std::int64_t> within, across{2};
  for (std::int64_t axis = 1; axis < weights.codes.ndim(); ++axis) {
    const Size extent = weights.codes.size(axis);
    const bool is_part = axis < weights.scale.ndim();
    codes.push_back(extent);
    factors.push_back(extent);
    (is_part ? across : within).push_back(axis + 2);
    if (is_part) scales.push_back(extent), row_scales.push_back(extent);
  }
  const Tensor sums =
      (weights.codes.reshape(codes).cast(dtypes::int32) * bytes.reshape(factors).cast(dtypes::int32))
          .sum(within);
  // A kernel has one such product: what follows would bring others along.
  const Tensor product = (sums.to_float() * (weights.scale.reshape(scales) * scale.reshape(row_scales)))
                             .sum(across)
                             .contiguous();
  if (!weights.minimum) return product;
  // Of each number the same is taken, so times the sum of the bytes.
  const Tensor totals = (bytes.cast(dtypes::int32).sum(-1).to_float() * scale).contiguous();
  const Tensor minima = weights.minimum->reshape({out, Size(blocks)});
  return (product - totals.linear(minima.transpose())).contiguous();
}

}  // namespace lathe::state
