"""Values shared with numpy, PyTorch and the buffer protocol; pickling; memory; devices; settings; the small parts."""

import copy
import gc
import inspect
import pickle
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
import pytest
import torch

import lathe
from lathe import Context, Device, GlobalCounters, KernelOptError, Opt, OptOps, Tensor, TinyJit, Variable, dtypes, getenv, nn, no_grad, set_options
from lathe import methods
from lathe.amp import GradScaler
from lathe.autograd import checkpoint, register_op
from lathe.data import DataLoader
from lathe.helpers import BEAM, DEBUG, Timing, fetch, memory_stats, prod


def address(x):
    return np.asarray(x).__array_interface__["data"][0]


def test_numpy_and_lathe_share_memory_both_ways():
    x = Tensor([1.0, 2.0, 3.0]).realize()
    assert address(x) == address(x) and not np.asarray(x).flags.writeable
    assert np.asarray(x).base is not None
    own = x.numpy()
    assert own.flags.writeable and own.__array_interface__["data"][0] != address(x)
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    y = Tensor.from_numpy(a)
    assert address(y) == a.__array_interface__["data"][0]
    a[0, 0] = 9
    assert y.tolist()[0][0] == 9
    assert Tensor(a.T).tolist() == a.T.tolist()
    assert Tensor(np.float64(2.5)).dtype is dtypes.float32 and Tensor(np.int8(3)).item() == 3
    with pytest.raises(ValueError):
        Tensor.from_numpy(a.T)


def test_pytorch_and_lathe_share_memory_both_ways():
    x = Tensor([1.0, 2.0, 3.0]).realize()
    assert torch.from_dlpack(x).data_ptr() == address(x)
    t = torch.arange(4, dtype=torch.int64)
    y = Tensor.from_dlpack(t)
    t[0] = 7
    assert y.tolist() == [7, 1, 2, 3] and address(y) == t.data_ptr()
    assert Tensor(torch.tensor([[1.5]])).tolist() == [[1.5]]
    half = torch.tensor([0.5, 2.0], dtype=torch.bfloat16)
    assert Tensor.from_dlpack(half).dtype is dtypes.bfloat16 and Tensor(half).tolist() == [0.5, 2.0]
    assert torch.equal(torch.from_dlpack(Tensor([0.5, 2.0], dtype=dtypes.bfloat16)), half)
    with pytest.raises(TypeError):
        Tensor([1.0], dtype=dtypes.fp8e4m3).__dlpack__()


def test_the_buffer_protocol():
    x = Tensor([[1, 2], [3, 4]])
    view = memoryview(x)
    assert view.shape == (2, 2) and view.format == "i" and view.readonly and view.tolist() == [[1, 2], [3, 4]]
    assert x.data()[1, 0] == 3 and x.T.data().tolist() == [[1, 3], [2, 4]]
    assert bytes(Tensor(b"abc").data()) == b"abc" and Tensor(b"\0\0\x80?", dtype=dtypes.float).item() == 1.0
    assert Tensor(memoryview(b"xy")).tolist() == [120, 121]
    assert Tensor([]).data().shape == (0,)


def test_the_shared_array_outlives_its_tensor():
    a = np.asarray(Tensor.arange(1000).contiguous().realize())
    gc.collect()
    junk = [Tensor.full((1000,), 7).contiguous().realize() for _ in range(5)]
    assert a.tolist() == list(range(1000)) and len(junk) == 5


def test_lists_and_files_become_tensors(tmp_path):
    assert Tensor([[1, 2], [3, 4]]).shape == (2, 2) and Tensor(()).shape == (0,) and Tensor([Tensor([1.0]), Tensor([2.0])]).tolist() == [[1.0], [2.0]]
    with pytest.raises(ValueError):
        Tensor([[1, 2], [3]])
    with pytest.raises(TypeError):
        Tensor(["a"])
    path = tmp_path / "bytes"
    path.write_bytes(bytes(range(16)))
    on_disk = Tensor(path)
    assert on_disk.device.startswith("DISK") and on_disk[4:8].to("CPU").tolist() == [4, 5, 6, 7]
    assert Tensor(path, dtype=dtypes.uint32).shape == (4,)
    assert fetch(str(path)) == path


def test_tensors_pickle_and_copy():
    x = Tensor([[1.5, 2.0]], requires_grad=True)
    for again in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert again.tolist() == x.tolist() and again.requires_grad is True and again is not x
    state = pickle.loads(pickle.dumps(nn.state.get_state_dict(nn.Linear(2, 3))))
    assert list(state) == ["weight", "bias"]


