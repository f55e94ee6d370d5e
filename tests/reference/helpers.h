// What the tests of REF share: arrays of random numbers and running a kernel over owned arrays.
#pragma once

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "ir/build.h"
#include "ir/text.h"
#include "reference/reference.h"

namespace lathe::reference {

inline Array random_array(DType dtype, std::int64_t size, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> real(-2, 2);
  std::uniform_int_distribution<int> integer(-50, 50);
  std::vector<double> values;
  for (std::int64_t i = 0; i < size; ++i) values.push_back(dtype.is_float() ? real(random) : integer(random));
  return Array::of(dtype, values);
}

inline EvalReport run_kernel(Node kernel, std::vector<Array>& arrays, EvalOptions options = {},
                             const Bindings& b = {}) {
  std::vector<View> views;
  for (Array& a : arrays) views.push_back(a.view());
  return kernel_eval(kernel, views, b, options);
}

inline EvalReport run_program(const Program& program, std::vector<Array>& arrays, EvalOptions options = {},
                              const Bindings& b = {}) {
  std::vector<View> views;
  for (Array& a : arrays) views.push_back(a.view());
  return program_eval(program, views, b, options);
}

inline std::string all_faults(const EvalReport& report) {
  std::string out;
  for (const std::string& f : report.faults) out += f + "\n";
  return out;
}

// Whether some fault starts with the kind and says `part`.
inline bool has_fault(const EvalReport& report, const std::string& kind, const std::string& part = "") {
  for (const std::string& f : report.faults)
    if (f.starts_with(kind) && f.find(part) != std::string::npos) return true;
  return false;
}

}  // namespace lathe::reference
