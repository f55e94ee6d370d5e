// A compiler that takes many kernels in one unit, because starting it costs more than most kernels do.
#pragma once

#include <span>
#include <vector>

#include "runtime/device.h"

namespace lathe {

class UnitCompiler : public Compiler {
 public:
  explicit UnitCompiler(std::size_t most) : most_(most) {}
  Binary compile(const Program& program) const final { return compile_unit({&program, 1})[0]; }
  std::vector<Binary> compile_all(std::span<const Program> programs, const Counted& told) const final;

 protected:
  // Programs of different names. Throws CompileError, which names the first of them.
  virtual std::vector<Binary> compile_unit(std::span<const Program> programs) const = 0;

 private:
  std::vector<Binary> compile_batch(std::span<const Program> programs) const;
  std::size_t most_;  // programs in a unit
};

}  // namespace lathe
