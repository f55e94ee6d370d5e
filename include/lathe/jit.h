// Captures a function of tensors. The first call traces and runs it, the second traces it again and compares,
// later calls replay its kernels without building a graph or scheduling. Arguments are passed by position;
// every other tensor the function reads or writes is state, held by reference. A call whose replay could give
// another result than the plain function throws JitError.
//
//   auto step = jit([&](const std::vector<Tensor>& in) -> std::vector<Tensor> { ... });
//   Tensor loss = step({images, labels})[0];
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include "lathe/tensor.h"

namespace lathe {

class Jit {
 public:
  using Function = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;
  using SizedFunction =
      std::function<std::vector<Tensor>(const std::vector<Tensor>&, const std::vector<Size>&)>;

  explicit Jit(Function function);
  explicit Jit(SizedFunction function);  // also gets variables bound to values
  Jit(Jit&&) noexcept;
  Jit& operator=(Jit&&) noexcept;
  ~Jit();

  // Calls or replays the function. Throws JitError if the arguments do not fit the capture: another number,
  // shape, dtype, device or variable.
  std::vector<Tensor> operator()(const std::vector<Tensor>& inputs, const std::vector<Size>& bound = {});

  bool captured() const;        // whether the next call replays
  std::size_t kernels() const;  // kernels and copies of one replay; 0 before the capture is complete
  void reset();                 // drops the capture: the next call traces again

  // Writes the captured program to a file: its kernels and the contents of its state. A loaded program can
  // only be replayed.
  void save(const std::filesystem::path& file) const;
  static Jit load(const std::filesystem::path& file);

 private:
  struct Impl;
  explicit Jit(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

inline Jit jit(Jit::Function function) { return Jit(std::move(function)); }
inline Jit jit(Jit::SizedFunction function) { return Jit(std::move(function)); }

}  // namespace lathe
