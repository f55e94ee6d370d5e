"""Names, argument forms and corner cases that programs written for tinygrad rely on."""

import importlib
import math
import os
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch
from oracle import assert_same

import lathe
from lathe import Context, Device, JitError, Tensor, TinyJit, UOp, Variable, dtypes, nn
from lathe import helpers


def gradient(function, values):
    x = Tensor(values)
    return function(x).sum().gradient(x)[0].tolist()


# ---- module paths and names


@pytest.mark.parametrize(
    "path, names",
    [
        ("helpers", "getenv DEBUG JIT Context ContextVar GlobalCounters Timing Profiling prod dedup flatten argfix colored trange tqdm temp fetch"),
        ("helpers", "get_single_element mv_address from_mv to_mv flat_mv cdiv cmod lo32 hi32 i2u getbits round_down next_power2 merge_dicts"),
        ("helpers", "ansilen ansistrip time_to_str size_to_str pluralize word_wrap strip_parens to_function_name diskcache cpu_profile system"),
        ("dtype", "DType DTYPES_DICT INVERSE_DTYPES_DICT AddrSpace truncate float_to_fp8 fp8_to_float can_lossless_cast least_upper_dtype"),
        ("dtype", "_to_np_dtype _from_np_dtype _to_torch_dtype _from_torch_dtype to_storage_scalar from_storage_scalar"),
        ("tensor", "Tensor _to_np_dtype"),
        ("device", "Device is_dtype_supported canonicalize_device CompileError"),
        ("engine.jit", "TinyJit JitError"),
        ("engine.realize", "run_schedule"),
        ("uop.ops", "UOp Variable sint resolve sym_infer"),
        ("shape.symbolic", "Variable"),
        ("ops", "Device GlobalCounters"),
        ("function", "function"),
        ("codegen.opt", "Opt OptOps KernelOptError"),
        ("codegen.kernel", "Opt OptOps"),
        ("renderer.ptx", "PTXRenderer"),
        ("renderer.cstyle", "CStyleLanguage CUDARenderer"),
        ("state", "safe_load get_parameters"),
        ("nn.state", "safe_load safe_save get_state_dict load_state_dict torch_load"),
        ("nn.datasets", "mnist cifar"),
    ],
)
def test_module_paths_of_programs_have_their_names(path, names):
    module = importlib.import_module(f"lathe.{path}")
    assert [n for n in names.split() if not hasattr(module, n)] == []


def test_names_from_inside_tinygrads_compiler_import_and_say_so_when_used():
    from lathe.codegen import opt
    from lathe.engine.realize import CompiledRunner
    from lathe.schedule.rangeify import Kernel
    from lathe.uop.ops import Ops, PatternMatcher

    assert opt.Opt.__name__ == "Opt" and Ops.SINK != Ops.ADD and not isinstance(3, CompiledRunner)
    assert importlib.import_module("lathe.uop.ops").Ops is Ops
    for name in (PatternMatcher, Kernel):
        with pytest.raises(ValueError, match="tinygrad's own compiler"):
            name()
    with pytest.raises(AttributeError):
        helpers.__no_such_name__


def test_helpers_do_what_their_names_say():
    assert helpers.cdiv(-7, 2) == -3 and helpers.cmod(-7, 2) == -1 and helpers.cdiv(1, 0) == 0
    assert helpers.round_down(7, 4) == 4 and helpers.round_down(8, 4) == 8 and helpers.next_power2(5) == 8
    assert helpers.lo32(1 << 33 | 5) == 5 and helpers.hi32(1 << 33) == 2 and helpers.i2u(8, -1) == 255
    assert helpers.getbits(0b10110, 1, 3) == 0b011
    assert helpers.merge_dicts([{"a": 1}, {"b": 2, "a": 1}]) == {"a": 1, "b": 2}
    with pytest.raises(ValueError):
        helpers.merge_dicts([{"a": 1}, {"a": 2}])
    assert helpers.get_single_element([3]) == 3
    with pytest.raises(ValueError):
        helpers.get_single_element([])
    assert helpers.get_shape([[1, 2], [3, 4], [5, 6]]) == (3, 2) and helpers.get_shape(1) == ()
    assert helpers.strides_for_shape((2, 1, 3)) == (3, 0, 1)
    assert helpers.ansistrip(helpers.colored("x", "red")) == "x" and helpers.ansilen(helpers.colored("xy", "green")) == 2
    assert helpers.strip_parens("(a+b)") == "a+b" and helpers.strip_parens("(a)+(b)") == "(a)+(b)"
    assert helpers.to_function_name("r_2*3") == "r_22A3" and helpers.pluralize("kernel", 2) == "2 kernels"
    assert helpers.time_to_str(0.5).strip() == "500.00ms" and helpers.size_to_str(2_500_000) == "2.50 MB"
    data = bytearray(b"abcd")
    view = memoryview(data)
    assert bytes(helpers.to_mv(helpers.mv_address(view), 4)) == b"abcd"
    assert helpers.word_wrap("abcdef", 4) == "abcd\nef"


def test_values_are_kept_in_the_folder_of_the_cache_by_key(tmp_path):
    calls = []

    @helpers.diskcache
    def square(x):
        calls.append(x)
        return x * x

    with Context(CACHE=str(tmp_path / "here")):
        assert [square(3), square(3), square(4)] == [9, 9, 16] and calls == [3, 4]
        assert (tmp_path / "here" / "python.db").exists()
        assert helpers.diskcache_get("other", "k") is None and helpers.diskcache_put("other", "k", [1]) == [1]
        helpers.diskcache_clear()
        assert helpers.diskcache_get("other", "k") is None


