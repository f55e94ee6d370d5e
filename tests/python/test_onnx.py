"""lathe.nn.onnx against models written by hand and, where they are installed, ONNX's own tests."""

import pathlib

import numpy as np
import pytest
from lathe import Tensor, dtypes
from lathe.errors import UserError
from lathe.nn.onnx import OnnxRunner

NODE_TESTS = pathlib.Path("/usr/share/libonnx-testdata/data/node")


def field(number, data):
    return bytes([number << 3 | 2, len(data)]) + data


def relu_model(op=b"Relu"):
    """y = Relu(x), over N float32."""
    kind = field(1, b"\x08\x01" + field(2, field(1, field(2, b"N"))))
    graph = field(1, field(1, b"x") + field(2, b"y") + field(4, op))
    graph += field(11, field(1, b"x") + field(2, kind)) + field(12, field(1, b"y") + field(2, kind))
    return field(7, graph) + field(8, b"\x10\x11")


def test_a_model_runs_from_a_path_bytes_and_a_tensor(tmp_path):
    path = tmp_path / "relu.onnx"
    path.write_bytes(relu_model())
    for source in (path, str(path), relu_model(), Tensor(relu_model()), open(path, "rb")):
        runner = OnnxRunner(source)
        assert runner({"x": Tensor([-1.0, 2.0])})["y"].tolist() == [0.0, 2.0]


def test_inputs_may_be_arrays_and_lists_and_later_calls_are_replayed():
    runner = OnnxRunner(relu_model())
    for i in range(5):
        assert runner({"x": np.array([-1, i], dtype=np.float32)})["y"].tolist() == [0, i]
    assert runner.replayed
    assert runner({"x": [1.0, -1.0, 3.0]})["y"].tolist() == [1.0, 0.0, 3.0] and not runner.replayed
    assert runner.kernels({"x": [1.0]}) == 1


def test_a_named_dimension_may_stay_symbolic():
    runner = OnnxRunner(relu_model(), symbolic={"N": 8})
    for size in (3, 8, 1, 5, 2):
        assert runner({"x": [-1.0] + [2.0] * (size - 1)})["y"].tolist() == [0.0] + [2.0] * (size - 1)


def test_what_a_model_takes_is_told():
    runner = OnnxRunner(relu_model())
    spec = runner.graph_inputs["x"]
    assert (spec.shape, spec.dtype, spec.is_sequence, spec.is_optional) == (("N",), dtypes.float32, False, False)
    assert list(runner.graph_outputs) == ["y"] and runner.opset_version == 17
    assert runner.get_empty_input_data()["x"].shape == (1,)


def test_refusals_are_errors_of_lathe():
    with pytest.raises(NotImplementedError, match="1 operator is not supported: Nope"):
        OnnxRunner(relu_model(b"Nope"))
    with pytest.raises(UserError, match="not an ONNX model"):
        OnnxRunner(b"")
    with pytest.raises(FileNotFoundError):
        OnnxRunner("absent.onnx")
    runner = OnnxRunner(relu_model())
    with pytest.raises(UserError, match="input 'x' is missing"):
        runner({})
    with pytest.raises(UserError, match="the model has no input 'z'"):
        runner({"z": Tensor([1.0])})
    with pytest.raises(UserError, match="is int32, the model takes float32"):
        runner({"x": Tensor([1], dtype=dtypes.int32)})


@pytest.mark.skipif(not NODE_TESTS.exists(), reason="libonnx-testdata is not installed")
def test_strings_and_sequences_pass():
    runner = OnnxRunner(NODE_TESTS / "test_strnormalizer_nostopwords_nochangecase" / "model.onnx")
    assert runner({"x": ["monday", "tuesday"]}) == {"y": ["monday", "tuesday"]}
    runner = OnnxRunner(NODE_TESTS / "test_sequence_insert_at_back" / "model.onnx")
    (spec,) = [s for s in runner.graph_inputs.values() if s.is_sequence]
    (tensor,) = [s for s in runner.graph_inputs.values() if not s.is_sequence]
    items = [np.array([1, 2], dtype=np.int64), np.array([3], dtype=np.int64)]
    (out,) = runner({spec.name: items, tensor.name: np.array([7, 8, 9], dtype=np.int64)}).values()
    assert [t.tolist() for t in out] == [[1, 2], [3], [7, 8, 9]]
