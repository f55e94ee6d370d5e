// Losses.
#include <fmt/format.h>

#include "tensor/autocast.h"
#include "tensor/impl.h"
#include "tensor/own_gradient.h"

namespace lathe {
namespace {

Tensor reduced(const Tensor& x, Reduction how) {
  return how == Reduction::None ? x : how == Reduction::Sum ? x.sum() : x.mean();
}

void check_shapes(std::string_view op, const Tensor& x, const Tensor& target) {
  if (x.shape() != target.shape())
    throw UserError(op, fmt::format("input {} and target {} have different shapes", to_string(x.shape()),
                                    to_string(target.shape())));
}

// The number of a class; anything else would be cut to one in silence.
void check_classes(std::string_view op, const Tensor& target) {
  if (!target.dtype().is_int())
    throw TypeError(op, fmt::format("targets are classes, which are integers, not {}", target.dtype().name()))
        .help(
            "cast them: targets.cast(dtypes.int32); probabilities have an axis of classes, for "
            "cross_entropy");
}

}  // namespace

Tensor Tensor::binary_crossentropy(const Tensor& target, Reduction reduction) const {
  Scope scope;
  check_shapes("binary_crossentropy", *this, target);
  // The logarithm is cut off at -100, as in torch: a certain wrong answer costs much and stays finite.
  Tensor yes = log().maximum(-100.0), no = (1.0 - *this).log().maximum(-100.0);
  const Tensor value = (target * yes + (1.0 - target) * no).neg();
  return reduced(with_own_gradient("lathe.binary_crossentropy", value,
                                   {cast(value.dtype()), target.cast(value.dtype())}),
                 reduction);
}

Tensor Tensor::binary_crossentropy_logits(const Tensor& target, Reduction reduction,
                                          const Tensor* pos_weight) const {
  Scope scope;
  check_shapes("binary_crossentropy_logits", *this, target);
  const Tensor logits =
      cast(least_upper_float(widened(*this).dtype()));  // the negatives of integers would wrap
  Tensor yes = logits.logsigmoid(), no = logits.neg().logsigmoid();
  Tensor weighted = pos_weight != nullptr ? target * yes * *pos_weight : target * yes;
  return reduced((weighted + (1.0 - target) * no).neg(), reduction);
}

Tensor Tensor::sparse_categorical_crossentropy(const Tensor& target, std::int64_t ignore_index,
                                               double label_smoothing, Reduction reduction) const {
  Scope scope;
  if (target.ndim() != ndim() - 1)
    throw UserError("sparse_categorical_crossentropy",
                    fmt::format("logits {} need targets of one axis less, not {}", to_string(shape()),
                                to_string(target.shape())));
  check_classes("sparse_categorical_crossentropy", target);
  if (label_smoothing < 0 || label_smoothing > 1)
    throw UserError("sparse_categorical_crossentropy",
                    fmt::format("label smoothing {} is outside [0, 1]", label_smoothing));
  check_same_device("sparse_categorical_crossentropy", *this, target);
  Tensor logs = log_softmax(-1);
  Tensor counted = target != ignore_index;
  Tensor index = counted.where(target, 0).cast(dtypes::int32);
  Tensor picked = logs.gather(-1, index.unsqueeze(-1)).squeeze(-1);
  Tensor loss = picked.neg() * (1 - label_smoothing) - logs.mean(-1) * label_smoothing;
  loss = counted.where(loss, zero_beside(loss));
  if (reduction != Reduction::Mean) return reduced(loss, reduction);
  return loss.sum() / counted.sum().cast(loss.dtype());
}

Tensor Tensor::cross_entropy(const Tensor& target, const CrossEntropyOptions& options) const {
  Scope scope;
  const std::int64_t classes_axis = ndim() == 1 ? 0 : 1;
  Tensor logs = log_softmax(classes_axis);
  if (target.ndim() == ndim()) {  // probabilities
    check_shapes("cross_entropy", *this, target);
    Tensor smooth = target * (1 - options.label_smoothing) +
                    options.label_smoothing / static_cast<double>(size(classes_axis).value());
    Tensor loss = (smooth * logs).sum(classes_axis).neg();
    return reduced(loss, options.reduction);
  }
  Tensor last = logs.movedim(classes_axis, -1);
  if (target.ndim() != last.ndim() - 1)
    throw UserError("cross_entropy", fmt::format("logits {} do not fit targets {}", to_string(shape()),
                                                 to_string(target.shape())));
  check_classes("cross_entropy", target);
  Tensor counted = target != options.ignore_index;
  Tensor index = counted.where(target, 0).cast(dtypes::int32);
  Tensor picked = last.gather(-1, index.unsqueeze(-1)).squeeze(-1);
  Tensor loss = picked.neg();
  if (options.label_smoothing != 0)
    loss = loss * (1 - options.label_smoothing) - last.mean(-1) * options.label_smoothing;
  loss = counted.where(loss, zero_beside(loss));
  if (options.reduction != Reduction::Mean) return reduced(loss, options.reduction);
  return loss.sum() / counted.sum().cast(loss.dtype());
}

Tensor Tensor::nll_loss(const Tensor& target, const Tensor* weight, std::optional<std::int64_t> ignore_index,
                        Reduction reduction) const {
  Scope scope;
  const std::int64_t classes_axis = ndim() == 1 ? 0 : 1;
  Tensor last = movedim(classes_axis, -1);
  if (target.ndim() != last.ndim() - 1)
    throw UserError("nll_loss", fmt::format("input {} does not fit targets {}", to_string(shape()),
                                            to_string(target.shape())));
  check_classes("nll_loss", target);
  Tensor counted = ignore_index ? target != *ignore_index : target.full_like(true, {.dtype = dtypes::bool_});
  Tensor index = counted.where(target, 0).cast(dtypes::int32);
  Tensor factor = weight != nullptr ? weight->getitem({index}) : index.ones_like({.dtype = dtype()});
  factor = counted.where(factor, zero_beside(factor));
  Tensor loss = last.gather(-1, index.unsqueeze(-1)).squeeze(-1).neg() * factor;
  if (reduction != Reduction::Mean) return reduced(loss, reduction);
  return loss.sum() / factor.sum();
}

}  // namespace lathe
