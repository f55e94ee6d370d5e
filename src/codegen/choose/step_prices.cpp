#include "codegen/choose/step_prices.h"

namespace lathe {

StepPrices::StepPrices(const Target& target) {
  // Steps in which a vector comes from there.
  const CoreRates& rates = target.rates;
  const double l1 = rates.arithmetic / rates.l1, l2 = rates.arithmetic / rates.l2,
               l3 = rates.arithmetic / rates.l3, memory = rates.arithmetic / rates.memory;
  load = 0.15 * l1;
  load_bound = 0.4 * l1;
  l1_miss = 0.3 * l2;
  half_l1_miss = 0.03 * l2;
  jumps = 0.2 * l2;
  far_rows = 0.075 * l2;
  line = 0.5 * l2;
  strip_miss = 0.06 * l2;
  l2_miss = 1.2 * l3;
  partial_sum = 4 * l2;
  copied_vector = 2 * l2;
  from_l3_ = 2 * l3;
  from_memory_ = 2 * memory;
  // A load that takes as long as the products it feeds, with some rows in registers, is not hidden behind
  // them.
  constexpr double kRows = 6;
  l3_ = target.l3;
  near_ = l3 > kRows ? target.l2 : target.l3;
  in_flight = target.sums_in_flight;
}

}  // namespace lathe