def test_save_and_load(tmp_path):
    lathe.save({"x": Tensor([1, 2]), "net": nn.state.get_state_dict(nn.Linear(2, 1))}, tmp_path / "file")
    loaded = lathe.load(tmp_path / "file")
    assert loaded["x"].tolist() == [1, 2] and loaded["net"]["weight"].shape == (1, 2)


def test_a_tensor_is_one_object_while_it_lives():
    x = Tensor([1.0, 2.0], requires_grad=True)
    (x * x).sum().backward()
    grad = x.grad
    assert x.grad is grad and len({x: 1, x.reshape(1, 2): 2}) == 2 and x in [x]
    assert weakref.ref(x)() is x
    assert "float32" in repr(x) and "CPU" in repr(x)


def test_memory_is_freed_when_objects_die():
    gc.collect()
    before = memory_stats()["used"]
    for _ in range(20):
        x = Tensor.rand(1000, 100).realize()
        y = (x + 1).realize()
        layer = nn.Linear(100, 100)
        loss = layer(y).sum().backward()
        layer.weight.grad.realize()
        del x, y, layer, loss
    gc.collect()
    assert memory_stats()["used"] - before < 1_000_000
    step = TinyJit(lambda x: (x * 2).realize())
    for _ in range(50):
        step(Tensor.rand(1000, 100).realize())
    gc.collect()
    assert memory_stats()["used"] - before < 3_000_000


def test_gradients_with_and_without_asking():
    x, y = Tensor([1.0, 2.0]), Tensor([3.0, 4.0], requires_grad=False)
    z = x * y
    z.sum().backward()
    assert x.grad.tolist() == [3.0, 4.0] and y.grad is None and z.grad.tolist() == [1.0, 1.0]
    x.sum().backward()
    assert x.grad.tolist() == [4.0, 5.0]
    (a,) = (x * x).sum().gradient(x)
    (b,) = a.sum().gradient(x)
    assert b.tolist() == [2.0, 2.0]
    with pytest.raises(ValueError):
        (x * x).backward()
    (x * x).backward(gradient=Tensor([1.0, 0.0]))
    w = Tensor([1.0], requires_grad=True)
    with no_grad():
        assert (w * 2).requires_grad is not True
    unasked = Tensor([2.0])
    opt = nn.optim.SGD([w], lr=1.0)
    (unasked * w).sum().backward()
    with Tensor.train():
        opt.step()
    assert w.tolist() == [-1.0]
    with pytest.raises(ValueError, match="overwritten"):
        unasked.grad.item()


