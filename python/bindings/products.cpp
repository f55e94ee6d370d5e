// Products, convolutions, pooling, normalization, losses, linear algebra.
#include "arrays.h"
#include "bind.h"

namespace lathe::python {
namespace {

Reduction reduction_of(const std::string& name) {
  if (name == "mean") return Reduction::Mean;
  if (name == "sum") return Reduction::Sum;
  if (name == "none") return Reduction::None;
  throw UserError("reduction", "'" + name + "' is not a reduction").help("mean, sum or none");
}

PoolOptions pool(const Ints& stride, const Ints& dilation, const Ints& padding, bool ceil_mode = false,
                 bool count_include_pad = true) {
  return {stride, dilation, padding, ceil_mode, count_include_pad};
}

// An int is the size of the window along both axes of an image.
Ints window(nb::handle kernel) {
  if (auto size = to_size(kernel)) return Ints({size->value(), size->value()});
  return nb::cast<Ints>(kernel);
}

std::vector<Tensor> operands(const nb::args& args) { return tensors_argument(args); }

Tensor in_dtype(const Tensor& t, std::optional<DataType> dtype) { return dtype ? t.cast(*dtype) : t; }

}  // namespace

void bind_products(TensorClass& c) {
  c.def(
      "dot", [](const Tensor& t, const Tensor& w, std::optional<DataType> d) { return t.dot(w, d); }, "w"_a,
      "dtype"_a.none() = nb::none(), doc("Tensor.dot"));
  c.def(
      "matmul",
      [](const Tensor& t, const Tensor& x, bool reverse, std::optional<DataType> d) {
        return reverse ? x.dot(t, d) : t.dot(x, d);
      },
      "x"_a, "reverse"_a = false, "dtype"_a.none() = nb::none(), doc("Tensor.matmul"));
  c.def("__matmul__", [](const Tensor& t, const Tensor& x) { return t.dot(x); }, nb::is_operator());
  c.def("__rmatmul__", [](const Tensor& t, const Tensor& x) { return x.dot(t); }, nb::is_operator());
  c.def(
      "__imatmul__",
      [](nb::handle self, const Tensor& x) {
        Tensor& t = nb::cast<Tensor&>(self);
        t.assign(t.dot(x));
        return nb::borrow(self);
      },
      nb::is_operator());
  c.def_static(
      "einsum",
      [](const std::string& formula, nb::args args, std::optional<DataType> dtype) {
        std::vector<Tensor> all = operands(args);
        for (Tensor& t : all) t = in_dtype(t, dtype);
        return Tensor::einsum(formula, all);
      },
      "formula"_a, "operands"_a, "dtype"_a.none() = nb::none(), doc("Tensor.einsum"));
  c.def(
      "linear",
      [](const Tensor& t, const Tensor& weight, const Tensor* bias, std::optional<DataType> d) {
        if (!d) return t.linear(weight, bias);
        std::optional<Tensor> b;
        if (bias != nullptr) b = bias->cast(*d);
        return t.cast(*d).linear(weight.cast(*d), b ? &*b : nullptr);
      },
      "weight"_a, "bias"_a.none() = nb::none(), "dtype"_a.none() = nb::none(), doc("Tensor.linear"));
  c.def(
      "sequential",
      [](nb::object self, nb::iterable layers) {
        nb::object x = self;
        for (nb::handle layer : layers) x = layer(x);
        return x;
      },
      "ll"_a, doc("Tensor.sequential"));
  c.def(
      "conv2d",
      [](const Tensor& t, const Tensor& weight, const Tensor* bias, std::int64_t groups, const Ints& stride,
         const Ints& dilation, const Ints& padding, std::optional<DataType> d) {
        const ConvOptions options{groups, stride, dilation, padding};
        if (!d) return t.conv2d(weight, bias, options);
        Tensor out = t.cast(*d).conv2d(weight.cast(*d), nullptr, options);
        return bias == nullptr ? out : out + bias->reshape({1, -1, 1, 1});
      },
      "weight"_a, "bias"_a.none() = nb::none(), "groups"_a = 1, "stride"_a = 1, "dilation"_a = 1,
      "padding"_a = 0, "dtype"_a.none() = nb::none(), doc("Tensor.conv2d"));
  c.def(
      "conv_transpose2d",
      [](const Tensor& t, const Tensor& weight, const Tensor* bias, std::int64_t groups, const Ints& stride,
         const Ints& dilation, const Ints& padding, const Ints& output_padding) {
        return t.conv_transpose2d(weight, bias, {groups, stride, dilation, padding, output_padding});
      },
      "weight"_a, "bias"_a.none() = nb::none(), "groups"_a = 1, "stride"_a = 1, "dilation"_a = 1,
      "padding"_a = 0, "output_padding"_a = 0, doc("Tensor.conv_transpose2d"));
  c.def(
      "avg_pool2d",
      [](const Tensor& t, nb::handle kernel, const Ints& stride, const Ints& dilation, const Ints& padding,
         bool ceil_mode, bool count) {
        return t.avg_pool2d(window(kernel), pool(stride, dilation, padding, ceil_mode, count));
      },
      "kernel_size"_a = nb::make_tuple(2, 2), "stride"_a.none() = nb::none(), "dilation"_a = 1,
      "padding"_a = 0, "ceil_mode"_a = false, "count_include_pad"_a = true, doc("Tensor.avg_pool2d"));
  c.def(
      "max_pool2d",
      [](const Tensor& t, nb::handle kernel, const Ints& stride, const Ints& dilation, const Ints& padding,
         bool ceil_mode, bool return_indices) -> nb::object {
        const PoolOptions options = pool(stride, dilation, padding, ceil_mode);
        if (return_indices) return nb::cast(t.max_pool2d_with_indices(window(kernel), options));
        return nb::cast(t.max_pool2d(window(kernel), options));
      },
      "kernel_size"_a = nb::make_tuple(2, 2), "stride"_a.none() = nb::none(), "dilation"_a = 1,
      "padding"_a = 0, "ceil_mode"_a = false, "return_indices"_a = false, doc("Tensor.max_pool2d"));
  c.def(
      "max_unpool2d",
      [](const Tensor& t, const Tensor& indices, nb::handle kernel, const Ints& stride, const Ints& dilation,
         const Ints& padding, std::optional<Shape> output) {
        return t.max_unpool2d(indices, window(kernel), pool(stride, dilation, padding), output);
      },
      "indices"_a, "kernel_size"_a = nb::make_tuple(2, 2), "stride"_a.none() = nb::none(), "dilation"_a = 1,
      "padding"_a = 0, "output_size"_a.none() = nb::none(), doc("Tensor.max_unpool2d"));
  c.def(
      "layernorm", [](const Tensor& t, const Ints& axis, double eps) { return t.layernorm(axis, eps); },
      "axis"_a = -1, "eps"_a = 1e-5, doc("Tensor.layernorm"));
  c.def(
      "batchnorm",
      [](const Tensor& t, const Tensor* weight, const Tensor* bias, const Tensor& mean, const Tensor& invstd,
         const Ints& axis) { return t.batchnorm(weight, bias, mean, invstd, axis); },
      "weight"_a.none(), "bias"_a.none(), "mean"_a, "invstd"_a, "axis"_a = 1, doc("Tensor.batchnorm"));
  c.def(
      "dropout", [](const Tensor& t, double p) { return t.dropout(p); }, "p"_a = 0.5, doc("Tensor.dropout"));
  c.def(
      "scaled_dot_product_attention",
      [](const Tensor& t, const Tensor& key, const Tensor& value, const Tensor* mask, double dropout,
         bool causal, bool gqa, std::optional<double> scale) {
        return t.scaled_dot_product_attention(key, value, {mask, dropout, causal, gqa, scale});
      },
      "key"_a, "value"_a, "attn_mask"_a.none() = nb::none(), "dropout_p"_a = 0.0, "is_causal"_a = false,
      "enable_gqa"_a = false, "scale"_a.none() = nb::none(), doc("Tensor.scaled_dot_product_attention"));
  c.def(
      "interpolate",
      [](const Tensor& t, const Ints& size, const std::string& mode, bool align) {
        return t.interpolate(size.values(), mode, align);
      },
      "size"_a, "mode"_a = "linear", "align_corners"_a = false, doc("Tensor.interpolate"));

  // ---- losses
  c.def(
      "binary_crossentropy",
      [](const Tensor& t, const Tensor& y, const std::string& r) {
        return t.binary_crossentropy(y, reduction_of(r));
      },
      "Y"_a, "reduction"_a = "mean", doc("Tensor.binary_crossentropy"));
  c.def(
      "binary_crossentropy_logits",
      [](const Tensor& t, const Tensor& y, const std::string& r, const Tensor* weight) {
        return t.binary_crossentropy_logits(y, reduction_of(r), weight);
      },
      "Y"_a, "reduction"_a = "mean", "pos_weight"_a.none() = nb::none(),
      doc("Tensor.binary_crossentropy_logits"));
  c.def(
      "sparse_categorical_crossentropy",
      [](const Tensor& t, const Tensor& y, std::int64_t ignore, double smoothing, const std::string& r) {
        return t.sparse_categorical_crossentropy(y, ignore, smoothing, reduction_of(r));
      },
      "Y"_a, "ignore_index"_a = -1, "label_smoothing"_a = 0.0, "reduction"_a = "mean",
      doc("Tensor.sparse_categorical_crossentropy"));
  c.def(
      "cross_entropy",
      [](const Tensor& t, const Tensor& y, const std::string& r, double smoothing) {
        return t.cross_entropy(y, {reduction_of(r), smoothing});
      },
      "Y"_a, "reduction"_a = "mean", "label_smoothing"_a = 0.0, doc("Tensor.cross_entropy"));
  c.def(
      "nll_loss",
      [](const Tensor& t, const Tensor& y, const Tensor* weight, std::optional<std::int64_t> ignore,
         const std::string& r) { return t.nll_loss(y, weight, ignore, reduction_of(r)); },
      "Y"_a, "weight"_a.none() = nb::none(), "ignore_index"_a.none() = nb::none(), "reduction"_a = "mean",
      doc("Tensor.nll_loss"));

  // ---- linear algebra and digests
  c.def("qr", [](const Tensor& t) { return t.qr(); }, doc("Tensor.qr"));
  c.def(
      "svd",
      [](const Tensor& t, bool full) {
        Tensor::Svd svd = t.svd(full);
        return nb::make_tuple(svd.u, svd.s, svd.v);
      },
      "full_matrices"_a = true, doc("Tensor.svd"));
  c.def(
      "newton_schulz",
      [](const Tensor& t, std::int64_t steps, const std::vector<double>& params, double eps) {
        return t.newton_schulz(steps, params, eps);
      },
      "steps"_a, "params"_a, "eps"_a = 1e-7, doc("Tensor.newton_schulz"));
  c.def(
      "keccak", [](const Tensor& t, const std::string& cfg) { return t.keccak(cfg); }, "cfg"_a = "sha3_256",
      doc("Tensor.keccak"));
  c.def("hash", [](const Tensor& t) { return t.hash(); }, doc("Tensor.hash"));
}

}  // namespace lathe::python
