// The native module lathe._core.
#include "bind.h"

NB_MODULE(_core, m) {
  using namespace lathe::python;
  m.doc() = "Lathe's native part; import lathe instead.";
  nb::set_leak_warnings(false);  // tensors that live until exit are no mistake
  bind_errors(m);
  bind_dtypes(m);
  bind_sizes(m);
  bind_context(m);
  TensorClass c = bind_tensor(m);
  bind_data(c);
  bind_creation(c);
  bind_elementwise(c);
  bind_movement(c);
  bind_indexing(c);
  bind_reduce(c);
  bind_products(c);
  bind_kernels(m, c);
  bind_fallback(c);
  bind_custom(m);
  bind_places(m);
  bind_jit(m);
  bind_nn(m);
  bind_optim(m);
  bind_transformer(m);
  bind_state(m);
  bind_onnx(m);
  bind_llm(m);
}
