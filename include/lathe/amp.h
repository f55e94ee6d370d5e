// Mixed precision: a loss that is multiplied before backward(), so that small gradients survive in half
// precision, and optimizer steps that are skipped where a gradient overflowed.
//
//   scaler.scale(loss).backward();
//   scaler.unscale(optimizer);  // only needed before clipping
//   scaler.step(optimizer);
//   scaler.update();
#pragma once

#include "lathe/optim.h"

namespace lathe::nn::optim {

struct GradScalerOptions {
  double init_scale = 65536, growth_factor = 2, backoff_factor = 0.5;
  std::int64_t growth_interval = 2000;  // good steps before the scale grows
};

class GradScaler : public Module {
 public:
  explicit GradScaler(const GradScalerOptions& options = {});

  Tensor scale(const Tensor& loss) const;
  // Divides the gradients by the scale. Once between two updates.
  void unscale(Optimizer& optimizer);
  // Unscales unless that was done, and steps unless a gradient is not finite; says whether it stepped.
  bool step(Optimizer& optimizer);
  // Adapts the scale to what was found since the last time.
  void update();

  double get_scale() const { return scale_.item(); }
  // "scale" and "good_steps": saved and loaded like a net.
  void parts(Parts& p) override;

 private:
  struct Seen {
    const Optimizer* optimizer;
    bool finite;
  };
  Seen* find(const Optimizer& optimizer);

  GradScalerOptions options_;
  Tensor scale_, good_steps_;
  std::vector<Seen> seen_;  // optimizers unscaled since the last update
};

}  // namespace lathe::nn::optim
