"""Errors are of the kinds that programs written against other libraries handle, and what is refused is refused early."""

import errno
import os
import pathlib
import pickle
import subprocess
import sys
import tarfile
import zipfile

import numpy as np
import pytest

import lathe
from lathe import Tensor, dtypes, nn


def test_a_missing_file_is_a_file_not_found_error(tmp_path):
    gone = tmp_path / "gone"
    readers = [nn.state.safe_load, nn.state.torch_load, nn.state.gguf_load, nn.state.load_npy, nn.state.load_npz, nn.state.load]
    readers += [nn.state.tar_extract, nn.state.zip_extract, lambda f: Tensor(pathlib.Path(f)).numpy(), lambda f: lathe.fetch(str(f))]
    readers += [lambda f: nn.datasets.mnist(folder=f), lambda f: nn.state.safe_save({"a": Tensor([1])}, f / "file")]
    for read in readers:
        with pytest.raises(FileNotFoundError) as caught:
            read(gone)
        assert isinstance(caught.value, lathe.errors.UserError) and "gone" in str(caught.value)
    with pytest.raises(OSError) as caught:
        nn.state.safe_load(gone)
    assert caught.value.errno == errno.ENOENT


def test_a_broken_archive_is_the_standard_librarys_error(tmp_path):
    (tmp_path / "broken").write_bytes(b"no archive" * 100)
    with pytest.raises(tarfile.ReadError, match="broken"):
        nn.state.tar_extract(tmp_path / "broken")
    with pytest.raises(zipfile.BadZipFile) as caught:
        nn.state.zip_extract(tmp_path / "broken")
    assert isinstance(caught.value, lathe.errors.UserError)


def test_what_is_not_supported_is_a_not_implemented_error():
    for call in (lambda: Tensor([1], device=("CPU:0", "CPU:1")), lambda: Tensor([1]).shard(("CPU:0", "CPU:1"))):
        with pytest.raises(NotImplementedError) as caught:
            call()
        assert isinstance(caught.value, (ValueError, RuntimeError))


def test_a_bad_index_is_an_index_error_and_a_bad_type_a_type_error():
    x = Tensor.arange(6).reshape(2, 3)
    for key in (5, (0, 0, 0), (..., ...), "a", 1.5):
        with pytest.raises(IndexError):
            x[key]
    for key in ("a", 1.5):
        with pytest.raises(TypeError):
            x[key]
    for call in (lambda: x.reshape("a"), lambda: x + "a", lambda: Tensor(object()), lambda: x.sum("a")):
        with pytest.raises(TypeError):
            call()


def test_a_list_with_slices_is_an_index_as_a_tuple_is():
    x = Tensor.arange(12).reshape(3, 4)
    assert x[[slice(0, 2), 1]].tolist() == [1, 5] and x[[slice(None), None, 0]].shape == (3, 1)
    assert x[[..., 0]].tolist() == [0, 4, 8] and x[[0, 2]].tolist() == [[0, 1, 2, 3], [8, 9, 10, 11]]
    y = x.contiguous().realize()
    y[[slice(0, 1), 2]] = 7
    assert y.tolist()[0] == [0, 1, 7, 3]


def test_a_dtype_equals_no_other_thing():
    assert (dtypes.float32 == None) is False and (dtypes.float32 != None) is True  # noqa: E711
    assert dtypes.float32 != "float32" and dtypes.float32 == dtypes.float and dtypes.int8 not in [None, 3]


def test_groups_of_eight_bit_floats():
    assert dtypes.fp8_fnuz == (dtypes.fp8e4m3fnuz, dtypes.fp8e5m2fnuz) and set(dtypes.fp8_ocp) | set(dtypes.fp8_fnuz) == set(dtypes.fp8s)


def test_random_ranges_that_are_empty_are_refused():
    for call in (
        lambda: Tensor.uniform(2, low=3, high=1),
        lambda: Tensor.uniform(2, low=float("nan"), high=1),
        lambda: Tensor.normal(2, std=-1),
        lambda: Tensor.randint(2, low=3, high=3),
    ):
        with pytest.raises(ValueError):
            call()
    assert Tensor.uniform(2, low=3, high=3).tolist() == [3, 3] and Tensor.normal(2, mean=1, std=0).tolist() == [1, 1]
    big = Tensor.randint(100, low=2**40, high=2**40 + 5)
    assert big.dtype == dtypes.int64 and min(big.tolist()) >= 2**40


def test_pickles_of_protocol_5_carry_their_data_beside_them():
    x = Tensor(np.arange(100_000, dtype=np.float32))
    buffers = []
    data = pickle.dumps(x, protocol=5, buffer_callback=buffers.append)
    assert len(buffers) == 1 and len(data) < 1000
    assert (pickle.loads(data, buffers=buffers).numpy() == x.numpy()).all()
    copies = [bytearray(b.raw()) for b in buffers]
    assert (pickle.loads(data, buffers=copies).numpy() == x.numpy()).all()
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert (pickle.loads(pickle.dumps(x, protocol=protocol)).numpy() == x.numpy()).all()


def test_a_misspelt_variable_is_a_warning_and_lathe_works():
    run = subprocess.run(
        [sys.executable, "-c", "from lathe import Tensor; print((Tensor([1, 2]) + 1).tolist())"],
        env={**os.environ, "LATHE_DEBIG": "1", "LATHE_OF_SOME_OTHER_PROGRAM": "x"}, capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0 and run.stdout == "[2, 3]\n", run.stderr
    assert run.stderr.count("LATHE_DEBIG is not a flag of Lathe; did you mean LATHE_DEBUG?") == 1, run.stderr


def test_the_search_finds_its_worker_from_the_package(tmp_path):
    run = subprocess.run(
        [sys.executable, "-c", "from lathe import Tensor; print(Tensor.rand(40, 30).realize().sum(1).numpy().shape)"],
        env={**os.environ, "LATHE_BEAM": "1", "LATHE_BEAM_SECONDS": "1", "LATHE_CACHE": str(tmp_path / "cache")},
        capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0 and "is missing" not in run.stderr, run.stderr