def test_nothing_is_kept_on_disk_where_the_cache_is_off(tmp_path):
    code = (
        "from lathe import helpers\n"
        "helpers.diskcache_put('t', 'k', 5); print(helpers.diskcache_get('t', 'k'), helpers.db_connection().execute('pragma database_list').fetchone()[2])"
    )
    for given, kept in ({"LATHE_CACHE": "off"}, ""), ({"XDG_CACHE_HOME": str(tmp_path)}, str(tmp_path)):
        clean = {k: v for k, v in os.environ.items() if k not in ("LATHE_CACHE", "XDG_CACHE_HOME", "HOME")}
        out = subprocess.run([sys.executable, "-c", code], env={**clean, "HOME": str(tmp_path / "home"), **given}, capture_output=True, text=True, check=True).stdout
        assert out.startswith(f"5 {kept}") and ("python.db" in out) == bool(kept)
        assert not (tmp_path / "home").exists()


def test_kept_values_are_for_all_threads(tmp_path):
    with Context(CACHE=str(tmp_path)):
        helpers.diskcache_clear()
        connection = helpers.db_connection()
    failed = []

    def work(n):
        try:
            with Context(CACHE=str(tmp_path)):
                assert helpers.db_connection() is connection
                for i in range(50):
                    helpers.diskcache_put("threads", (n, i), i)
                    assert helpers.diskcache_get("threads", (n, i)) == i
        except Exception as e:  # noqa: BLE001
            failed.append(e)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not failed


def test_names_of_tinygrads_compiler_can_be_imported_and_say_that_they_are_not_here():
    from lathe.device import Buffer
    from lathe.uop.ops import Ops, PatternMatcher  # noqa: F401

    assert not isinstance(Tensor([1.0]), Buffer) and Ops.ADD is Ops.ADD and Ops.ADD is not Ops.MUL
    assert not isinstance(3, Ops.ADD) and Ops.ADD not in {Ops.MUL: 1}
    for use in (Buffer, Ops.ADD, lambda: list(Ops), lambda: 3 in Ops, lambda: Ops["ADD"], lambda: [*Ops.ADD]):
        with pytest.raises(lathe.errors.UserError, match="tinygrad's own compiler"):
            use()


@pytest.mark.parametrize("module", ["dtype", "tensor", "device", "helpers", "uop.ops", "codegen", "engine.realize", "renderer", "runtime"])
def test_a_name_that_nobody_knows_cannot_be_imported(module):
    import importlib

    found = importlib.import_module(f"lathe.{module}")
    for name in "no_such_name NO_SUCH_WORD float33".split():
        with pytest.raises(AttributeError, match=name):
            getattr(found, name)
    assert not hasattr(lathe.dtype, "float33")


def test_numbers_are_cut_to_what_a_dtype_holds():
    from lathe.dtype import can_lossless_cast, float_to_bf16, float_to_fp16, float_to_fp8, fp8_to_float, from_storage_scalar, to_storage_scalar, truncate

    assert truncate[dtypes.uint8](257) == 1 and truncate[dtypes.int8](200) == -56 and truncate[dtypes.bool](2) is True
    assert truncate[dtypes.float32](0.1) == float(np.float32(0.1)) and float_to_fp16(65520) == math.inf
    assert float_to_bf16(1.0 + 2**-9) == 1.0
    for byte in range(0x7F):
        assert float_to_fp8(fp8_to_float(byte, dtypes.fp8e4m3), dtypes.fp8e4m3) == byte
    assert from_storage_scalar(to_storage_scalar(1.5, dtypes.bfloat16), dtypes.bfloat16) == 1.5
    for a in dtypes.all:
        for b in dtypes.all:
            wide = dtypes.is_int(a) and a.itemsize == 8 and dtypes.is_float(b)  # which numpy calls safe
            if a.fmt and b.fmt and dtypes.is_bool(a) == dtypes.is_bool(b) and not wide:
                assert can_lossless_cast(a, b) == np.can_cast(np.dtype(a.fmt), np.dtype(b.fmt), "safe"), (a, b)


def test_a_bound_variable_is_a_uop():
    n = UOp.variable("n", 1, 10).bind(3)
    assert isinstance(n, UOp) and isinstance(Variable("m", 1, 2), UOp) and not isinstance(3, UOp)


def test_settings_of_tinygrad_are_taken():
    with Context(IGNORE_OOB=1, TRACK_MATCH_STATS=0, SPLIT_REDUCEOP=0, CAPTURING=0):
        assert helpers.CAPTURING == 0
    assert pickle.loads(pickle.dumps(helpers.DEBUG)) is helpers.DEBUG


def test_other_names_of_the_processor_are_taken():
    for name in ("PYTHON", "clang", "LLVM:1", "NPY"):
        assert Tensor([1.0], device=name).device in ("CPU", "CPU:1") and Device.canonicalize(name).startswith("CPU")


def test_a_device_answers_what_programs_ask():
    device = Device[Device.DEFAULT]
    assert device.renderer.device == "CPU" and not device.renderer.has_local and device.graph is None


def test_a_bound_variable_is_a_variable():
    assert isinstance(Variable("n", 1, 10).bind(3), Variable) and not isinstance(3, Variable)


def test_the_old_modes_are_blocks_and_decorators():
    with Tensor.test(), Tensor.train():
        assert Tensor.training
    x = Tensor([1.0], requires_grad=True)
    assert not Tensor.test()(lambda: (x * 2).requires_grad)()


# ---- argument forms


def test_shapes_and_axes_are_taken_by_name_too():
    x = Tensor.arange(6).reshape(shape=(2, 3))
    assert x.permute(order=(1, 0)).shape == (3, 2) and x.flip(axis=0).tolist() == [[3, 4, 5], [0, 1, 2]]
    assert x.reshape(2, 1, 3).expand(shape=(2, 4, 3)).shape == (2, 4, 3) and x.repeat(repeats=(1, 2)).shape == (2, 6)
    with pytest.raises(TypeError):
        x.reshape(lengths=(3, 2))


