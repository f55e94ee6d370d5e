"""Dtypes: names, groups, promotion of all pairs, literals, conversions, infos."""

import operator
import pickle

import numpy as np
import pytest
import torch

from lathe import Context, Tensor, UserError, dtypes
from lathe.dtype import DTYPES_DICT, least_upper_dtype

NUMPY = [d for d in dtypes.all if d.fmt is not None]
TORCH = {
    "bool": torch.bool,
    "int8": torch.int8,
    "uint8": torch.uint8,
    "int16": torch.int16,
    "int32": torch.int32,
    "int64": torch.int64,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "float64": torch.float64,
}


def test_names_aliases_and_groups():
    assert dtypes.float is dtypes.float32 and dtypes.half is dtypes.float16 and dtypes.long is dtypes.int64
    assert dtypes.uchar is dtypes.uint8 and dtypes.ushort is dtypes.uint16 and dtypes.ulong is dtypes.uint64
    assert dtypes.float32 in dtypes.floats and dtypes.int8 in dtypes.sints and dtypes.uint8 in dtypes.uints
    assert set(dtypes.ints) == set(dtypes.sints) | set(dtypes.uints)
    assert dtypes.is_float(dtypes.half) and not dtypes.is_float(dtypes.int)
    assert dtypes.is_int(dtypes.uint8) and not dtypes.is_int(dtypes.bool) and dtypes.is_unsigned(dtypes.uint8)
    assert dtypes.bool < dtypes.int8 < dtypes.float16 < dtypes.float32 < dtypes.float64
    assert repr(dtypes.float32) == "dtypes.float32" and DTYPES_DICT["int8"] is dtypes.int8
    for d in dtypes.all:
        assert pickle.loads(pickle.dumps(d)) is d
        assert d.bitsize == (1 if d is dtypes.bool else 8 * d.itemsize)
        assert Tensor([1], dtype=d).dtype is d
        assert Tensor([1], dtype=d.name).dtype is d


def test_promotion_of_all_pairs_follows_the_lattice():
    for a in dtypes.all:
        for b in dtypes.all:
            both = least_upper_dtype(a, b)
            assert both is least_upper_dtype(b, a)
            assert not both < a and not both < b
            assert (Tensor([1], dtype=a) + Tensor([1], dtype=b)).dtype is both
            if a.name in TORCH and b.name in TORCH:
                assert TORCH[both.name] == torch.promote_types(TORCH[a.name], TORCH[b.name])


def test_literals_are_weak():
    assert (Tensor([1], dtype=dtypes.int8) + 1).dtype is dtypes.int8
    assert (Tensor([1], dtype=dtypes.int8) + 1.5).dtype is dtypes.float32
    assert (Tensor([1], dtype=dtypes.half) + 1.5).dtype is dtypes.half
    assert (Tensor([True]) + 1).dtype is dtypes.int32
    assert (Tensor([1], dtype=dtypes.int8) + True).dtype is dtypes.int8
    assert (Tensor([1]) / 2).dtype is dtypes.float32
    assert Tensor([1, 2.5]).dtype is dtypes.float32 and Tensor([True]).dtype is dtypes.bool and Tensor(3).dtype is dtypes.int32
    with Context(DEFAULT_FLOAT=dtypes.float16, DEFAULT_INT=dtypes.int64):
        assert Tensor([1.0]).dtype is dtypes.float16 and Tensor([1]).dtype is dtypes.int64
        assert Tensor.rand(3).dtype is dtypes.float16
    assert Tensor([1.0]).dtype is dtypes.float32
    assert dtypes.from_py(1) is dtypes.int32 and dtypes.from_py([1, 2.0]) is dtypes.float32 and dtypes.from_py(True) is dtypes.bool


