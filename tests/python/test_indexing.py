"""x[...] and x[...] = v against numpy, by random programs; gather, scatter and their kin against PyTorch."""

import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracle import assert_same, check

from lathe import Tensor, Variable, dtypes
from lathe.nn.state import safe_save

SHAPE = (4, 3, 5)


@st.composite
def basic_keys(draw, shape=SHAPE):
    """Ints, slices with any step, None and one Ellipsis."""
    key, axis, ellipsis = [], 0, False
    while axis < len(shape) and draw(st.booleans()):
        kind = draw(st.sampled_from(["int", "slice", "slice", "none", "ellipsis"]))
        n = shape[axis]
        if kind == "int":
            key.append(draw(st.integers(-n, n - 1)))
            axis += 1
        elif kind == "slice":
            step = draw(st.sampled_from([None, 1, 2, 3, -1, -2]))
            key.append(slice(draw(st.none() | st.integers(-n - 1, n + 1)), draw(st.none() | st.integers(-n - 1, n + 1)), step))
            axis += 1
        elif kind == "none":
            key.append(None)
        elif not ellipsis:
            key.append(Ellipsis)
            ellipsis = True
            break
    return tuple(key)


@st.composite
def advanced_keys(draw, shape=SHAPE):
    """Basic parts with one or two integer arrays among them."""
    rank = len(shape)
    arrays = draw(st.sets(st.integers(0, rank - 1), min_size=1, max_size=2))
    length = draw(st.integers(1, 4))
    key = []
    for axis in range(rank):
        if axis in arrays:
            key.append(np.array(draw(st.lists(st.integers(-shape[axis], shape[axis] - 1), min_size=length, max_size=length))))
        else:
            key.append(draw(st.sampled_from([slice(None), slice(1, None), 0])))
    return tuple(key)


def as_lathe(key):
    return tuple(Tensor(k.astype(np.int32)) if isinstance(k, np.ndarray) else k for k in key)


def pair():
    a = np.arange(np.prod(SHAPE), dtype=np.int32).reshape(SHAPE)
    return a, Tensor(a)


@given(basic_keys())
def test_getitem_with_basic_keys_is_numpys(key):
    a, x = pair()
    np.testing.assert_array_equal(x[key].numpy(), a[key])


@given(advanced_keys())
def test_getitem_with_index_tensors_is_numpys(key):
    a, x = pair()
    np.testing.assert_array_equal(x[as_lathe(key)].numpy(), a[key])
    lists = tuple(k.tolist() if isinstance(k, np.ndarray) else k for k in key)
    np.testing.assert_array_equal(x[lists].numpy(), a[key])


@given(basic_keys(), st.integers(-9, 9))
def test_setitem_with_basic_keys_is_numpys(key, value):
    a, x = pair()
    a[key] = value
    x[key] = value
    np.testing.assert_array_equal(x.numpy(), a)


@given(advanced_keys())
def test_setitem_with_index_tensors_is_numpys(key):
    a, x = pair()
    a[key] = 7
    x[as_lathe(key)] = 7
    np.testing.assert_array_equal(x.numpy(), a)


STEPS = [
    "x[1:] = x[:-1]",
    "x[:-1] = x[1:]",
    "x[::2] = x[1::2]",
    "x += x.T",
    "x[0] = x[3]",
    "x[:, 1] = x[1]",
    "x[::-1] = x * 2",
    "x[1:3, 1:3] += 10",
    "x[2] -= x[0]",
    "y = x[1]\ny += 5",
    "x[x % 3 == 0] = -1",
    "x *= 2",
]


@given(st.lists(st.sampled_from(STEPS), min_size=1, max_size=5), st.booleans())
def test_programs_of_overlapping_stores_are_numpys(steps, realize_between):
    a = np.arange(16, dtype=np.int32).reshape(4, 4)
    x = Tensor(a)
    for step in steps:
        # numpy reads while it writes in x += x.T: the right side is computed first here.
        if step == "x += x.T":
            a += a.T.copy()
        elif step.startswith("x[") and "= x[" in step and "+=" not in step and "-=" not in step:
            names = {"x": a.copy()}
            value = eval(step.split("=", 1)[1], names)
            exec(step.split("=", 1)[0] + "= value", {"x": a, "value": value})
        else:
            exec(step, {"x": a})
        names = {"x": x}
        exec(step, names)
        if realize_between:
            x.realize()
    np.testing.assert_array_equal(x.numpy(), a)


def test_swapping_two_tensors_and_chained_assigns():
    x, y = Tensor([1.0, 2.0]), Tensor([3.0, 4.0])
    keep = x + 0
    x.assign(y)
    y.assign(keep)
    assert (x.tolist(), y.tolist()) == ([3.0, 4.0], [1.0, 2.0])
    x.assign(x + 1).assign(x * 2)
    assert x.tolist() == [8.0, 10.0]
    before = x * 2
    x += 1
    assert before.tolist() == [16.0, 20.0]
    assert x.tolist() == [9.0, 11.0]