def test_a_window_given_as_one_number_is_square():
    for mine, theirs in ((Tensor.max_pool2d, torch.nn.functional.max_pool2d), (Tensor.avg_pool2d, torch.nn.functional.avg_pool2d)):
        a = np.random.randn(2, 3, 7, 8).astype(np.float32)
        assert_same(mine(Tensor(a), 3), theirs(torch.tensor(a), 3))
        assert_same(mine(Tensor(a), kernel_size=2, padding=1), theirs(torch.tensor(a), 2, padding=1))


def test_optimizers_take_tinygrads_hints_and_nothing_else():
    for kind in (nn.optim.SGD, nn.optim.Adam, nn.optim.AdamW, nn.optim.LAMB, nn.optim.LARS, nn.optim.Muon):
        kind([Tensor([[1.0]])], lr=0.1, device=None, fused=True)
        with pytest.raises(TypeError, match="beta"):
            kind([Tensor([[1.0]])], lr=0.1, beta=2)


def test_a_symbolic_range_has_any_ends():
    begin, end = Variable("begin", 1, 5).bind(2), Variable("end", 6, 10).bind(7)
    assert Tensor.arange(begin, 9).sum().item() == sum(range(2, 9))
    assert Tensor.arange(end).sum().item() == sum(range(7))
    assert Tensor.arange(begin, end).sum().item() == sum(range(2, 7))


# ---- errors have the types programs catch


@pytest.mark.parametrize(
    "kind, call",
    [
        (AttributeError, lambda: Tensor([1.0]).cast("typo")),
        (AttributeError, lambda: Tensor([1.0], dtype="typo")),
        (AttributeError, lambda: Tensor([1.0]).sum(dtype="")),
        (TypeError, lambda: Tensor.randint((3, 4), low=0.1, high=3)),
        (IndexError, lambda: Tensor(1.0).cumsum(1)),
        (IndexError, lambda: Tensor([1.0])[Tensor([0.5])]),
        (IndexError, lambda: Tensor([1.0])[..., ...]),
        (IndexError, lambda: Tensor.cat(Tensor(1), Tensor(2))),
        (ValueError, lambda: Tensor.stack((Tensor([1]), Tensor([2])), Tensor([3]))),
        (ValueError, lambda: Tensor.ones(2, 3, 4).repeat((2, 2))),
        (ValueError, lambda: Tensor.linspace(0, 1, 3, dtype="bool")),
        (RuntimeError, lambda: Tensor.ones(3).half().scatter(0, Tensor([0]), Tensor.ones(3))),
        (RuntimeError, lambda: Tensor.ones(3).half().scatter_reduce(0, Tensor([0]), Tensor.ones(3), "sum")),
        (AssertionError, lambda: Tensor(2).multinomial(1)),
        (KeyError, lambda: nn.state.load_state_dict(nn.Linear(2, 2), {})),
    ],
)
def test_errors_have_the_types_programs_catch(kind, call):
    with pytest.raises(kind):
        call()


# ---- gradients at corners and far out


def test_activations_saturate_without_nan():
    far = [-400.0, -120.0, 120.0, 400.0]
    for name in "sigmoid tanh silu swish gelu quick_gelu mish softplus logsigmoid hardswish elu celu selu erf atan".split():
        got = gradient(lambda x: getattr(x, name)(), far)
        assert all(math.isfinite(g) for g in got), (name, got)
        second = Tensor(far)
        first = getattr(second, name)().sum().gradient(second)[0]
        assert all(math.isfinite(g) for g in first.sum().gradient(second)[0].tolist()), name
    assert gradient(lambda x: x.sigmoid(), far) == [0, 0, 0, 0] and gradient(lambda x: x.gelu(), far) == [0, 0, 1, 1]


def test_gradients_at_the_corners_of_activations():
    assert gradient(lambda x: x.relu(), [-1.0, 0.0, 1.0]) == [0, 0, 1]
    assert gradient(lambda x: x.clip(-2.5, 1.5), [-3.0, -2.5, 0.0, 1.5, 2.0]) == [0, 1, 1, 1, 0]
    assert gradient(lambda x: x.clip(Tensor(-2.5), Tensor(1.5)), [-3.0, -2.5, 0.0, 1.5, 2.0]) == [0, 1, 1, 1, 0]
    assert gradient(lambda x: x.maximum(0), [-1.0, 0.0, 1.0]) == [0, 0.5, 1]
    assert gradient(lambda x: x.elu(2.0), [0.0]) == [2.0] and gradient(lambda x: x.abs(), [0.0]) == [0]
    assert math.isnan(Tensor([math.nan]).relu().item()) and math.isnan(Tensor([math.nan]).clip(0, 1).item())


@pytest.mark.parametrize("y", [0.3, -0.3, 2.5, 3.0, -2.0, 0.0, 71.0])
def test_the_gradient_of_a_power_is_pytorchs(y):
    x = np.array([-2.0, -1.0, 0.0, 0.5, 2.0], dtype=np.float32)
    a, b = Tensor(x), torch.tensor(x, requires_grad=True)
    (b**y).sum().backward()
    np.testing.assert_allclose((a**y).sum().gradient(a)[0].numpy(), b.grad.numpy(), rtol=1e-4)
    e, f = Tensor(np.full_like(x, y)), torch.full((5,), y, requires_grad=True)
    (torch.tensor(x) ** f).sum().backward()
    np.testing.assert_allclose((a**e).sum().gradient(e)[0].numpy(), f.grad.numpy(), rtol=1e-4)
    np.testing.assert_allclose((2.0**e).sum().gradient(e)[0].numpy(), np.full(5, 2.0**y * math.log(2), dtype=np.float32), rtol=1e-4)


