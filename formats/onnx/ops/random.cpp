// Random numbers, from Lathe's own generator: a seed makes them repeatable here, not equal to another
// runtime's.
#include "formats/onnx/ops/shared.h"

namespace lathe::onnx {
namespace {

DataType result_dtype(const Call& c, DataType otherwise) {
  return c.has_attribute("dtype") ? dtype_for(static_cast<Element>(c.integer("dtype")), c) : otherwise;
}

Tensor normal(const Call& c, const Shape& shape, DataType dtype) {
  return Tensor::normal(shape, c.number("mean", 0.0), c.number("scale", 1.0),
                        {.dtype = dtypes::float32, .device = c.device()})
      .cast(dtype);
}

Tensor uniform(const Call& c, const Shape& shape, DataType dtype) {
  return Tensor::uniform(shape, c.number("low", 0.0), c.number("high", 1.0),
                         {.dtype = dtypes::float32, .device = c.device()})
      .cast(dtype);
}

Shape shape_attribute(const Call& c) {
  const Numbers given = c.ints("shape");
  return {given.begin(), given.end()};
}

Outputs bernoulli(const Call& c) {
  const Tensor& p = c.x(0);
  const Tensor draws = Tensor::rand(p.shape(), {.dtype = dtypes::float32, .device = c.device()});
  return {draws.lt(p.cast(dtypes::float32)).cast(result_dtype(c, p.dtype()))};
}

Outputs multinomial(const Call& c) {
  return {
      c.x(0).softmax(-1).multinomial(c.integer("sample_size", 1), true).cast(result_dtype(c, dtypes::int32))};
}

// In training mode elements are left out at random; the mask says which are kept.
Outputs dropout(const Call& c) {
  const Tensor& x = c.x(0);
  const double ratio = c.version < 12 ? c.number("ratio", 0.5) : c.has(1) ? c.number(std::size_t(1)) : 0.5;
  const bool training = c.has(2) && c.truth(2);
  const DataType mask_dtype = c.version < 10 ? x.dtype() : dtypes::bool_;
  if (!training || ratio == 0)
    return {x, Tensor::full(x.shape(), 1, {.dtype = mask_dtype, .device = c.device()})};
  c.evaluator.note_random();
  const Tensor kept = Tensor::rand(x.shape(), {.dtype = dtypes::float32, .device = c.device()}).ge(ratio);
  return {kept.where(x * (1.0 / (1.0 - ratio)), 0).cast(x.dtype()), kept.cast(mask_dtype)};
}

// clang-format off
const OpRow kRows[] = {
    {"RandomNormal", 1, [](const Call& c) -> Outputs { return {normal(c, shape_attribute(c), result_dtype(c, dtypes::float32))}; }, Trait::Random},
    {"RandomUniform", 1, [](const Call& c) -> Outputs { return {uniform(c, shape_attribute(c), result_dtype(c, dtypes::float32))}; }, Trait::Random},
    {"RandomNormalLike", 1, [](const Call& c) -> Outputs { return {normal(c, c.x(0).shape(), result_dtype(c, c.x(0).dtype()))}; }, Trait::Random},
    {"RandomUniformLike", 1, [](const Call& c) -> Outputs { return {uniform(c, c.x(0).shape(), result_dtype(c, c.x(0).dtype()))}; }, Trait::Random},
    {"Bernoulli", 15, bernoulli, Trait::Random},
    {"Multinomial", 7, multinomial, Trait::Random},
    {"Dropout", 1, dropout},
};
// clang-format on

}  // namespace

OpTable random_ops() { return {"", "random numbers", kRows}; }

}  // namespace lathe::onnx