def test_every_method_keeps_its_tensors_device():
    """Generated over all methods: on CPU:1 while the default is another."""
    given = {"x": 2, "other": None, "dim": 0, "dtype": "float32"}
    x, index = Tensor([[1.5, 0.5], [0.25, 0.75]], device="CPU:1"), Tensor([[0, 1], [1, 0]], device="CPU:1")
    arguments = {
        "reshape": (4,), "view": (4,), "expand": (2, 2), "permute": (1, 0), "flip": (0,), "repeat": (2, 1), "shrink": (((0, 1), (0, 1)),),
        "pad": (((0, 1), (0, 1)),), "pad_to": (3, 3), "shrink_to": (1, 1), "unsqueeze": (0,), "unflatten": (0, (1, 2)), "rearrange": ("a b -> b a",),
        "movedim": (0, 1), "cat": (x,), "stack": (x,), "split": (1,), "chunk": (2,), "repeat_interleave": (2,), "roll": (1, 0), "unfold": (0, 1, 1),
        "gather": (0, index), "scatter": (0, index, x), "scatter_reduce": (0, index, x, "sum"), "masked_select": (x > 1,), "embedding": (index,),
        "topk": (1,), "where": (x, x), "masked_fill": (x > 1, 0.0), "lerp": (x, 0.5), "isclose": (x,), "dot": (x,), "matmul": (x,), "linear": (x,),
        "cast": ("float16",), "bitcast": ("int32",), "const_like": (1,), "full_like": (1,), "newton_schulz": (1, (1.0, 1.0, 1.0)), "usum": (x,), "uprod": (x,),
        "binary_crossentropy": (x,), "binary_crossentropy_logits": (x,), "cross_entropy": (index[0],), "sparse_categorical_crossentropy": (index[0],),
        "nll_loss": (index[0],), "assign": (x + 1,), "multinomial": (1,), "to": ("CPU:1",), "shard": (("CPU:1",),), "shard_like": (x,),
        "interpolate": ((3,),), "sequential": ([Tensor.relu],), "replace": (x,), "gradient": (x,), "requires_grad_": (False,), "is_param_": (False,),
        "__getitem__": (0,), "scaled_dot_product_attention": (x, x), "one_hot": (3,), "meshgrid": (), "div": (2,), "pow": (2,), "set_options": (),
        "clamp": (0.3,), "clip": (0.3,), "max_pool2d": (), "avg_pool2d": (), "normalize": (), "__contains__": (1.5,), "shard_": (("CPU:1",),), "to_": ("CPU:1",), "keccak": (),
    }
    # Not about devices, or of other shapes and dtypes than x has.
    skip = {
        "__init__", "item", "tolist", "numpy", "data", "tobytes", "numel", "size", "element_size", "nbytes", "is_floating_point", "backward", "custom_kernel", "conv2d",
        "conv_transpose2d", "max_unpool2d", "batchnorm", "schedule", "schedule_linear", "schedule_with_vars", "linear_with_vars", "kernelize", "train", "test", "from_url", "allclose", "diag", "hash", "keccak", "interpolate",
        "max_pool2d", "avg_pool2d", "one_hot", "bitwise_not", "bitwise_and", "bitwise_or", "bitwise_xor", "lshift", "rshift", "meshgrid", "gradient", "shard_", "to_",
    }  # fmt: skip
    binary = {n for n in dir(Tensor) if n in ("add sub mul fdiv idiv floor_divide mod fmod maximum minimum copysign logaddexp eq ne lt le gt ge").split()}
    static = {n for n in dir(Tensor) if isinstance(Tensor.__dict__.get(n), staticmethod) or type(Tensor.__dict__.get(n)).__name__ == "nb_func"}
    checked = 0
    written = set(methods._NAMES)
    for name in sorted(n for n in dir(Tensor) if not n.startswith("_") and callable(getattr(Tensor, n))):
        if name in skip or name in static or name in written:
            continue
        args = (x,) if name in binary else arguments.get(name, ())
        out = getattr(Tensor([[1.5, 0.5], [0.25, 0.75]], device="CPU:1"), name)(*args)
        for t in out if isinstance(out, (tuple, list)) else (out,):
            assert t.device == "CPU:1", name
        checked += 1
    assert checked > 120 and given
    assert Device.DEFAULT == "CPU" and Device.canonicalize("cpu:0") == "CPU"
    with pytest.raises(ValueError, match="CPU:1"):
        x + Tensor([[1.0, 2.0], [3.0, 4.0]]).realize()