def test_images_of_bytes_are_scaled_in_bytes():
    a = np.random.randint(0, 256, (2, 3, 16, 12), dtype=np.uint8)
    got = Tensor(a).interpolate((5, 7), mode="linear")
    assert got.dtype is dtypes.uint8
    near = torch.nn.functional.interpolate(torch.tensor(a).float(), (5, 7), mode="bilinear")
    assert np.abs(got.numpy().astype(np.float32) - near.numpy()).max() <= 2


def test_windows_of_nothing_are_empty():
    assert_same(Tensor.ones(3, 3, 3).unfold(1, 0, 8), torch.ones(3, 3, 3).unfold(1, 0, 8))


# ---- captures


def test_data_the_function_brings_in_is_part_of_the_capture():
    f = TinyJit(lambda x: (x + Tensor([1.0, 2.0, 3.0])).realize())
    for i in range(5):
        assert f(Tensor([float(i)] * 3)).tolist() == [i + 1, i + 2, i + 3]
    values = iter(range(10))
    g = TinyJit(lambda x: (x + Tensor([float(next(values))] * 3)).realize())
    with pytest.raises(JitError, match="differs"):
        for _ in range(3):
            g(Tensor([0.0] * 3))


def test_a_copy_made_by_a_captured_function_is_new_every_time():
    f = TinyJit(lambda x: x.clone().realize())
    results = [f(Tensor([float(i)] * 4).realize()) for i in range(6)]
    assert [r.tolist() for r in results] == [[float(i)] * 4 for i in range(6)]
    again = pickle.loads(pickle.dumps(f))
    assert again(Tensor([7.0] * 4).realize()).tolist() == [7.0] * 4


def test_the_first_call_may_be_of_another_kind():
    f = TinyJit(lambda x, n: (x[:, :n] + 1).sum().realize())
    x = Tensor.ones(2, 10).contiguous().realize()
    assert f(x, 4).item() == 16
    for i in range(1, 6):
        assert f(x, Variable("n", 1, 10).bind(i)).item() == 4 * i


def test_names_a_model_has_not_are_told_and_left_out():
    net = nn.Linear(1, 1)
    with pytest.warns(UserWarning, match="more"):
        nn.state.load_state_dict(net, {"weight": Tensor([[5.0]]), "bias": Tensor([1.0]), "more": Tensor([1.0])})
    assert net.weight.item() == 5.0


# ---- symbolic sizes


def test_sizes_compare_where_all_values_agree():
    n, free = Variable("n", 0, 10).bind(3), Variable("m", 1, 10)
    assert n > 0 and n >= 3 and not n > 10 and n <= 10 and free > 0 and not free > 10
    with pytest.raises(ValueError, match="depends on the values"):
        free > 5


def test_a_slice_that_not_every_value_fits_works_for_those_that_do():
    rows = np.arange(77, dtype=np.float32).reshape(7, 11)
    x = Tensor(rows).contiguous().realize()
    f = TinyJit(lambda t: (t + 1).realize())
    for i in range(1, 6):
        n = Variable("i", 1, 10).bind(i)
        np.testing.assert_array_equal(f(x[3:5, n : n + 2]).numpy(), rows[3:5, i : i + 2] + 1)
        assert x[:2, :n].sum().item() == rows[:2, :i].sum()
    with pytest.raises(ValueError, match="not within axis 1"):
        x[3:5, Variable("i", 1, 10).bind(10) : Variable("i", 1, 10).bind(10) + 2]


def test_a_cache_is_filled_row_by_row_from_a_captured_function():
    cache = Tensor.zeros(6, 2).contiguous().realize()

    @TinyJit
    def put(row, at):
        cache.shrink(((at, at + 1), None)).assign(row).realize()
        return cache.sum().realize()

    want = np.zeros((6, 2), dtype=np.float32)
    for i in range(5):
        want[i] = i + 1
        assert put(Tensor([[float(i + 1)] * 2]).realize(), Variable("at", 0, 6).bind(i)).item() == want.sum()
    np.testing.assert_array_equal(cache.numpy(), want)


def test_the_first_call_may_make_state_and_have_a_plain_position():
    class Cache:
        @TinyJit
        def __call__(self, x, start):
            if not hasattr(self, "kept"):
                self.kept = Tensor.zeros(8).contiguous()
            joined = self.kept.shrink(((0, start),)).cat(x) if start > 0 else x
            self.kept.assign(joined.pad(((0, 8 - start - x.shape[0]),)).contiguous()).realize()

    cache, want = Cache(), []
    cache(Tensor([1.0, 1.0, 1.0]), 0)
    want += [1.0] * 3
    for i in range(3, 7):
        cache(Tensor([float(i)]).realize(), Variable("start", 1, 7).bind(i))
        want.append(float(i))
    assert cache.kept.tolist() == want + [0.0] * (8 - len(want))


# ---- other corners


def test_running_extremes_are_a_pair_and_answer_as_their_values():
    out = Tensor([1, 3, 2]).cummax()
    values, indices = out
    assert values.tolist() == [1, 3, 3] and indices.tolist() == [0, 1, 1] and out.realize().tolist() == [1, 3, 3]
    assert out.values is values and out.shape == (3,)


def test_rearrange_joins_an_ellipsis_and_refuses_bad_formulas():
    a = np.arange(2 * 3 * 4).reshape(2, 3, 4)
    x = Tensor(a)
    assert x.rearrange("... -> (...)").shape == (24,) and x.rearrange("a … -> (…) a").shape == (12, 2)
    np.testing.assert_array_equal(x.rearrange("a ... -> (... a)").numpy(), a.transpose(1, 2, 0).reshape(-1))
    for bad in ("(...) -> (...)", "a ... ... -> a ... ...", "a b c -> a b c -> a b c", "a b* c -> a b* c", "_a b c -> _a b c", "1a b c -> b c"):
        with pytest.raises(ValueError):
            x.rearrange(bad)
    with pytest.raises(ValueError, match="no axis d"):
        x.rearrange("a b c -> c b a", d=4)


