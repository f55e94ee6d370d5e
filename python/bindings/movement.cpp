// Views, joining and splitting.
#include "bind.h"

namespace lathe::python {
namespace {

using Bounds = std::vector<std::pair<Size, Size>>;

// ((1, 2), None, ...): None leaves an axis alone.
Bounds bounds_argument(nb::handle given, const Tensor& t, bool padding, const char* op) {
  Bounds out;
  const Shape& shape = t.shape();
  std::size_t i = 0;
  for (nb::handle h : nb::borrow(given)) {
    if (h.is_none()) {
      if (i >= shape.size()) throw UserError(op, "more axes are given than there are");
      out.emplace_back(0, padding ? Size(0) : shape[i]);
    } else {
      nb::object pair = nb::borrow(h);
      auto low = to_size(pair[0]), high = to_size(pair[1]);
      if (!low || !high) throw TypeError(op, "a pair of integers or None is needed for each axis");
      out.emplace_back(*low, *high);
    }
    ++i;
  }
  return out;
}

bool is_flat(nb::handle padding) {
  for (nb::handle h : nb::borrow(padding)) return to_size(h).has_value();
  return false;
}

// (low of the last axis, high of it, low of the one before, ...), some symbolic.
Bounds pairs_argument(const Shape& flat, const Tensor& t, const std::string& mode) {
  const std::size_t rank = t.shape().size();
  if (mode != "constant") throw UserError("pad", "symbolic padding has mode \"constant\"");
  if (flat.size() % 2 != 0 || flat.size() > 2 * rank)
    throw UserError("pad", std::to_string(flat.size()) + " numbers for " + std::to_string(rank) +
                               " axes; they come in pairs, last axis first");
  Bounds out(rank, {0, 0});
  for (std::size_t i = 0; i < flat.size() / 2; ++i) out[rank - 1 - i] = {flat[2 * i], flat[2 * i + 1]};
  return out;
}

Tensor pad(const Tensor& t, nb::handle padding, const std::string& mode, Number value) {
  if (is_flat(padding)) {
    Ints flat;
    if (nb::try_cast(padding, flat)) return t.pad(flat, mode, value);
    return t.pad(pairs_argument(nb::cast<Shape>(padding), t, mode), value);
  }
  Bounds bounds = bounds_argument(padding, t, true, "pad");
  if (mode == "constant") return t.pad(bounds, value);
  std::vector<std::int64_t> flat;  // from the last axis on
  for (std::size_t i = bounds.size(); i-- > 0;) {
    flat.push_back(bounds[i].first);
    flat.push_back(bounds[i].second);
  }
  return t.pad(Ints(flat), mode, value);
}

nb::tuple tuple_of(const std::vector<Tensor>& tensors) {
  nb::list out;
  for (const Tensor& t : tensors) out.append(t);
  return nb::tuple(out);
}

// x.cat(y, z) and Tensor.cat(x, y, z) and Tensor.cat([x, y, z]) are one function.
std::vector<Tensor> joined(nb::handle first, const nb::args& rest) {
  std::vector<Tensor> out;
  auto add = [&](nb::handle h) {
    if (PyTuple_Check(h.ptr()) || PyList_Check(h.ptr())) {
      for (nb::handle item : nb::borrow(h)) out.push_back(nb::cast<Tensor&>(item));
    } else {
      out.push_back(nb::cast<Tensor&>(h));
    }
  };
  const bool is_list = PyTuple_Check(first.ptr()) || PyList_Check(first.ptr());
  if (is_list && rest.size() != 0) throw UserError("join", "the tensors are either one list, or arguments");
  add(first);
  for (nb::handle h : rest) add(h);
  return out;
}

}  // namespace

void bind_movement(TensorClass& c) {
  for (const char* name : {"reshape", "view"})
    c.def(
        name,
        [](const Tensor& t, nb::args shape, nb::kwargs named) {
          Shape sizes;
          std::size_t i = 0;
          for (nb::handle h : flat_arguments(shape, named, "shape")) {  // None keeps a size
            if (h.is_none()) {
              sizes.push_back(t.size(static_cast<std::int64_t>(i)));
            } else {
              auto size = to_size(h);
              if (!size) throw TypeError("reshape", "a size is " + nb::cast<std::string>(nb::repr(h)));
              sizes.push_back(*size);
            }
            ++i;
          }
          return t.reshape(sizes);
        },
        "shape"_a, "named"_a, doc(std::string("Tensor.") + name));
  c.def(
      "expand",
      [](const Tensor& t, nb::args shape, nb::kwargs named) {
        Shape sizes;
        for (nb::handle h : flat_arguments(shape, named, "shape")) {
          auto size = h.is_none() ? std::optional(Size(-1)) : to_size(h);
          if (!size) throw TypeError("expand", "a size is " + nb::cast<std::string>(nb::repr(h)));
          sizes.push_back(*size);
        }
        return t.expand(sizes);
      },
      "shape"_a, "named"_a, doc("Tensor.expand"));
  c.def(
      "permute",
      [](const Tensor& t, nb::args order, nb::kwargs named) {
        return t.permute(ints_argument(order, named, "order"));
      },
      "order"_a, "named"_a, doc("Tensor.permute"));
  c.def(
      "flip",
      [](const Tensor& t, nb::args axis, nb::kwargs named) {
        Ints axes = ints_argument(axis, named, "axis");
        return axes.empty() ? t : t.flip(axes);
      },
      "axis"_a, "named"_a, doc("Tensor.flip"));
  c.def(
      "repeat",
      [](const Tensor& t, nb::args repeats, nb::kwargs named) {
        return t.repeat(ints_argument(repeats, named, "repeats"));
      },
      "repeats"_a, "named"_a, doc("Tensor.repeat"));
  c.def(
      "shrink",
      [](const Tensor& t, nb::handle arg) { return t.shrink(bounds_argument(arg, t, false, "shrink")); },
      "arg"_a, doc("Tensor.shrink"));
  c.def("pad", pad, "padding"_a, "mode"_a = "constant", "value"_a = 0.0, doc("Tensor.pad"));
  c.def(
      "pad_to",
      [](const Tensor& t, nb::args shape, Number value) {
        Shape sizes;
        std::size_t i = 0;
        for (nb::handle h : flat_arguments(shape)) {
          sizes.push_back(h.is_none() ? t.size(static_cast<std::int64_t>(i)) : nb::cast<Size>(h));
          ++i;
        }
        if (value.to_double() == 0) return t.pad_to(sizes);
        Bounds bounds;
        for (std::size_t k = 0; k < sizes.size() && k < t.shape().size(); ++k)
          bounds.emplace_back(0, sizes[k] - t.shape()[k]);
        return t.pad(bounds, value);
      },
      "shape"_a, "value"_a = 0, doc("Tensor.pad_to"));
  c.def(
      "shrink_to",
      [](const Tensor& t, nb::args shape) {
        Shape sizes;
        std::size_t i = 0;
        for (nb::handle h : flat_arguments(shape)) {
          sizes.push_back(h.is_none() ? t.size(static_cast<std::int64_t>(i)) : nb::cast<Size>(h));
          ++i;
        }
        return t.shrink_to(sizes);
      },
      "shape"_a, doc("Tensor.shrink_to"));
  c.def(
      "squeeze", [](const Tensor& t, std::optional<std::int64_t> dim) { return t.squeeze(dim); },
      "dim"_a.none() = nb::none(), doc("Tensor.squeeze"));
  c.def(
      "unsqueeze", [](const Tensor& t, std::int64_t dim) { return t.unsqueeze(dim); }, "dim"_a,
      doc("Tensor.unsqueeze"));
  c.def(
      "transpose", [](const Tensor& t, std::int64_t a, std::int64_t b) { return t.transpose(a, b); },
      "dim0"_a = 1, "dim1"_a = 0, doc("Tensor.transpose"));
  c.def(
      "movedim", [](const Tensor& t, std::int64_t a, std::int64_t b) { return t.movedim(a, b); }, "source"_a,
      "destination"_a, doc("Tensor.movedim"));
  c.def(
      "flatten", [](const Tensor& t, std::int64_t a, std::int64_t b) { return t.flatten(a, b); },
      "start_dim"_a = 0, "end_dim"_a = -1, doc("Tensor.flatten"));
  c.def(
      "unflatten",
      [](const Tensor& t, std::int64_t dim, const Shape& sizes) { return t.unflatten(dim, sizes); }, "dim"_a,
      "sizes"_a, doc("Tensor.unflatten"));
  c.def(
      "rearrange",
      [](const Tensor& t, const std::string& formula, nb::kwargs sizes) {
        std::vector<std::pair<std::string, std::int64_t>> named;
        for (auto [key, value] : sizes)
          named.emplace_back(nb::cast<std::string>(key), nb::cast<std::int64_t>(value));
        return t.rearrange(formula, named);
      },
      "formula"_a, "sizes"_a, doc("Tensor.rearrange"));
  // Methods whose self may be a list: on the class they take any object first.
  for (const char* name : {"cat", "stack"}) {
    const bool is_cat = name[0] == 'c';
    c.def(
        name,
        [is_cat](nb::handle first, nb::args rest, std::int64_t dim) {
          const std::vector<Tensor> all = joined(first, rest);
          return is_cat ? Tensor::cat(all, dim) : Tensor::stack(all, dim);
        },
        "args"_a, "dim"_a = 0, doc(std::string("Tensor.") + name));
  }
  c.def(
      "split",
      [](const Tensor& t, nb::handle sizes, std::int64_t dim) {
        if (auto one = to_size(sizes)) return tuple_of(t.split(one->value(), dim));
        return tuple_of(t.split(nb::cast<std::vector<std::int64_t>>(sizes), dim));
      },
      "sizes"_a, "dim"_a = 0, doc("Tensor.split"));
  c.def(
      "chunk", [](const Tensor& t, std::int64_t chunks, std::int64_t dim) { return t.chunk(chunks, dim); },
      "chunks"_a, "dim"_a = 0, doc("Tensor.chunk"));
  c.def(
      "meshgrid",
      [](nb::handle first, nb::args rest, const std::string& indexing) {
        return tuple_of(Tensor::meshgrid(joined(first, rest), indexing));
      },
      "args"_a, "indexing"_a = "ij", doc("Tensor.meshgrid"));
  c.def(
      "repeat_interleave",
      [](const Tensor& t, std::int64_t repeats, std::optional<std::int64_t> dim) {
        return t.repeat_interleave(repeats, dim);
      },
      "repeats"_a, "dim"_a.none() = nb::none(), doc("Tensor.repeat_interleave"));
  c.def(
      "roll", [](const Tensor& t, const Ints& shifts, const Ints& dims) { return t.roll(shifts, dims); },
      "shifts"_a, "dims"_a.none() = nb::none(), doc("Tensor.roll"));
  c.def("diag", [](const Tensor& t) { return t.diag(); }, doc("Tensor.diag"));
  c.def(
      "diagonal",
      [](const Tensor& t, std::int64_t offset, std::int64_t a, std::int64_t b) {
        return t.diagonal(offset, a, b);
      },
      "offset"_a = 0, "dim1"_a = 0, "dim2"_a = 1, doc("Tensor.diagonal"));
  c.def(
      "unfold",
      [](const Tensor& t, std::int64_t dim, std::int64_t size, std::int64_t step) {
        return t.unfold(dim, size, step);
      },
      "dim"_a, "size"_a, "step"_a, doc("Tensor.unfold"));
  c.def(
      "triu", [](const Tensor& t, const Size& diagonal) { return t.triu(diagonal); }, "diagonal"_a = 0,
      doc("Tensor.triu"));
  c.def(
      "tril", [](const Tensor& t, const Size& diagonal) { return t.tril(diagonal); }, "diagonal"_a = 0,
      doc("Tensor.tril"));
}

}  // namespace lathe::python