@pytest.mark.parametrize("d", NUMPY, ids=[d.name for d in NUMPY])
def test_a_cast_and_the_way_to_numpy_and_back_keep_values(d):
    values = [0, 1, 2, 100] if d is not dtypes.bool else [0, 1, 1, 0]
    a = np.array(values).astype(np.dtype(d.fmt))
    x = Tensor(a)
    assert x.dtype is d and x.numpy().dtype == a.dtype
    np.testing.assert_array_equal(x.numpy(), a)
    assert x.tolist() == a.tolist()
    for other in NUMPY:
        np.testing.assert_array_equal(x.cast(other).numpy(), a.astype(np.dtype(other.fmt)))


def test_small_floats_come_out_as_float32():
    for d in (dtypes.bfloat16, *dtypes.fp8s):
        x = Tensor([0.5, -2.0, 1.5], dtype=d)
        assert x.dtype is d and x.tolist() == [0.5, -2.0, 1.5]
        assert x.numpy().dtype == np.float32
    assert Tensor([1.0], dtype=dtypes.bfloat16).bitcast(dtypes.uint16).item() == 0x3F80
    assert Tensor([1.0]).bitcast(dtypes.int32).item() == 0x3F800000


def test_infos():
    assert dtypes.finfo(dtypes.float32) == (8, 23) and dtypes.finfo(dtypes.half) == (5, 10)
    assert dtypes.max(dtypes.int8) == 127 and dtypes.min(dtypes.uint8) == 0 and dtypes.max(dtypes.float) == float("inf")
    assert dtypes.uint64.max == 2**64 - 1 and dtypes.int64.min == -(2**63)
    with pytest.raises(ValueError):
        Tensor([1], dtype="float33")
    with pytest.raises(TypeError):
        Tensor([1], dtype=5)


def test_big_unsigned_numbers_survive():
    x = Tensor([2**64 - 1, 2**63], dtype=dtypes.uint64)
    assert x.tolist() == [2**64 - 1, 2**63]
    assert (Tensor([0], dtype=dtypes.uint64) + (2**64 - 1)).item() == 2**64 - 1


def test_numbers_beyond_int64_in_lists():
    assert Tensor([2**63, 0.5], dtype=dtypes.float64).tolist() == [2.0**63, 0.5]
    assert Tensor([2**63, 3]).tolist() == [2**63, 3]
    assert Tensor([-1, 2**63], dtype=dtypes.float64).tolist() == [-1.0, 2.0**63]
    for dtype in (None, dtypes.int64, dtypes.uint64):
        with pytest.raises(UserError, match="no integer dtype"):
            Tensor([-1, 2**63], dtype=dtype)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint64"])
def test_integers_compare_with_every_number(dtype):
    info = np.iinfo(dtype)
    values = np.array([info.min, info.min + 1, 0, 1, info.max // 2, info.max - 1, info.max], dtype)
    x = Tensor(values)
    for number in (-(2**63), -1, 0, 1, 127, 255, 2**31, 2**63 - 1, 2**63, 2**64 - 1, int(info.max), int(info.min)):
        for name in ("lt", "le", "gt", "ge", "eq", "ne"):
            compare = getattr(operator, name)
            expected = [compare(int(v), number) for v in values]
            assert compare(x, number).tolist() == expected, (name, number)


def test_unsigned_and_extreme_integers_have_no_wrapped_distance():
    a, b = np.array([1, 200, 255], np.uint8), np.array([2, 100, 0], np.uint8)
    assert Tensor(a).isclose(Tensor(b), rtol=0, atol=1.5).tolist() == [True, False, False]
    low, high = np.array([-128, 127], np.int8), np.array([127, -128], np.int8)
    assert Tensor(low).isclose(Tensor(high), rtol=0, atol=300).tolist() == [True, True]
    assert Tensor(low).isclose(Tensor(high), rtol=0, atol=254).tolist() == [False, False]
    assert Tensor(a).lerp(Tensor(b), 0.5).tolist() == [1.5, 150.0, 127.5]


def test_padding_integers_with_what_they_cannot_hold_is_an_error():
    x = Tensor([1, 2], dtype=dtypes.int32)
    assert x.pad((1, 1), value=7.0).tolist() == [7, 1, 2, 7]
    for value in (1e20, 3e10, 2**40):
        with pytest.raises(UserError, match="does not fit"):
            x.pad((1, 1), value=value)