def test_numbers_of_lists_are_rounded_once():
    data = [65504.0, 65519.0, 65519.999, 65520.0, 1 + 2**-11 + 2**-40, -(1 + 2**-11 + 2**-40)]
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(Tensor(data, dtype=dtypes.float16).numpy(), np.array(data).astype(np.float16))


def test_a_file_is_assigned_to_from_memory(tmp_path):
    Tensor.empty(3, device=f"disk:{tmp_path / 'data'}").assign(Tensor([1.0, 2.0, 3.0])).realize()
    assert np.frombuffer((tmp_path / "data").read_bytes(), dtype=np.float32).tolist() == [1.0, 2.0, 3.0]


def test_normal_numbers_come_in_any_dtype():
    assert Tensor.randn(3, dtype=dtypes.int32).dtype is dtypes.int32


def test_a_step_of_many_computations_is_replayed_as_one():
    total = Tensor.zeros(3).contiguous().realize()

    @TinyJit
    def step(x):
        first = None
        for i in range(20):
            x = (x + i).contiguous().realize()
            if i == 4:
                first = x
            total.assign(total + x).realize()
        return first, x

    want, kept = np.zeros(3, dtype=np.float32), []
    for n in range(6):
        got = step(Tensor([float(n)] * 3).realize())
        kept.append((got, n))
        x = np.full(3, n, dtype=np.float32)
        for i in range(20):
            x = x + i
            want += x
    for (first, last), n in kept:
        assert first.tolist() == [n + 10.0] * 3 and last.tolist() == [n + 190.0] * 3
    np.testing.assert_array_equal(total.numpy(), want)
    again = pickle.loads(pickle.dumps(step))
    assert again(Tensor([1.0] * 3).realize())[1].tolist() == [191.0] * 3


def test_constants_computed_and_dropped_by_a_captured_function_are_no_obstacle():
    @TinyJit
    def f(x):
        Tensor.zeros(4, 4).contiguous().realize()
        return (x + 1).realize()

    assert [f(Tensor([float(i)])).item() for i in range(5)] == [1, 2, 3, 4, 5]


# ---- gradients as programs see them


def test_gradients_are_added_up_in_place():
    x = Tensor([3.0])
    (x * 2)[0].backward()
    grad = x.grad
    (x * 3)[0].backward()
    assert x.grad is grad and grad.tolist() == [5.0]


def test_what_stands_behind_a_detach_gets_zeros_unless_it_asked():
    base, asked = Tensor([1.0, 2.0]), Tensor([1.0, 2.0], requires_grad=True)
    x = base.detach().clone() * asked.detach()
    (x * 2).sum().backward()
    assert base.grad.tolist() == [0.0, 0.0] and asked.grad is None


def test_a_gradient_to_start_with_may_have_an_axis_of_one():
    x = Tensor([1.0, 2.0])
    assert (x * x).sum().gradient(x, gradient=Tensor([3.0]))[0].tolist() == [6.0, 12.0]


def test_more_ties_than_a_half_can_count_share_a_gradient():
    t = Tensor.ones(70000, dtype=dtypes.half).contiguous()
    assert t.max().gradient(t)[0].float().sum().item() == pytest.approx(1, rel=2e-2)


@pytest.mark.parametrize("norm", [1.0, 2.0, 3.0, math.inf])
def test_gradients_are_clipped_by_any_norm(norm):
    a, b = np.random.randn(3, 4).astype(np.float32), np.random.randn(5).astype(np.float32)
    mine, theirs = [Tensor(a, requires_grad=True), Tensor(b, requires_grad=True)], [torch.tensor(a, requires_grad=True), torch.tensor(b, requires_grad=True)]
    (mine[0].square().sum() + mine[1].exp().sum()).backward()
    (theirs[0].square().sum() + theirs[1].exp().sum()).backward()
    got = nn.optim.clip_grad_norm_(mine, 0.7, norm_type=norm)
    assert got.item() == pytest.approx(torch.nn.utils.clip_grad_norm_(theirs, 0.7, norm_type=norm).item(), rel=1e-5)
    for m, t in zip(mine, theirs):
        np.testing.assert_allclose(m.grad.numpy(), t.grad.numpy(), rtol=1e-4)


# ---- lines that made tensors


def test_memory_is_listed_by_the_line_that_made_it():
    import lathe

    kept = Tensor.ones(12345).contiguous().realize()  # the line
    made = [line for line, device, size in lathe.live_buffers() if size == kept.nbytes()]
    assert len(made) == 1 and made[0].startswith("test_words.py:") and "test_words.py:" in lathe.memory_report(1000)
    with pytest.raises(ValueError, match=r"lhs made at test_words.py:\d+, rhs at test_words.py:\d+"):
        Tensor.ones(2, 3) @ Tensor.ones(4, 5)


def test_a_file_of_ones_is_written(tmp_path):
    Tensor.ones(10, device="CPU").to(f"disk:{tmp_path / 'ones'}").realize()
    assert (tmp_path / "ones").read_bytes() == np.ones(10, dtype=np.float32).tobytes()


@pytest.mark.parametrize("mine, theirs", [(dtypes.bfloat16, torch.bfloat16), (dtypes.float16, torch.float16)])
def test_functions_of_half_precision_are_rounded_once(mine, theirs):
    limit = 80 if mine is dtypes.bfloat16 else 10
    a = np.linspace(-limit, limit, 401).astype(np.float32)
    x, exact = Tensor(a).cast(mine), torch.tensor(a).to(theirs).double()
    step = 2.0 ** -dtypes.finfo(mine)[1]
    for name in "exp sigmoid tanh sinh cosh atan erf".split():
        want = getattr(torch, name)(exact).numpy()
        got = getattr(x, name)().cast(dtypes.float64).numpy()
        near = np.abs(want) > 1e-4  # below, a half has fewer bits
        np.testing.assert_allclose(got[near], want[near], rtol=1.01 * step, err_msg=name)


