#include "lathe/amp.h"

#include <fmt/format.h>

#include <algorithm>

namespace lathe::nn::optim {

GradScaler::GradScaler(const GradScalerOptions& options) : options_(options) {
  if (!(options.init_scale > 0 && options.growth_factor > 1 && options.backoff_factor > 0 &&
        options.backoff_factor < 1 && options.growth_interval > 0))
    throw UserError("GradScaler",
                    fmt::format("the scale starts at {}, grows by {} and backs off by {}", options.init_scale,
                                options.growth_factor, options.backoff_factor))
        .help("the first is positive, the second above 1, the third between 0 and 1");
  scale_ = Tensor(std::vector<float>{static_cast<float>(options.init_scale)}, Shape{}, {.device = "CPU"});
  good_steps_ = Tensor(std::vector<std::int32_t>{0}, Shape{}, {.device = "CPU"});
}

Tensor GradScaler::scale(const Tensor& loss) const {
  return loss * scale_.to(loss.device()).cast(loss.dtype());
}

GradScaler::Seen* GradScaler::find(const Optimizer& optimizer) {
  const auto at = std::find_if(seen_.begin(), seen_.end(),
                               [&](const Seen& seen) { return seen.optimizer == &optimizer; });
  return at == seen_.end() ? nullptr : &*at;
}

void GradScaler::unscale(Optimizer& optimizer) {
  if (find(optimizer) != nullptr)
    throw UserError("GradScaler", "the gradients of this optimizer were unscaled already")
        .help("call update() after the step");
  NoGradScope no_grad;
  std::vector<Tensor> grads, finite;
  for (Tensor p : optimizer.parameters()) {
    const std::optional<Tensor> grad = p.grad();
    if (!grad) continue;
    // In float32: a gradient of half precision may not hold what it is divided by.
    const Tensor wide = grad->cast(least_upper_dtype(grad->dtype(), dtypes::float32));
    p.set_grad((wide / scale_.to(grad->device())).cast(grad->dtype()));
    grads.push_back(*p.grad());
    finite.push_back(grads.back().isfinite().all());
  }
  if (finite.empty())
    throw UserError("GradScaler", "no parameter has a gradient")
        .help("call backward() on the scaled loss first");
  const Tensor all = Tensor::stack(finite).all();
  grads.push_back(all);
  Tensor::realize_all(grads);
  seen_.push_back({&optimizer, all.item<bool>()});
}

bool GradScaler::step(Optimizer& optimizer) {
  if (find(optimizer) == nullptr) unscale(optimizer);
  const bool finite = find(optimizer)->finite;
  if (finite) optimizer.step();
  return finite;
}

void GradScaler::update() {
  if (seen_.empty())
    throw UserError("GradScaler", "nothing was stepped since the last update").help("call step() first");
  const bool finite = std::all_of(seen_.begin(), seen_.end(), [](const Seen& seen) { return seen.finite; });
  double scale = get_scale();
  auto good = good_steps_.item<std::int64_t>();
  if (!finite) {
    scale *= options_.backoff_factor;
    good = 0;
  } else if (++good == options_.growth_interval) {
    scale *= options_.growth_factor;
    good = 0;
  }
  scale_.assign(Tensor(std::vector<float>{static_cast<float>(scale)}, Shape{}, {.device = "CPU"})).realize();
  good_steps_
      .assign(Tensor(std::vector<std::int32_t>{static_cast<std::int32_t>(good)}, Shape{}, {.device = "CPU"}))
      .realize();
  seen_.clear();
}

void GradScaler::parts(Parts& p) { p("scale", scale_)("good_steps", good_steps_); }

}  // namespace lathe::nn::optim
