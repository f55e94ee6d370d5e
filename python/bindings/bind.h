// The parts of the module, each bound by its own file, in the order they are bound.
#pragma once

#include "casters.h"

namespace lathe::python {

using TensorClass = nb::class_<PyTensor>;

// A name that means nothing, such as that of a dtype: also an AttributeError.
struct UnknownName : UserError {
  using UserError::UserError;
};

// An index of a type that is none: a TypeError and an IndexError.
struct IndexTypeError : TypeError {
  using TypeError::TypeError;
};

PyType_Slot* tensor_slots();  // the buffer protocol

// Where no binding stands between C++ and the interpreter: the Python exception of an error.
void set_python_error(const std::exception_ptr& error);

void bind_errors(nb::module_& m);
void bind_dtypes(nb::module_& m);
void bind_sizes(nb::module_& m);
void bind_context(nb::module_& m);

TensorClass bind_tensor(nb::module_& m);  // the class: making, properties, pickling
void bind_data(TensorClass& c);           // values in and out, arrays of other libraries
void bind_creation(TensorClass& c);       // zeros, arange, rand, ...
void bind_elementwise(TensorClass& c);    // rows of unary.def and binary.def, operators
void bind_movement(TensorClass& c);
void bind_indexing(TensorClass& c);
void bind_reduce(TensorClass& c);
void bind_products(TensorClass& c);  // matmul, convolutions, losses, linear algebra

void bind_fallback(TensorClass& c);  // calls that fit no form, after all methods are bound

void bind_kernels(nb::module_& m, TensorClass& c);  // schedules, kernels by hand
void bind_custom(nb::module_& m);                   // user-defined ops
void bind_places(nb::module_& m);                   // lines that made tensors, memory in use
void bind_jit(nb::module_& m);
void bind_nn(nb::module_& m);
void bind_optim(nb::module_& m);
void bind_transformer(nb::module_& m);  // PyTorch's transformer layers, loss scaling
void bind_state(nb::module_& m);        // files, trees of values, checkpointing
void bind_onnx(nb::module_& m);
void bind_llm(nb::module_& m);

}  // namespace lathe::python
