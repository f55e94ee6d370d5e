"""State dicts: the tensors of an object by name, and loading them."""

import enum
import io
import json
import types
import warnings

from lathe import _core
from lathe._core import Tensor
from lathe.dtype import dtypes
from lathe.errors import MissingNames, broken_archive


def _parts(obj):
    """Name and value of what an object is made of. Classes, modules and enums belong to the program, not to the object."""
    if isinstance(obj, (type, types.ModuleType, enum.Enum)):
        return ()
    if hasattr(obj, "_asdict"):
        return obj._asdict().items()
    if isinstance(obj, dict):
        return [(str(k), v) for k, v in obj.items()]
    if isinstance(obj, (list, tuple)):
        return [(str(i), v) for i, v in enumerate(obj)]
    own = getattr(obj, "__dict__", {}).items()
    if isinstance(obj, _core.OptimizerGroup):  # whose members may have state in Python
        return [*((str(i), obj[i]) for i in range(len(obj))), *own]
    return own


def _collect(obj, prefix, tensor_type, found, path, barren):
    """Adds the tensors of an object to `found`. `path` are the objects that lead here, which are not entered again;
    `barren` those that hold nothing. Returns whether one of the path was met."""
    if isinstance(obj, tensor_type):
        found[prefix.strip(".")] = obj
        return False
    if id(obj) in path:
        return True
    if id(obj) in barren:
        return False
    before, cut = len(found), False
    path.add(id(obj))
    if isinstance(obj, _core.Module):
        found.update({f"{prefix}{name}": tensor for name, tensor in _core.module_parts(obj).items()})
    for name, value in _parts(obj):
        cut |= _collect(value, f"{prefix}{name}.", tensor_type, found, path, barren)
    path.remove(id(obj))
    if len(found) == before and not cut:
        barren[id(obj)] = obj  # held, so that its id stays its own
    return cut


def get_state_dict(obj, prefix="", tensor_type=Tensor):
    """The tensors of an object by name: of its attributes, of lists, tuples and dicts in them, and of layers.

    >>> from lathe import nn
    >>> class Net:
    ...     def __init__(self): self.layers = [nn.Linear(2, 3), Tensor.relu, nn.Linear(3, 1)]
    >>> list(nn.state.get_state_dict(Net()))
    ['layers.0.weight', 'layers.0.bias', 'layers.2.weight', 'layers.2.bias']
    """
    found = {}
    _collect(obj, prefix, tensor_type, found, set(), {})
    return found


def get_parameters(obj):
    """The tensors of an object, as an optimizer takes them.

    >>> from lathe import nn
    >>> [p.shape for p in nn.state.get_parameters(nn.Linear(2, 3))]
    [(3, 2), (3,)]
    """
    return list(get_state_dict(obj).values())


def load_state_dict(model, state_dict, strict=True, verbose=False, consume=False, realize=True):
    """Copies values by name into a model's tensors. With `strict`, every tensor of the model must be named; names that
    the model has not are told in a warning. Nothing is changed where a name is missing or a shape differs.

    >>> from lathe import nn
    >>> a, b = nn.Linear(2, 3), nn.Linear(2, 3)
    >>> loaded = nn.state.load_state_dict(a, nn.state.get_state_dict(b))
    >>> bool((a.weight == b.weight).all().item())
    True
    """
    mine = get_state_dict(model)
    missing = [name for name in mine if name not in state_dict]
    unknown = [name for name in state_dict if name not in mine and not name.endswith("num_batches_tracked")]
    if strict and missing:
        raise MissingNames(
            f"lathe: load_state_dict: {len(missing)} names are missing: {', '.join(missing[:6])}\n"
            f"  note: {len(unknown)} names are unknown: {', '.join(unknown[:6]) or 'none'}\n"
            "  help: strict=False loads what fits"
        )
    if strict and unknown:
        warnings.warn(f"load_state_dict: the model has no {', '.join(unknown[:6])}", stacklevel=2)
    loaded = []
    for name, tensor in mine.items():
        if name not in state_dict:
            continue
        value = state_dict[name]
        if tuple(value.shape) != tuple(tensor.shape):
            if {tuple(value.shape), tuple(tensor.shape)} == {(), (1,)}:
                value = value.reshape(tensor.shape)
            else:
                raise _core.UserError(
                    f"lathe: load_state_dict: {name} has shape {tuple(value.shape)}, the model's {tuple(tensor.shape)}"
                )
        loaded.append((name, tensor, value))
    for name, tensor, value in loaded:
        tensor.assign(value.to(tensor.device).cast(tensor.dtype).detach())
        if realize:
            tensor.realize()
        if consume:
            del state_dict[name]
    return [tensor for _, tensor, _ in loaded]