def test_assigning_to_a_view_changes_the_base():
    x = Tensor.zeros(3, 4).contiguous()
    x[1].assign(Tensor.ones(4))
    x.transpose()[0].assign(7)
    assert x.tolist() == [[7, 0, 0, 0], [7, 1, 1, 1], [7, 0, 0, 0]]
    with pytest.raises(ValueError):
        Tensor.zeros(3, 1).expand(3, 4).assign(1)


def test_masks_and_bools():
    a, x = pair()
    np.testing.assert_array_equal(x[x > 20].numpy(), a[a > 20])
    np.testing.assert_array_equal(x[Tensor([True, False, True, False])].numpy(), a[np.array([True, False, True, False])])
    np.testing.assert_array_equal(x[np.array([0, 2])].numpy(), a[[0, 2]])
    a[a % 2 == 0] = 0
    x[x % 2 == 0] = 0
    np.testing.assert_array_equal(x.numpy(), a)


def test_gradients_flow_through_getitem_and_setitem():
    check([(4, 5)], lambda x: x[1:3, ::2], lambda x: x[1:3, ::2])
    index = np.array([0, 2, 2, 1])
    check([(4, 5)], lambda x: x[torch.tensor(index)], lambda x: x[Tensor(index.astype(np.int32))])
    check([(4, 5)], lambda x: x[torch.tensor(index), 1:3], lambda x: x[index.tolist(), 1:3])

    def write(x, y):
        z = x * 1
        z[1:3] = y
        return z

    check([(4, 5), (2, 5)], write)


def test_what_is_out_of_range_is_an_index_error():
    x = Tensor.zeros(3, 4)
    for bad in [lambda: x[3], lambda: x[-4], lambda: x[0, 4], lambda: x[0, 0, 0]]:
        with pytest.raises(IndexError):
            bad()
    with pytest.raises(TypeError):
        x["name"]
    with pytest.raises(TypeError):
        x[1.5]
    assert [row.tolist() for row in Tensor([[1, 2], [3, 4]])] == [[1, 2], [3, 4]]
    assert len(x) == 3


def test_gather_scatter_and_their_kin():
    index = np.array([[0, 2, 1], [3, 3, 0]], dtype=np.int64)
    check([(4, 3)], lambda x: x.gather(0, torch.tensor(index)), lambda x: x.gather(0, Tensor(index.astype(np.int32))))
    check([(4, 3), (2, 3)], lambda x, y: x.scatter(0, torch.tensor(index), y), lambda x, y: x.scatter(0, Tensor(index.astype(np.int32)), y), grad=False)
    for reduce in ("sum", "prod", "mean", "amax", "amin"):
        for include in (True, False):
            check(
                [(4, 3), (2, 3)],
                lambda x, y: x.scatter_reduce(0, torch.tensor(index), y, reduce, include_self=include),
                lambda x, y: x.scatter_reduce(0, Tensor(index.astype(np.int32)), y, reduce, include_self=include),
                grad=False,
            )
    check([(4, 3)], lambda x: x.masked_select(x > 0), lambda x: x.masked_select(x > 0), grad=False)
    check([(4, 3)], lambda x: (x > 0).nonzero(), lambda x: (x > 0).nonzero(), grad=False)
    assert_same(Tensor([0, 2, 1]).one_hot(3), np.eye(3, dtype=np.int32)[[0, 2, 1]])
    for descending in (False, True):
        check([(4, 6)], lambda x: x.sort(1, descending), lambda x: x.sort(1, descending))
        check([(4, 6)], lambda x: x.argsort(0, descending), lambda x: x.argsort(0, descending), grad=False)
        check([(4, 6)], lambda x: x.topk(3, 1, descending), lambda x: x.topk(3, 1, descending))


def test_the_mean_of_scattered_integers_is_rounded_down_and_exact():
    large = 2**24 + 1  # no float32
    x, index, src = np.array([large, 1, 2], np.int32), [0, 0, 1, 1, 1], np.array([large, large, -5, -4, 0], np.int32)
    for include_self in (True, False):
        theirs = torch.tensor(x).scatter_reduce(0, torch.tensor(index), torch.tensor(src), "mean", include_self=include_self)
        assert_same(Tensor(x).scatter_reduce(0, Tensor(index), Tensor(src), "mean", include_self=include_self), theirs)
    half = Tensor([0.0], dtype=dtypes.float16).scatter_reduce(0, Tensor([0, 0]), Tensor([60000.0, 60000.0], dtype=dtypes.float16), "mean", include_self=False)
    assert half.item() == 60000


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.int8, dtypes.fp8e4m3])
def test_a_part_of_symbolic_size_that_was_computed_is_not_taken_for_the_whole(dtype):
    x = np.arange(28.0, dtype=np.float32).reshape(7, 4) % 5
    for rows in (2, 3, 7):
        whole = Tensor(x, dtype=dtype)
        part, least = whole[: Variable("rows", 2, 7).bind(rows)].permute(1, 0), whole.cummin(1)[0]
        del whole  # the part is computed alone
        assert part.realize().shape[0] == 4
        np.testing.assert_array_equal(least.float().numpy(), np.minimum.accumulate(x, 1))


