#include "reference/reference.h"

#include "reference/kernel_code.h"
#include "reference/machine.h"
#include "reference/program_code.h"
#include "reference/wide_floats.h"

namespace lathe::reference {

EvalReport kernel_eval(Node kernel, std::span<const View> params, const Bindings& bindings,
                       const EvalOptions& options) {
  Scope scope;
  Code code = code_of_kernel(kernel);
  if (options.wide_floats) widen_floats(code);
  return run_code(code, params, bindings, options);
}

EvalReport program_eval(const Program& program, std::span<const View> params, const Bindings& bindings,
                        const EvalOptions& options) {
  Scope scope;
  return run_code(code_of_program(program), params, bindings, options);
}

}  // namespace lathe::reference
