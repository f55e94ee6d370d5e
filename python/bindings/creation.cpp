// Tensors made from nothing: constants, sequences, random numbers.
#include "arrays.h"
#include "bind.h"

namespace lathe::python {
namespace {

// The keywords every function here takes: dtype, device, requires_grad. What tinygrad's functions take
// besides
// (`buffer`, `contiguous`) says where a value is stored, which Lathe decides itself.
struct Keywords {
  explicit Keywords(const nb::kwargs& given, const char* function) {
    for (auto [key, value] : given) {
      const auto name = nb::cast<std::string>(key);
      if (name == "device")
        options.device = device_argument(value);
      else if (name == "requires_grad")
        wish = value.is_none() ? std::nullopt : std::optional(nb::cast<bool>(value));
      else if (name == "dtype") {
        if (value.is_none()) continue;
        options.dtype = to_dtype(value);
        if (!options.dtype) throw TypeError(function, "a dtype or its name is needed");
      } else if (name != "buffer" && name != "contiguous")
        throw nb::type_error(
            (std::string(function) + "() got an unexpected keyword argument '" + name + "'").c_str());
    }
  }
  Tensor operator()(Tensor t) const {
    if (wish) t.requires_grad_(*wish);
    return t;
  }
  TensorOptions options;
  std::optional<bool> wish;
};

// Takes name=default out of the keywords.
template <class T>
T take(nb::kwargs& given, const char* name, T otherwise) {
  if (!given.contains(name)) return otherwise;
  T value = nb::cast<T>(given[name]);
  nb::del(given[name]);
  return value;
}

// f(*shape, **keywords).
template <class F>
void shaped(TensorClass& c, const char* name, const char* path, F make) {
  c.def_static(
      name,
      [name, make](nb::args shape, nb::kwargs given) {
        nb::kwargs rest = nb::borrow<nb::kwargs>(nb::handle(PyDict_Copy(given.ptr())));
        rest.dec_ref();  // borrow added one to the copy's own
        Shape sizes = given.contains("shape") ? nb::cast<Shape>(take<nb::object>(rest, "shape", nb::none()))
                                              : shape_argument(shape);
        auto call = make(rest);
        Keywords k(rest, name);
        return k(call(sizes, k.options));
      },
      "shape"_a, "kwargs"_a,
      nb::sig((std::string("def ") + name +
               "(*shape, dtype=None, device=None, "
               "requires_grad=None, **kwargs) -> Tensor")
                  .c_str()),
      doc(path));
}
template <class F>
void plain(TensorClass& c, const char* name, const char* path, F function) {
  shaped(c, name, path, [function](nb::kwargs&) { return function; });
}

// x.f_like(**keywords).
template <class F>
void like(TensorClass& c, const char* name, const char* path, F function) {
  c.def(
      name,
      [name, function](const Tensor& t, nb::kwargs given) {
        Keywords k(given, name);
        return k(function(t, k.options));
      },
      "kwargs"_a, doc(path));
}

}  // namespace

void bind_creation(TensorClass& c) {
  using Options = const TensorOptions&;
  plain(c, "empty", "Tensor.empty", [](const Shape& s, Options o) { return Tensor::empty(s, o); });
  plain(c, "zeros", "Tensor.zeros", [](const Shape& s, Options o) { return Tensor::zeros(s, o); });
  plain(c, "ones", "Tensor.ones", [](const Shape& s, Options o) { return Tensor::ones(s, o); });
  plain(c, "rand", "Tensor.rand", [](const Shape& s, Options o) { return Tensor::rand(s, o); });
  plain(c, "randn", "Tensor.randn", [](const Shape& s, Options o) {
    if (!o.dtype || o.dtype->is_float()) return Tensor::randn(s, o);
    return Tensor::randn(s, {.dtype = std::nullopt, .device = o.device}).cast(*o.dtype);
  });
  plain(c, "scaled_uniform", "Tensor.scaled_uniform",
        [](const Shape& s, Options o) { return Tensor::scaled_uniform(s, o); });
  plain(c, "glorot_uniform", "Tensor.glorot_uniform",
        [](const Shape& s, Options o) { return Tensor::glorot_uniform(s, o); });
  shaped(c, "randint", "Tensor.randint", [](nb::kwargs& k) {
    const auto low = take<std::int64_t>(k, "low", 0), high = take<std::int64_t>(k, "high", 10);
    return [low, high](const Shape& s, Options o) { return Tensor::randint(s, low, high, o); };
  });
  shaped(c, "normal", "Tensor.normal", [](nb::kwargs& k) {
    const auto mean = take<double>(k, "mean", 0), std = take<double>(k, "std", 1);
    return [mean, std](const Shape& s, Options o) { return Tensor::normal(s, mean, std, o); };
  });
  shaped(c, "uniform", "Tensor.uniform", [](nb::kwargs& k) {
    const auto low = take<double>(k, "low", 0), high = take<double>(k, "high", 1);
    return [low, high](const Shape& s, Options o) {
      if (!o.dtype || o.dtype->is_float()) return Tensor::uniform(s, low, high, o);
      return Tensor::uniform(s, low, high, {.dtype = std::nullopt, .device = o.device}).cast(*o.dtype);
    };
  });
  shaped(c, "kaiming_uniform", "Tensor.kaiming_uniform", [](nb::kwargs& k) {
    const auto a = take<double>(k, "a", 0.01);
    return [a](const Shape& s, Options o) { return Tensor::kaiming_uniform(s, a, o); };
  });
  shaped(c, "kaiming_normal", "Tensor.kaiming_normal", [](nb::kwargs& k) {
    const auto a = take<double>(k, "a", 0.01);
    return [a](const Shape& s, Options o) { return Tensor::kaiming_normal(s, a, o); };
  });

  c.def_static(
      "full",
      [](const Shape& shape, nb::handle fill_value, nb::kwargs given) {
        Keywords k(given, "full");
        if (auto number = to_number(fill_value)) return k(Tensor::full(shape, *number, k.options));
        return k(make_tensor(fill_value, k.options).expand(shape));
      },
      "shape"_a, "fill_value"_a, "kwargs"_a, doc("Tensor.full"));
  c.def_static(
      "arange",
      [](nb::handle start, nb::handle stop, nb::handle step, nb::kwargs given) {
        Keywords k(given, "arange");
        auto first = to_number(start), last = to_number(stop), by = to_number(step);
        const auto begin = stop.is_none() ? Size(0) : to_size(start),
                   end = to_size(stop.is_none() ? start : stop), gap = to_size(step);
        if (begin && end && gap && (begin->is_symbolic() || end->is_symbolic() || gap->is_symbolic())) {
          const bool from_0 = !begin->is_symbolic() && begin->value() == 0;
          const bool by_1 = !gap->is_symbolic() && gap->value() == 1;
          if (!gap->is_symbolic() && gap->value() <= 0)
            throw UserError("arange", "a symbolic range has a positive step");
          const Size length = from_0 ? *end : *end - *begin;
          Tensor line = Tensor::arange(by_1 ? length : (length + *gap - 1) / *gap, k.options);
          if (!by_1) line = line.mul(*gap);
          return k(from_0 ? line : line.add(*begin));
        }
        if (!first || !by || (!stop.is_none() && !last))
          throw TypeError("arange", "the bounds must be numbers");
        return k(stop.is_none() ? Tensor::arange(Number(0), *first, *by, k.options)
                                : Tensor::arange(*first, *last, *by, k.options));
      },
      "start"_a, "stop"_a.none() = nb::none(), "step"_a = 1, "kwargs"_a, doc("Tensor.arange"));
  c.def_static(
      "linspace",
      [](Number start, Number stop, std::int64_t steps, nb::kwargs given) {
        Keywords k(given, "linspace");
        return k(Tensor::linspace(start, stop, steps, k.options));
      },
      "start"_a, "stop"_a, "steps"_a, "kwargs"_a, doc("Tensor.linspace"));
  c.def_static(
      "eye",
      [](std::int64_t n, std::optional<std::int64_t> m, nb::kwargs given) {
        Keywords k(given, "eye");
        return k(Tensor::eye(n, m, k.options));
      },
      "n"_a, "m"_a.none() = nb::none(), "kwargs"_a, doc("Tensor.eye"));
  c.def_static(
      "randperm",
      [](std::int64_t n, nb::kwargs given) {
        Keywords k(given, "randperm");
        return k(Tensor::randperm(n, k.options));
      },
      "n"_a, "kwargs"_a, doc("Tensor.randperm"));
  c.def_static(
      "random_bits",
      [](std::int64_t num, nb::kwargs given) {
        Keywords k(given, "random_bits");
        return Tensor::random_bits(num, k.options);
      },
      "num"_a, "kwargs"_a, doc("Tensor.random_bits"));
  c.def(
      "const_like",
      [](const Tensor& t, Number b, std::optional<DataType> dtype) {
        return dtype ? t.full_like(b, {.dtype = dtype, .device = t.device()}) : t.const_like(b);
      },
      "b"_a, "dtype"_a.none() = nb::none(), doc("Tensor.const_like"));
  c.def(
      "full_like",
      [](const Tensor& t, Number fill_value, nb::kwargs given) {
        Keywords k(given, "full_like");
        return k(t.full_like(fill_value, k.options));
      },
      "fill_value"_a, "kwargs"_a, doc("Tensor.full_like"));
  like(c, "zeros_like", "Tensor.zeros_like", [](const Tensor& t, Options o) { return t.zeros_like(o); });
  like(c, "ones_like", "Tensor.ones_like", [](const Tensor& t, Options o) { return t.ones_like(o); });
  like(c, "empty_like", "Tensor.empty_like", [](const Tensor& t, Options o) { return t.empty_like(o); });
  like(c, "rand_like", "Tensor.rand_like", [](const Tensor& t, Options o) { return t.rand_like(o); });
  like(c, "randn_like", "Tensor.randn_like", [](const Tensor& t, Options o) { return t.randn_like(o); });
  c.def(
      "multinomial",
      [](const Tensor& t, std::int64_t n, bool replacement) { return t.multinomial(n, replacement); },
      "num_samples"_a = 1, "replacement"_a = false, doc("Tensor.multinomial"));
}

}  // namespace lathe::python