def test_a_fixed_size_makes_masked_select_a_plain_kernel():
    assert Tensor([1, 2, 3]).masked_select(Tensor([True, False, True]), size=4, fill_value=-1).tolist() == [1, 3, -1, -1]
    assert Tensor([0, 5, 0]).nonzero(size=2, fill_value=9).dtype is dtypes.int32


READS = {
    "numpy": lambda t: t.numpy(),
    "asarray": np.asarray,
    "array": np.array,
    "data": lambda t: t.data(),
    "memoryview": memoryview,
    "bytes": bytes,
    "tobytes": lambda t: t.tobytes(),
    "tolist": lambda t: t.tolist(),
    "item": lambda t: t[0].item(),
    "float": lambda t: float(t[0]),
    "from_dlpack": torch.from_dlpack,
    "to": lambda t: t.to("CPU:1").numpy(),
    "pickle": lambda t: pickle.dumps(t),
    "file": lambda t: safe_save({"t": t}, "/dev/null"),
}


@pytest.mark.parametrize("name", READS)
def test_every_read_tells_an_index_that_is_outside(name):
    t = Tensor([1.0, 2.0, 3.0])[Tensor([5, 0])]
    for _ in range(2):
        with pytest.raises(IndexError, match="index 5 is outside an axis of size 3") as error:
            READS[name](t)
        assert "test_indexing.py" in str(error.value) and "kernel" in str(error.value)
    assert Tensor([1.0, 2.0, 3.0])[Tensor([2, 0])].numpy().tolist() == [3.0, 1.0]


def test_a_store_outside_is_told_to_the_first_that_reads():
    for read in (np.asarray, lambda t: t.numpy(), lambda t: t.tolist()):
        x = Tensor([1.0, 2.0, 3.0]).contiguous()
        x[Tensor([0, 4])] = 9.0
        x.realize()
        assert Tensor([7.0]).numpy() == 7
        with pytest.raises(IndexError, match="setitem: index 4"):
            read(x)
        assert np.asarray(x).tolist() == [9.0, 2.0, 3.0]


def test_a_one_element_buffer_is_whole_again_once_overwritten():
    a = Tensor([1.0, 2.0, 3.0]).realize()
    b = a[Tensor([5])].realize()
    with pytest.raises(IndexError):
        b.numpy()
    b.assign(Tensor([4.0]) * 2).realize()
    assert b.tolist() == [8.0]


@pytest.mark.parametrize("choice", [True, False, np.True_, np.False_, np.array(True)])
def test_a_single_bool_chooses_all_or_nothing(choice):
    numbers = np.arange(6, dtype=np.int32).reshape(2, 3)
    plain = bool(choice)
    for key, same in [((choice,), (plain,)), ((choice, 1), (plain, 1)), ((slice(None), choice), (slice(None), plain))]:
        assert_same(Tensor(numbers)[key], numbers[same])
        changed, expected = Tensor(numbers).contiguous(), numbers.copy()
        changed[key], expected[same] = 7, 7
        assert_same(changed, expected)
    assert Tensor(5)[choice].tolist() == ([5] if plain else [])
    with pytest.raises(IndexError):
        Tensor(numbers)[0, 0, choice, 0]


def test_scatter_reduce_rounds_small_floats_once():
    x = Tensor.full((1, 1), 1.0, dtype="fp8e5m2").contiguous()
    source = Tensor([[3.0, 3.0, 2.0, 1.0]], dtype="fp8e5m2")
    assert x.scatter_reduce(1, Tensor([[0, 0, 0, 0]]), source, "sum").float().tolist() == [[10.0]]  # 9 would be 8, and 8 + 1 too


@pytest.mark.parametrize("dtype", ["int32", "uint8", "int64", "float32"])
@pytest.mark.parametrize("size", [17, 100, 154, 160])
def test_what_was_written_in_place_is_divided(dtype, size):
    """The remainder reads the memory that the same kernel writes."""
    a, b = np.arange(1, size + 1).astype(dtype) % 50 + 1, np.full(size, 3).astype(dtype)
    v = Tensor(b).clone()
    v *= Tensor(a)
    found = [v % Tensor(a + 1), v // Tensor(a + 1), v]
    Tensor.realize(*found)
    for f, e in zip(found, [(b * a) % (a + 1), (b * a) // (a + 1), b * a]):
        np.testing.assert_array_equal(f.numpy(), e)


@pytest.mark.parametrize("before,after", [(1, 1), (0, 2), (2, 0), (1, 6)])
def test_a_sum_that_is_cut_short_stands_beside_one_that_is_not(before, after):
    n = 1 + before + after
    b, p = Tensor(np.arange(n, dtype=np.float32)).realize(), Tensor.full((1,), 2.0).pad(((before, after),))
    assert (b.sum() + p.sum() + b).tolist() == [n * (n - 1) / 2 + 2 + i for i in range(n)]
    x = Tensor(np.ones((2, 2), np.float32)).pad(((1, 2), (0, 3)))
    product, total = x.prod(1), x.sum(1, keepdim=True)
    Tensor.realize(product, total)
    assert product.tolist() == [0.0] * 5 and total.tolist() == [[0.0], [2.0], [2.0], [0.0], [0.0]]