def save(obj, fn):
    """Writes tensors, numbers, strings, bytes, None, and lists, tuples and dicts of them, as a safetensors file; a dict
    of tensors is a plain one. `load` reads it without running anything from it.

    >>> import os, tempfile
    >>> file = os.path.join(tempfile.mkdtemp(), "run")
    >>> nn.state.save({"step": 3, "weights": [Tensor([1.0, 2.0])]}, file)
    >>> nn.state.load(file)["weights"][0].tolist()
    [1.0, 2.0]
    """
    _core.save(obj, fn)


def load(fn):
    """What `save` wrote, or any safetensors file as a dict. Tensors are read from disk when they are used.

    >>> import os, tempfile
    >>> file = os.path.join(tempfile.mkdtemp(), "file")
    >>> nn.state.save([Tensor([1, 2]), "words"], file)
    >>> nn.state.load(file)[1]
    'words'
    """
    return _core.load(fn)


def safe_load(fn):
    """The tensors of a safetensors file by name, read from disk when they are used. `fn` is a path, bytes, an open file
    or a tensor of bytes, here and in all other readers.

    >>> import os, tempfile
    >>> file = os.path.join(tempfile.mkdtemp(), "model.safetensors")
    >>> nn.state.safe_save({"w": Tensor([1, 2, 3])}, file, {"made by": "Lathe"})
    >>> nn.state.safe_load(file)["w"].tolist()
    [1, 2, 3]
    """
    return _core.safe_load(fn)


def safe_load_metadata(fn):
    """A safetensors file as a tensor of bytes, the place where its data begins, and its header: for each tensor dtype,
    shape and place, and under `__metadata__` the notes.

    >>> import os, tempfile
    >>> file = os.path.join(tempfile.mkdtemp(), "model.safetensors")
    >>> nn.state.safe_save({"w": Tensor([1.0, 2.0])}, file, {"made by": "Lathe"})
    >>> data, begin, header = nn.state.safe_load_metadata(file)
    >>> header["__metadata__"], header["w"]["shape"], data.shape[0] - begin
    ({'made by': 'Lathe'}, [2], 8)
    """
    data = _core.file_bytes(fn)
    _core.safe_load_metadata(data)  # refuses what is no such file
    begin = 8 + int.from_bytes(data[0:8].tobytes(), "little")
    return data, begin, json.loads(data[8:begin].tobytes())


class TensorIO(io.RawIOBase):
    """A tensor of bytes as a file that is open for reading.

    >>> nn.state.TensorIO(Tensor(b"hello")).read(4)
    b'hell'
    """

    def __init__(self, t):
        if t.ndim != 1 or t.dtype != dtypes.uint8:
            raise _core.UserError(f"lathe: TensorIO: a tensor of bytes with one axis is needed, not {tuple(t.shape)} {t.dtype}")
        self._tensor, self._at = t, 0

    def readable(self):
        return True

    def seekable(self):
        return True

    def readinto(self, buffer):
        data = self._tensor[self._at : min(self._at + len(buffer), self._tensor.shape[0])].tobytes()
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def seek(self, offset, whence=io.SEEK_SET):
        size = self._tensor.shape[0]
        at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: size}[whence]
        self._at = min(max(at, 0), size)
        return self._at


def safe_save(tensors, fn, metadata=None):
    """Writes tensors by name as a safetensors file, under a temporary name first: a reader sees all of it or nothing.

    >>> import os, tempfile
    >>> file = os.path.join(tempfile.mkdtemp(), "file")
    >>> nn.state.safe_save({"w": Tensor([1.0])}, file, {"made by": "Lathe"})
    >>> nn.state.safe_load(file)["w"].item()
    1.0
    """
    _core.safe_save(tensors, fn, metadata)


