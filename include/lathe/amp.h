// Mixed precision training. GradScaler multiplies the loss before backward(), so that small gradients do not
// underflow in half precision, and skips the optimizer step when a gradient overflowed.
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
  std::int64_t growth_interval = 2000;  // steps without overflow before the scale grows
};

class GradScaler : public Module {
 public:
  explicit GradScaler(const GradScalerOptions& options = {});

  // The loss times the scale.
  Tensor scale(const Tensor& loss) const;
  // Divides the optimizer's gradients by the scale. Call it at most once between two updates.
  void unscale(Optimizer& optimizer);
  // Unscales the gradients unless unscale() did, and steps the optimizer if all of them are finite. Returns
  // whether it stepped.
  bool step(Optimizer& optimizer);
  // Lowers the scale if a gradient overflowed since the last update, and raises it after growth_interval
  // steps without one.
  void update();

  double get_scale() const { return scale_.item(); }
  // "scale" and "good_steps", so that the state is saved and loaded like a net's.
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