# ---- kernels by hand


@pytest.mark.parametrize("dtype", [dtypes.int32, dtypes.int8, dtypes.float32])
def test_division_in_a_kernel_rounds_as_pythons_does(dtype):
    x, y = [7, -7, 7, -7, 6, 0, -1, 1], [2, 2, -2, -2, -3, 5, 3, -3]
    a, b = (Tensor(v, dtype=dtype).realize() for v in (x, y))
    whole, rest = Tensor.empty(8, dtype=dtype), Tensor.empty(8, dtype=dtype)
    kept = []

    def body(k):
        kept.append(k)
        i = k.range(8)
        k.store(0, i, k.load(2, i) // k.load(3, i))
        k.store(1, i, k.load(2, i) % k.load(3, i))

    whole.custom_kernel(rest, a, b, fxn=body)
    assert whole.tolist() == [m // n for m, n in zip(x, y)] and rest.tolist() == [m % n for m, n in zip(x, y)]
    for use in (lambda k: k.range(3), lambda k: k.load(0, 0), lambda k: k.store(0, 0, 0)):
        with pytest.raises(lathe.errors.UserError, match="the kernel is finished"):
            use(kept[0])


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16])
def test_remainders_of_floats_in_a_kernel_are_exact_whatever_the_quotient(dtype):
    rng = np.random.default_rng(0)
    highest = 14 if dtype is dtypes.float16 else 120
    x = np.concatenate([np.ldexp(rng.uniform(-2, 2, 60), rng.integers(-8, highest, 60)), [7.0, -7.0, 0.0, -0.0, 6.0, -6.0]])
    y = np.concatenate([np.ldexp(rng.uniform(1, 2, 60), rng.integers(-8, 8, 60)) * rng.choice([-1, 1], 60), [2.0, 2.0, 3.0, 3.0, -3.0, -3.0]])
    a, b = (Tensor(v).cast(dtype).realize() for v in (x, y))
    x, y = (t.cast(dtypes.float64).numpy() for t in (a, b))
    n = len(x)
    rest, by_number, whole = (Tensor.empty(n, dtype=dtype) for _ in range(3))

    def body(k):
        i = k.range(n)
        k.store(0, i, k.load(3, i) % k.load(4, i))
        k.store(1, i, k.load(3, i) % 5.0)
        k.store(2, i, k.load(3, i) // k.load(4, i))

    rest.custom_kernel(by_number, whole, a, b, fxn=body)
    for got, divisor in ((rest, y), (by_number, np.full(n, 5.0))):
        left = np.array([math.fmod(v, w) for v, w in zip(x, divisor)])
        want = Tensor(np.where((left != 0) & ((left < 0) != (divisor < 0)), left + divisor, left)).cast(dtype).numpy()
        got = got.numpy()
        assert np.array_equal(got, want) and np.array_equal(np.signbit(got), np.where(got == 0, divisor < 0, got < 0))
    small = np.abs(x / y) < 100
    assert np.array_equal(whole.cast(dtypes.float64).numpy()[small], np.floor_divide(x, y)[small])


def test_a_kernel_refuses_a_fraction_of_integers():
    def body(k):
        i = k.range(2)
        k.store(0, i, k.load(1, i) / 2)

    with pytest.raises(lathe.errors.UserError, match="// rounds down"):
        Tensor.empty(2, dtype=dtypes.int32).custom_kernel(Tensor([1, 2]).realize(), fxn=body)
    halves = Tensor.empty(2).custom_kernel(Tensor([1.0, 3.0]).realize(), fxn=body)[0]
    assert halves.tolist() == [0.5, 1.5]


# ---- optimizers


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_classic_momentum_holds_the_rate_it_was_made_with(nesterov, decay):
    w = Tensor([1.0, -2.0, 3.0], requires_grad=True).realize()
    optimizer = nn.optim.SGD([w], lr=0.1, momentum=0.9, weight_decay=decay, nesterov=nesterov, classic=True)
    want, velocity = np.array([1.0, -2.0, 3.0]), np.zeros(3)
    with Context(TRAINING=1):
        for rate in (0.1, 0.1, 0.01, 0.5):
            optimizer.lr = rate
            optimizer.zero_grad()
            (w * w).sum().backward()
            optimizer.step()
            g = rate * (2 * want + decay * want)
            velocity = 0.9 * velocity + g
            want = want - (g + 0.9 * velocity if nesterov else velocity)
    np.testing.assert_allclose(w.numpy(), want, rtol=1e-5)


@pytest.mark.parametrize("classic", [True, False])
def test_lars_scales_the_rate_before_or_after_momentum(classic):
    w = Tensor([1.0, -2.0, 3.0], requires_grad=True).realize()
    optimizer = nn.optim.LARS([w], lr=0.1, momentum=0.9, weight_decay=0.05, tcoef=0.02, classic=classic)
    want, velocity = np.array([1.0, -2.0, 3.0]), np.zeros(3)
    with Context(TRAINING=1):
        for rate in (0.1, 0.3, 0.02):
            optimizer.lr = rate
            optimizer.zero_grad()
            (w * w * w).sum().backward()
            optimizer.step()
            g = 3 * want**2
            size, slope = np.linalg.norm(want), np.linalg.norm(g)
            scale = rate * 0.02 * size / (slope + 0.05 * size)
            g = g + 0.05 * want
            velocity = 0.9 * velocity + (scale * g if classic else g)
            want = want - (velocity if classic else scale * velocity)
    np.testing.assert_allclose(w.numpy(), want, rtol=1e-5)


@pytest.mark.parametrize("norm", [1.0, 2.0, 3.5, math.inf])
def test_gradients_are_clipped_by_any_norm_of_one_tensor_or_many(norm):
    values = [[1.0, -2.0, 3.0], [4.0]]
    mine, theirs = [Tensor(v, requires_grad=True) for v in values], [torch.tensor(v, requires_grad=True) for v in values]
    for ps in (mine, theirs):
        sum((p * p * p).sum() for p in ps).backward()
    got = nn.optim.clip_grad_norm_((p for p in mine), 0.5, norm)
    assert got.item() == pytest.approx(torch.nn.utils.clip_grad_norm_(theirs, 0.5, norm).item(), rel=1e-5)
    for a, b in zip(mine, theirs):
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-4)
    one = Tensor([3.0], requires_grad=True)
    (one * one).sum().backward()
    assert nn.optim.clip_grad_norm_(one, 1.0).item() == 6.0 and one.grad.item() == pytest.approx(1.0, rel=1e-5)
    for bad in (0, -1, math.nan):
        with pytest.raises(lathe.errors.UserError, match="norm_type"):
            nn.optim.clip_grad_norm_(one, 1.0, bad)