def torch_load(fn):
    """What a torch checkpoint holds: tensors by name, usually, with whatever plain values are among them. Nothing in the
    file is executed; a file that asks for more than tensors and plain values is refused.

    >>> import pickle
    >>> try: nn.state.torch_load(pickle.dumps(print))
    ... except ValueError as error: print("refused")
    refused
    """
    return _core.torch_load(fn)


def gguf_load(fn):
    """The keys of a GGUF file (llama.cpp) as a dict, and its tensors by name. Plain dtypes are read from disk when they are
    used; the packed ones (every type of the format) are unpacked to float32 then.

    >>> empty = b"GGUF" + (3).to_bytes(4, "little") + bytes(16)  # version 3, no tensors, no keys
    >>> nn.state.gguf_load(empty)
    ({}, {})
    """
    return _core.gguf_load(fn)


def load_npy(fn):
    """The array of an npy file.

    >>> import os, tempfile
    >>> file = os.path.join(tempfile.mkdtemp(), "a.npy")
    >>> nn.state.save_npy(Tensor([[1, 2], [3, 4]]), file)
    >>> nn.state.load_npy(file).tolist()
    [[1, 2], [3, 4]]
    """
    return _core.load_npy(fn)


def save_npy(tensor, fn):
    """Writes a tensor as an npy file.

    >>> import os, tempfile
    >>> file = os.path.join(tempfile.mkdtemp(), "file")
    >>> nn.state.save_npy(Tensor([1.5, 2.5]), file)
    >>> nn.state.load_npy(file).tolist()
    [1.5, 2.5]
    """
    _core.save_npy(tensor, fn)


def load_npz(fn):
    """The arrays of an npz file by name.

    >>> import os, tempfile
    >>> file = os.path.join(tempfile.mkdtemp(), "file")
    >>> nn.state.save_npz({"a": Tensor([1]), "b": Tensor([2])}, file)
    >>> sorted(nn.state.load_npz(file))
    ['a', 'b']
    """
    return _core.load_npz(fn)


def save_npz(tensors, fn, compressed=False):
    """Writes tensors by name as an npz file, whose members may be compressed.

    >>> import os, tempfile
    >>> file = os.path.join(tempfile.mkdtemp(), "file")
    >>> nn.state.save_npz({"zeros": Tensor.zeros(1000)}, file, compressed=True)
    >>> os.path.getsize(file) < 1000
    True
    """
    _core.save_npz(tensors, fn, compressed)


def tar_extract(fn):
    """The files of a tar archive (also one compressed by gzip) by name, as tensors of bytes.

    >>> import io, tarfile
    >>> data = io.BytesIO()
    >>> with tarfile.open(fileobj=data, mode="w") as tar:
    ...     info = tarfile.TarInfo("word")
    ...     info.size = 2
    ...     tar.addfile(info, io.BytesIO(b"hi"))
    >>> nn.state.tar_extract(data.getvalue())["word"].tobytes()
    b'hi'
    """
    try:
        return _core.tar_extract(fn)
    except _core.UserError as error:
        import tarfile

        raise broken_archive(error, tarfile.ReadError) from None


def zip_extract(fn):
    """The files of a zip archive by name, as tensors of bytes.

    >>> import io, zipfile
    >>> data = io.BytesIO()
    >>> with zipfile.ZipFile(data, "w") as archive: archive.writestr("word", "hi")
    >>> nn.state.zip_extract(data.getvalue())["word"].tobytes()
    b'hi'
    """
    try:
        return _core.zip_extract(fn)
    except _core.UserError as error:
        import zipfile

        raise broken_archive(error, zipfile.BadZipFile) from None


__all__ = [
    "TensorIO",
    "get_parameters",
    "get_state_dict",
    "gguf_load",
    "load",
    "load_npy",
    "load_npz",
    "load_state_dict",
    "safe_load",
    "safe_load_metadata",
    "safe_save",
    "save",
    "save_npy",
    "save_npz",
    "tar_extract",
    "torch_load",
    "zip_extract",
]
