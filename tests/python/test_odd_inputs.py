"""Arrays and scalars of other libraries that are not plain rows of numbers: their values are right, or they are refused in words."""

import datetime
import decimal

import numpy as np
import pytest
import torch

import lathe
from lathe import Tensor

pairs = np.zeros(3, dtype=[("x", "f4"), ("y", "i4")])

REFUSED = [
    (pairs, r"structured array has the fields \('x', 'y'\)(.|\n)*array\[\"x\"\]"),
    (pairs[0], "not"),
    (np.array(["2020-01-01"], dtype="datetime64[ns]"), r"holds times(.|\n)*astype"),
    (np.array([5], dtype="timedelta64[ns]"), "holds times"),
    (np.datetime64("2020-01-01", "ns"), "times"),
    ([np.timedelta64(5, "ns")], "holds times"),
    ([datetime.date(2020, 1, 1)], "not a number"),
    (np.array([1 + 2j]), "no dtype for an array of complex128"),
    (np.complex64(1), "complex64"),
    (torch.tensor([1 + 2j]), "not"),
    (np.array(["a", "b"]), "no dtype for an array of <U1"),
    (np.array([b"ab"]), "no dtype"),
    (np.ma.masked_array([1.0, 2.0], mask=[False, True]), "masked array has elements without a value"),
    (np.array([None, 1], dtype=object), "not a number"),
    (np.array([[1, 2], [3]], dtype=object), "same length|unevenly|not a number"),
    (decimal.Decimal("1.5"), "cannot make a tensor"),
]


@pytest.mark.parametrize("data,text", REFUSED, ids=[f"{i}-{type(d).__name__}" for i, (d, _) in enumerate(REFUSED)])
def test_what_is_no_array_of_numbers_is_refused(data, text):
    with pytest.raises((TypeError, ValueError), match=text):
        lathe.tensor(data)


class Table:
    """As pandas' tables are: an array on request."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None):
        return self.values


VALUES = {
    "byte-swapped float": np.array([1.5, -2.0], dtype=">f4"),
    "byte-swapped int": np.array([1, -2, 300], dtype=">i8"),
    "negative strides": np.arange(12.0).reshape(3, 4)[::-1, ::-2],
    "transposed": np.arange(6, dtype=np.int16).reshape(2, 3).T,
    "broadcast": np.broadcast_to(np.float32([1, 2]), (3, 2)),
    "read-only": np.frombuffer(np.float32([1, 2]).tobytes(), dtype=np.float32),
    "no elements": np.zeros((0, 3), np.float32),
    "one axis of none": np.zeros((2, 0, 3), np.int64),
    "no axes": np.array(2.5, np.float32),
    "no axes, bool": np.array(True),
    "a scalar of bool": np.bool_(True),
    "a scalar of half": np.float16(1.5),
    "a scalar of 64 bits": np.uint64(7),
    "half": np.array([1.5, 65504], np.float16),
    "bools": np.array([[True, False]]),
    "every other element of bytes": np.arange(10, dtype=np.uint8)[::3],
    "a masked array without a mask": np.ma.masked_array([1.0, 2.0]),
    "a matrix": np.matrix([[1.0, 2.0]]),
    "objects that are numbers": np.array([1.5, 2.5], dtype=object),
    "a field of a structured array": np.array([(1.0, 2), (3.0, 4)], dtype=[("x", "f4"), ("y", "i4")])["y"],
    "Fortran order": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
}


@pytest.mark.parametrize("name", VALUES)
def test_every_layout_of_an_array_gives_its_values(name):
    array = VALUES[name]
    np.testing.assert_array_equal(Tensor(array).numpy().astype(float), np.asarray(array).astype(float))
    assert Tensor(array).shape == np.shape(array)
    if np.asarray(array).dtype not in (object,) and np.ndim(array):
        assert Tensor(array).dtype.name.replace("unsigned char", "uint8") is not None and Tensor(array).numpy().dtype == np.asarray(array).dtype.newbyteorder("=")


def test_tensors_of_pytorch_and_what_becomes_an_array_on_request_are_taken_by_their_values():
    w = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    assert Tensor(w).tolist() == [1.0, 2.0] and Tensor(w).dtype == lathe.float64
    assert Tensor(w * 2).tolist() == [2.0, 4.0]
    assert Tensor(torch.tensor([True, False])).tolist() == [True, False]
    assert Tensor(torch.arange(6).reshape(2, 3).t()).tolist() == [[0, 3], [1, 4], [2, 5]]
    np.testing.assert_array_equal(lathe.tensor(Table(np.arange(6.0).reshape(2, 3))).numpy(), np.arange(6.0).reshape(2, 3))


@pytest.mark.parametrize("mask", [[True, False, True], [False, False, False], [True, True, True]])
@pytest.mark.parametrize("where", ["first", "last", "between", "array", "list"])
def test_writing_through_a_mask_writes_the_chosen_elements_in_order(mask, where):
    shapes = {"first": (3, 2), "last": (2, 3), "between": (2, 3, 2), "array": (3,), "list": (3, 2)}
    start, count = np.arange(np.prod(shapes[where]), dtype=np.float32).reshape(shapes[where]), sum(mask)

    def run(lib):
        x = lib.tensor(start)
        chosen = mask if where == "list" else np.array(mask) if where == "array" else lib.tensor(mask)
        index = {"last": (Ellipsis, chosen), "between": (slice(None), chosen)}.get(where, chosen)
        x[index] += 10
        outer, inner = {"last": ((2,), ()), "between": ((2,), (2,)), "array": ((), ())}.get(where, ((), (2,)))
        x[index] = lib.tensor(np.arange(np.prod((*outer, count, *inner)), dtype=np.float32).reshape(*outer, count, *inner) * 0.5)
        x[index] *= lib.tensor(np.full(inner, 3.0, np.float32))
        return x

    np.testing.assert_allclose(run(lathe).numpy(), run(torch).numpy())


def test_a_value_that_is_not_as_long_as_the_mask_chooses_is_refused():
    x = Tensor(np.zeros((5, 5), np.float32))
    mask = Tensor([True, False, True, False, False])
    with pytest.raises(ValueError, match="the mask chooses 2 places, and there are 5 values"):
        x[:, mask] = Tensor.arange(5).float()
    with pytest.raises(ValueError, match="the mask chooses 2 places, and there are 3 values"):
        x[mask] = Tensor.zeros(3, 5)