def test_every_method_written_in_python_keeps_its_tensors_device():
    moves = ("cpu", "cuda", "to_dense", "apply_", "map_", "map2_")
    checked = 0
    for name in methods._NAMES:
        method = getattr(Tensor, name)
        if name in moves or not hasattr(method, "__code__"):
            continue
        x, index = Tensor([[1.5, 0.5], [0.25, 0.75]], device="CPU:1"), Tensor([0, 1], dtype=dtypes.int32, device="CPU:1")
        parameters = list(inspect.signature(method).parameters.values())[1:]
        known = {"dim": 0, "index": index, "k": 1, "p": 1, "q": 0.5, "min": 0, "max": 1, "length": 1, "start": 0, "size": (2,), "n": 1, "reduce": "amax",
                 "fill_value": 1, "value": 1, "maxnorm": 1.0, "indices_or_sections": 2, "split_sizes": [1, 1], "bins": 3, "data": [1.0], "exponent": 2,
                 "indices": index.reshape(2, 1)}  # fmt: skip
        args = [known.get(p.name, x) for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
        try:
            out = method(x, *args)
            parts = [t for t in (out if isinstance(out, (tuple, list)) else (out,)) if isinstance(t, Tensor)]
            assert all(t.realize().device == "CPU:1" for t in parts), name
            checked += bool(parts)
        except (ValueError, TypeError, IndexError) as error:
            assert "device" not in str(error).lower(), f"{name}: {error}"
    assert checked > 120, checked


def test_settings_counters_and_environment(monkeypatch):
    assert DEBUG == 0 and not BEAM
    with Context(DEBUG=0, BEAM=0, TC=2, DEV="CPU:1"):
        assert Tensor([1.0]).device == "CPU:1"
    assert Tensor([1.0]).device == "CPU"

    @Context(TRAINING=1)
    def training():
        return Tensor.training

    assert training() is True and Tensor.training is False
    Tensor.training = True
    assert Tensor.training
    Tensor.training = False
    with pytest.raises(ValueError, match="no setting"):
        Context(NO_SUCH_SETTING_AT_ALL=1)
    monkeypatch.setenv("LATHE_TEST_STEPS", "7")
    assert getenv("LATHE_TEST_STEPS", 3) == 7 and getenv("LATHE_NOT_THERE", "x") == "x" and prod([2, 3]) == 6
    GlobalCounters.reset()
    (Tensor.rand(64, 64).realize() + 1).realize()
    assert GlobalCounters.kernel_count >= 2 and GlobalCounters.global_ops > 0 and GlobalCounters.global_mem > 0
    with Timing(enabled=False) as timing:
        pass
    assert timing.et >= 0 and lathe.__version__


def test_kernel_options_are_used_or_refused():
    x = Tensor.rand(16, 16).realize()
    expected = x.numpy() + 1
    np.testing.assert_allclose(set_options(x + 1, [Opt(OptOps.UPCAST, 0, 4)]).numpy(), expected)
    np.testing.assert_allclose((x + 1).contiguous(arg=(Opt(OptOps.UPCAST, 0, 2),)).numpy(), expected)
    with pytest.raises(KernelOptError):
        set_options(x * 3, [Opt(OptOps.UPCAST, 9, 4)]).realize()


def test_arange_with_a_symbolic_step_and_slices_between_two_variables():
    start, stop, step = Variable("start", 0, 40), Variable("stop", 41, 90), Variable("step", 1, 5)
    for a, b, s in ((5, 44, 4), (0, 41, 1), (40, 90, 5)):
        assert Tensor.arange(0, b, step.bind(s)).tolist() == list(range(0, b, s))
        assert Tensor.arange(start.bind(a), stop.bind(b), step.bind(s)).tolist() == list(range(a, b, s))
    x = np.arange(1000.0, dtype=np.float32).reshape(100, 10)
    part = Tensor(x)[start.bind(3) : stop.bind(60)]
    np.testing.assert_array_equal(part.sum(1).numpy(), x[3:60].sum(1))
    np.testing.assert_array_equal((part * 2 + 1).numpy(), x[3:60] * 2 + 1)


def test_arange_with_a_step_has_as_many_numbers_as_the_slice_it_meets():
    n = Variable("n", 2, 7)
    for k in (2, 4, 7):
        b = n.bind(k)
        x = np.arange(7, dtype=np.int32)
        np.testing.assert_array_equal((Tensor.arange(0, 2 * b, 2) + Tensor(x)[:b]).numpy(), 3 * x[:k])
        np.testing.assert_array_equal((Tensor.arange(0, b * b, b) + Tensor(x)[:b]).numpy(), (k + 1) * x[:k])
        np.testing.assert_array_equal((Tensor.arange(1, b + 1) + Tensor(x)[:b]).numpy(), 2 * x[:k] + 1)
        assert (Tensor.arange(0, b, b) + Tensor(x)).reshape(7, 1).shape == (7, 1)


def test_variables_in_shapes_slices_and_arithmetic():
    n = Variable("n", 1, 10).bind(3)
    x = Tensor.arange(10)[:n]
    assert int(x.shape[0]) == 3 and (n + 1).val == 4 and (2 * n - 1).val == 5 and x.sum().item() == 3
    assert (Tensor([1, 2]) * n).tolist() == [3, 6] and Tensor(n).item() == 3
    with pytest.raises(ValueError):
        Variable("n", 1, 10).bind(11)


def test_user_defined_ops_checkpoints_scaling_and_loading():
    cube = register_op("test_cube", lambda x: x * x * x, lambda inputs, output, grad: [grad * 3 * inputs[0].square()])
    x = Tensor([2.0], requires_grad=True)
    cube(x).sum().backward()
    assert x.grad.item() == 12.0
    y = Tensor([0.5, 1.0], requires_grad=True)
    checkpoint(lambda t: (t * t).exp(), y).sum().backward()
    np.testing.assert_allclose(y.grad.numpy(), 2 * y.numpy() * np.exp(y.numpy() ** 2), rtol=1e-4)
    w = Tensor([1.0], requires_grad=True)
    opt, scaler = nn.optim.SGD([w], lr=0.5), GradScaler(init_scale=4.0)
    scaler.scale((w * float("inf")).sum()).backward()
    assert not scaler.step(opt)
    scaler.update()
    assert scaler.get_scale() == 2.0 and w.item() == 1.0
    orders = [[b[0].tolist() for b in DataLoader((Tensor.arange(20),), 6, shuffle=True, num_workers=k, seed=5)] for k in (0, 1, 3)]
    assert orders[0] == orders[1] == orders[2] and sorted(sum(orders[0], [])) == list(range(20))


def test_other_threads_run_while_kernels_do():
    ticks, done = [], threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(1)
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    a = Tensor.rand(700, 700).realize()
    before = len(ticks)
    for _ in range(5):
        a = (a @ a).realize()
    a.numpy()
    done.set()
    thread.join()
    assert len(ticks) > before


def test_importing_takes_no_numpy():
    code = "import sys, lathe; assert 'numpy' not in sys.modules and 'torch' not in sys.modules; print(lathe.Tensor([1.0]).tolist())"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[1.0]"


def test_words_of_tinygrad_can_be_imported():
    from lathe.device import is_dtype_supported
    from lathe.dtype import DType
    from lathe.engine.jit import TinyJit as Same
    from lathe.helpers import CI, IMAGE, colored, dedup  # noqa: F401
    from lathe.nn.optim import LAMB, LARS, SGD, Adam, AdamW, Muon  # noqa: F401
    from lathe.nn.state import get_parameters  # noqa: F401
    from lathe.tensor import Tensor as Also

    assert Same is TinyJit and Also is Tensor and is_dtype_supported(dtypes.half) and isinstance(dtypes.half, DType)
    assert len(Tensor([1.0, 2.0]).realize().add(1).schedule()) == 1 and Tensor([1.0]).kernelize().tolist() == [1.0]


def test_an_operator_between_a_tensor_and_an_array_is_a_tensor():
    import operator

    a, b = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32), np.array([[4.0, 3.0], [2.0, 1.0]], np.float32)
    for name in ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lt", "le", "gt", "ge", "eq", "ne", "matmul"]:
        op = getattr(operator, name)
        for mine in (op(Tensor(a), b), op(a, Tensor(b))):
            assert isinstance(mine, Tensor), name
            np.testing.assert_allclose(mine.numpy(), op(a, b), rtol=1e-6)
    i = np.array([1, 2, 6], np.int32)
    for name in ["and_", "or_", "xor", "lshift", "rshift"]:
        op = getattr(operator, name)
        assert op(Tensor([5, 3, 1]), i).tolist() == op(i * 0 + [5, 3, 1], i).tolist() and isinstance(op(i, Tensor([1, 1, 1])), Tensor)
    w = Tensor([1.0, 2.0], requires_grad=True)
    (w * np.array([3.0, 4.0], np.float32)).sum().backward()
    assert w.grad.tolist() == [3.0, 4.0]
    assert isinstance(np.float64(2.0) * Tensor(a), Tensor) and (np.float32(2.0) * Tensor(a)).dtype == dtypes.float32
    kept = Tensor(a).contiguous().realize()
    alias = kept
    alias += b
    assert alias is kept and (kept.numpy() == a + b).all()
    array = a.copy()
    array += Tensor(b)
    assert isinstance(array, np.ndarray) and (array == a + b).all()
    np.testing.assert_allclose(np.exp(Tensor(a)), np.exp(a), rtol=1e-6)  # numpy's own functions take the values
    assert np.maximum(Tensor(a), 2.5).tolist() == np.maximum(a, 2.5).tolist()
    with pytest.raises(TypeError):
        Tensor(a) + object()


def test_classes_that_are_no_integers_are_refused():
    logits = Tensor.rand(4, 3)
    for target in (Tensor([0.0, 1.0, 2.0, 1.0]), Tensor([True, False, True, False])):
        for loss in (logits.sparse_categorical_crossentropy, logits.cross_entropy, logits.log_softmax().nll_loss):
            with pytest.raises(TypeError, match="targets are classes, which are integers"):
                loss(target)
    # -1 and -100, which mean that a target does not count, are no class of an unsigned dtype.
    for loss, target in ((Tensor.rand(2, 256).sparse_categorical_crossentropy, 255), (Tensor.rand(2, 256).cross_entropy, 156)):
        assert loss(Tensor([target, target], dtype=dtypes.uint8)).item() == loss(Tensor([target, target])).item() > 0
    for dtype in (dtypes.uint8, dtypes.int64):
        assert logits.sparse_categorical_crossentropy(Tensor([0, 1, 2, 1], dtype=dtype)).item() > 0