@pytest.mark.parametrize("rule", ["amax", "amin"])
def test_many_ties_of_a_scattered_extreme_share_one_gradient(rule):
    x = Tensor.full((5000,), 2.0, dtype=dtypes.float16).contiguous().realize()
    out = Tensor.zeros(5000, dtype=dtypes.float16).scatter_reduce(0, Tensor.zeros(5000, dtype=dtypes.int32), x, rule, include_self=False)
    assert out.sum().gradient(x)[0].float().sum().item() == pytest.approx(1, abs=1e-2)


# ---- where it was made


def test_an_index_that_is_outside_names_the_line_that_made_the_tensor():
    x, index = Tensor.arange(5).realize(), Tensor([7]).realize()
    y = x.gather(0, index)  # here
    with open(__file__) as f:
        line = next(n for n, text in enumerate(f, 1) if text.endswith("gather(0, index)  # here\n"))
    with pytest.raises(IndexError, match=rf"(?s)gather: index 7 is outside an axis of size 5.*made at test_words.py:{line}"):
        y.tolist()

    @TinyJit
    def f(x, index):
        return x[index].realize()

    for i in range(4):
        f(x, Tensor([i]).realize())
    with pytest.raises(IndexError, match=r"made at test_words.py:\d+"):
        f(x, index).tolist()


# ---- numbers, files and names of tinygrad's newest version


def test_a_tensor_of_one_element_is_a_number_to_python():
    assert float(Tensor([1.5])) == 1.5 and int(Tensor(7)) == 7 and int(Tensor([2.9])) == 2 and isinstance(float(Tensor(3)), float)
    with pytest.raises(lathe.errors.UserError, match="not one element"):
        float(Tensor([1.0, 2.0]))


def test_keywords_of_tinygrads_newest_version_are_taken():
    n = Variable("n", min_val=1, max_val=8).bind(3)
    assert Tensor.ones(8)[:n].sum().item() == 3
    with pytest.raises(TypeError):
        Variable("n", 1)
    assert Tensor([1.0]).copysign(other=-2).item() == -1 and Tensor([0.0]).logaddexp(other=Tensor([0.0])).item() == pytest.approx(math.log(2))


def test_a_tensor_of_bytes_is_a_file():
    file = nn.state.TensorIO(Tensor(b"hello world"))
    assert file.read(5) == b"hello" and file.seek(-5, 2) == 6 and file.read() == b"world" and file.read(1) == b""
    assert file.seek(1) == 1 and file.seek(2, 1) == 3 and file.read(2) == b"lo"
    with pytest.raises(lathe.errors.UserError, match="bytes"):
        nn.state.TensorIO(Tensor([1.0]))


def test_what_is_not_here_yet_says_so():
    with pytest.raises(lathe.errors.UserError, match="not supported yet"):
        Tensor([1.0, 2.0]).shard(("CPU", "CPU:1"), 0)


def test_numbers_that_do_not_fit_are_refused_by_arange():
    for bad in (lambda: Tensor.arange(2**33, dtype=dtypes.int32), lambda: Tensor.arange(300, dtype=dtypes.uint8), lambda: Tensor.arange(-1, 5, dtype=dtypes.uint8)):
        with pytest.raises(ValueError, match="do not fit"):
            bad()
    assert Tensor.arange(256, dtype=dtypes.uint8)[-1].item() == 255 and Tensor.arange(10, 0, -3, dtype=dtypes.int8).tolist() == [10, 7, 4, 1]
    assert Tensor.arange(2**62, 2**62 + 3, dtype=dtypes.int64).tolist() == [2**62, 2**62 + 1, 2**62 + 2]


def test_a_tensor_in_a_file_pickles_as_one_in_memory(tmp_path):
    (tmp_path / "f").write_bytes(bytes(range(8)))
    again = pickle.loads(pickle.dumps(Tensor(tmp_path / "f")[2:5]))
    assert again.tolist() == [2, 3, 4] and again.device == Device.DEFAULT


