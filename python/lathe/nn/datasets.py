"""Labelled images to train on, from files on this machine or a mirror named by the environment."""

import gzip
import os
import pathlib

from lathe._core import MissingFile, Tensor, UserError
from lathe.dtype import dtypes
from lathe.helpers import fetch

_MNIST = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def _idx(path):
    """The array of an IDX file, plain or compressed, as a tensor."""
    with open(path, "rb") as file:
        data = file.read()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    if data[:3] != b"\0\0\x08":
        raise UserError(f"lathe: mnist: {path} is not an IDX file of bytes")
    rank = data[3]
    shape = [int.from_bytes(data[4 + 4 * i : 8 + 4 * i], "big") for i in range(rank)]
    count = 1
    for size in shape:
        count *= size
    begin = 4 + 4 * rank
    if len(data) - begin != count:
        raise UserError(f"lathe: mnist: {path} has {len(data) - begin} bytes where its header says {count}")
    return Tensor(data[begin:]).reshape(shape)


def _file(folder, name):
    for candidate in (pathlib.Path(folder) / f"{name}.gz", pathlib.Path(folder) / name):
        if candidate.exists():
            return candidate
    raise MissingFile(f"lathe: mnist: {folder} has neither {name} nor {name}.gz")


def mnist(device=None, fashion=False, folder=None):
    """The digits as (X_train, Y_train, X_test, Y_test): uint8 images (n, 1, 28, 28) and their classes. They come
    from `folder`, else from the folder MNIST_PATH names (fashion: the distribution's package), else from the network.

    >>> import os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> def write(name, *shape):  # an IDX file of zeros
    ...     head = bytes([0, 0, 8, len(shape)]) + b"".join(n.to_bytes(4, "big") for n in shape)
    ...     with open(os.path.join(folder, name), "wb") as file: file.write(head + bytes(shape[0] * (784 if shape[1:] else 1)))
    >>> for part in "train", "t10k":
    ...     write(f"{part}-images-idx3-ubyte", 2, 28, 28)
    ...     write(f"{part}-labels-idx1-ubyte", 2)
    >>> [x.shape for x in nn.datasets.mnist(folder=folder)]
    [(2, 1, 28, 28), (2,), (2, 1, 28, 28), (2,)]
    """
    if folder is None and fashion:
        folder = "/usr/share/datasets/fashion-mnist"
    folder = folder or os.getenv("MNIST_PATH")
    if folder is not None:
        arrays = [_idx(_file(folder, name)) for name in _MNIST]
    else:
        base = "https://storage.googleapis.com/cvdf-datasets/mnist/"
        arrays = [_idx(fetch(f"{base}{name}.gz", subdir="mnist")) for name in _MNIST]
    images = [a.reshape(-1, 1, 28, 28) if a.ndim == 3 else a.cast(dtypes.uint8) for a in arrays]
    return tuple(p.to(device) for p in images)


def cifar(device=None, folder=None):
    """CIFAR-10 as (X_train, Y_train, X_test, Y_test): uint8 images (n, 3, 32, 32) and their classes, from a folder
    with the binary version's files (data_batch_1.bin, ...): the one given, else that of CIFAR_PATH, else from the network.

    >>> import os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> for name in [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]:
    ...     with open(os.path.join(folder, name), "wb") as file: out = file.write(bytes(3073 * 2))
    >>> [x.shape for x in nn.datasets.cifar(folder=folder)]
    [(10, 3, 32, 32), (10,), (2, 3, 32, 32), (2,)]
    """
    folder = folder or os.getenv("CIFAR_PATH")
    if folder is None:
        folder = fetch("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz", extract=True) / "cifar-10-batches-bin"

    def read(names):
        rows = b"".join((pathlib.Path(folder) / name).read_bytes() for name in names)
        table = Tensor(rows).reshape(-1, 3073)
        return table[:, 1:].reshape(-1, 3, 32, 32).contiguous().to(device), table[:, 0].contiguous().to(device)

    x_train, y_train = read([f"data_batch_{i}.bin" for i in range(1, 6)])
    x_test, y_test = read(["test_batch.bin"])
    return x_train, y_train, x_test, y_test


__all__ = ["cifar", "mnist"]
