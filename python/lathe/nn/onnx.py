"""ONNX models: a file is read once and run with named inputs (docs/onnx.md)."""

from lathe._core import OnnxModel, Tensor, UserError
from lathe.dtype import dtypes


class OnnxValue:
    """What an input or output takes: `shape` holds numbers and the names of dimensions, `dtype` is a dtype."""

    def __init__(self, name, text, dims):
        self.name, self.text = name, text
        self.is_optional = text.startswith("optional ")
        text = text.removeprefix("optional ")
        self.is_sequence = text.startswith("sequence of ")
        self.element = text.removeprefix("sequence of ")
        self.shape = None if dims is None else tuple(int(d) if d.isdigit() else d for d in dims)

    @property
    def dtype(self):
        """The dtype of its elements; None for strings."""
        return getattr(dtypes, self.element, None)

    def __repr__(self):
        return f"OnnxValue({self.name!r}, {self.text}, {self.shape})"


def _flat_strings(value):
    """Shape and elements of nested lists (or an array) of strings."""
    if isinstance(value, (str, bytes)):
        return [], [value.decode() if isinstance(value, bytes) else value]
    parts = [_flat_strings(item) for item in value]
    shape = [len(parts)] + (parts[0][0] if parts else [])
    if any(part[0] != shape[1:] for part in parts):
        raise UserError("lathe: onnx: the lists of strings have different lengths")
    return shape, [text for part in parts for text in part[1]]


def _nested_strings(shape, texts):
    if not shape:
        return texts[0]
    step = len(texts) // shape[0] if shape[0] else 0
    return [_nested_strings(shape[1:], texts[i * step : (i + 1) * step]) for i in range(shape[0])]


class OnnxRunner:
    """Runs an ONNX model.

    `model_path` is a path, bytes, an open file or a tensor of bytes. Calling the runner with a dict of inputs gives a
    dict of outputs; inputs are tensors, arrays, numbers or lists of them. A call with shapes that were seen before
    replays captured kernels. `symbolic={"N": 64}` builds the graph over a variable N of 1 to 64.
    """

    def __init__(self, model_path, device=None, capture=True, symbolic=None):
        self._model = OnnxModel(model_path, device or "", capture, symbolic or {})
        summary = self._model.summary()
        self.summary = summary
        self.graph_inputs = {p[0]: OnnxValue(*p) for p in summary["inputs"]}
        self.graph_outputs = {p[0]: OnnxValue(*p) for p in summary["outputs"]}
        self.opset_version = summary["opsets"].get("", 1)

    @property
    def replayed(self):
        """Whether the last call replayed captured kernels."""
        return self._model.replayed

    def _tensor(self, spec, value):
        if isinstance(value, Tensor):
            return value
        return Tensor(value, dtype=spec.dtype)

    def _input(self, name, value):
        if name not in self.graph_inputs:
            return self._tensor(OnnxValue(name, "", None), value)  # refused, or one that has an initializer
        spec = self.graph_inputs[name]
        if value is None:
            return None
        if spec.is_sequence:
            return [self._tensor(spec, item) for item in value]
        if spec.element == "string":
            shape, texts = _flat_strings(value)
            return shape, texts
        return self._tensor(spec, value)

    def __call__(self, inputs, debug=None):
        outputs = self._model.run({name: self._input(name, value) for name, value in inputs.items()})
        return {name: _nested_strings(*v) if isinstance(v, tuple) else v for name, v in outputs.items()}

    def kernels(self, inputs):
        """The number of kernels a call with these inputs runs."""
        return self._model.kernels({name: self._input(name, value) for name, value in inputs.items()})

    def get_empty_input_data(self, device=None, dtype=None):
        """Uninitialized tensors for every input; named dimensions are 1."""
        return {
            name: Tensor.empty(
                *(d if isinstance(d, int) else 1 for d in spec.shape or ()), device=device, dtype=dtype or spec.dtype
            )
            for name, spec in self.graph_inputs.items()
        }


__all__ = ["OnnxRunner", "OnnxValue"]