@pytest.mark.parametrize("wrap", [lambda f: f, TinyJit])
def test_an_optimizer_may_be_written_in_python(wrap):
    class Momentum(nn.optim.Optimizer):
        def __init__(self, params, lr, rate):
            super().__init__(params, lr)
            self.rate, self.b, self.count = rate, self._new_optim_param(), Tensor.zeros(1).contiguous().realize()

        def _step(self, params, grads):
            self.count.assign(self.count + 1)
            for b, g in zip(self.b, grads):
                b.assign(b * self.rate + g)
            return [self.lr * b for b in self.b], [*self.b, self.count]

    def run(make):
        w = Tensor([1.0, -2.0], requires_grad=True).realize()
        optimizer = make([w])

        def step():
            optimizer.zero_grad()
            loss = (w * w * w).sum().backward()
            optimizer.step()
            return loss.realize()

        step = wrap(step)
        with Context(TRAINING=1):
            for _ in range(5):
                step()
        return w.tolist(), optimizer

    (mine, own), (theirs, _) = run(lambda p: Momentum(p, 0.05, 0.9)), run(lambda p: nn.optim.SGD(p, 0.05, momentum=0.9))
    np.testing.assert_allclose(mine, theirs, rtol=1e-5)
    assert own.count.item() == 5 and len(own.params) == 1 and isinstance(own, nn.optim.Optimizer)
    x = Tensor([1.0], requires_grad=True)
    x.sum().backward()
    with pytest.raises(lathe.errors.UserError, match="_step"), Tensor.train():
        nn.optim.Optimizer([x], 0.1).step()


def test_sizes_are_equal_however_they_were_written():
    i, j, k = (Variable(name, 1, 5).bind(3) for name in "ijk")
    joined = Tensor.rand(5, 4)[:i].cat(Tensor.rand(5, 4)[:j], dim=0).cat(Tensor.rand(5, 4)[:k], dim=0)
    assert joined.shape == (i + j + k, 4) and not joined.shape[0] != k + i + j
    assert 2 * (i + 1) == i + i + 2 and i * j * k == k * (j * i) and (i + j) * (i - j) == i * i - j * j and {i + j: 1}[j + i] == 1
    assert i + j != i + k and i != 3 and i + 1 != i and i - i == 0
    assert Tensor.rand(5, 3)[:i].cat(Tensor.rand(5, 3)[:i], Tensor.rand(3, 3)).shape[0] == 2 * i + 3


def test_a_kernel_with_a_gradient_finds_the_contents_of_its_output():
    def body(k):
        i = k.range(3)
        k.store(0, i, k.load(0, i) + k.load(1, i) * 2.0)

    for options in (None, "UPCAST(0, 3)"):
        x = Tensor([1.0, 2.0, 3.0], requires_grad=True)
        start = Tensor([10.0, 20.0, 30.0]).realize()
        out = start.custom_kernel(x, fxn=body, options=options, grad_fxn=lambda grad, x: [grad * 2.0])[0]
        assert out.tolist() == [12.0, 24.0, 36.0]
        out.sum().backward()
        assert x.grad.tolist() == [2.0, 2.0, 2.0]


# ---- progress and the command line


def test_progress_off_a_terminal_is_a_line_now_and_then(capsys, monkeypatch):
    assert list(helpers.tqdm([1, 2, 3])) == [1, 2, 3] and capsys.readouterr().err == ""  # too quick to be worth a line
    bar = helpers.tqdm(total=4, desc="load")
    bar._every = 0.0
    bar.update(2)
    bar.set_postfix(loss=0.5)
    bar.update(2)
    bar.close()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3 and lines[0].startswith("load: 2/4 [") and lines[-1].endswith("it/s], loss=0.5")
    monkeypatch.setenv("TQDM_DISABLE", "1")
    quiet = helpers.trange(3)
    quiet._every = 0.0
    assert sum(quiet) == 3 and len(quiet) == 3 and capsys.readouterr().err == ""


def test_the_package_is_a_command():
    run = lambda *args: subprocess.run([sys.executable, "-m", "lathe", *args], capture_output=True, text=True)  # noqa: E731
    assert run("--version").stdout == f"lathe {lathe.__version__}\n" and "CPU" in run("devices").stdout.split()
    wrong = run("nonsense")
    assert wrong.returncode == 2 and "nonsense" in wrong.stderr and "help" in wrong.stderr


def test_the_bench_compares_two_builds_in_turn(monkeypatch, capsys, tmp_path):
    from lathe import bench

    (tmp_path / "lathe").mkdir()
    rounds = iter([2.0, 3.0, 1.0, 1.2])  # there, here, there, here
    monkeypatch.setattr(bench, "calls_of", lambda folder: dict.fromkeys(bench.CALLS, next(rounds)))
    monkeypatch.setattr(sys, "argv", ["bench", "--beside", str(tmp_path), "--repeats", "2", "--within", "1.05"])
    with pytest.raises(SystemExit) as ended:
        bench.main()
    assert "import_ms took longer than 1.05 times as long" in str(ended.value)
    table = capsys.readouterr().out.splitlines()
    assert len(table) == 4 and table[1].split() == ["graph_us_per_op", "1", "1.2", "1.200"]
    monkeypatch.setattr(sys, "argv", ["bench", "--beside", str(tmp_path / "nowhere")])
    with pytest.raises(SystemExit):
        bench.main()
    assert "there is no package lathe in" in capsys.readouterr().err


def test_a_line_of_debug_level_2_names_the_line_of_the_program_and_a_total_ends_it(tmp_path):
    program = tmp_path / "train.py"
    program.write_text("from lathe import Tensor\na = Tensor.ones(4, 4).contiguous().realize()\nb = (a * 3).sum()\nprint(b.item())\n")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "LATHE_DEBUG": "2", "LATHE_CACHE": "off"}
    done = subprocess.run([sys.executable, str(program)], env=env, capture_output=True, text=True, check=True)
    kernels = [line for line in done.stderr.splitlines() if "GFLOP/s" in line]
    assert kernels and "train.py:3" in kernels[-1], done.stderr
    assert " in " in next(line for line in done.stderr.splitlines() if line.startswith("lathe: compile: "))
    assert done.stderr.splitlines()[-1].startswith("lathe: total: "), done.stderr
