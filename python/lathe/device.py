"""Devices by name, and which dtypes they take."""

import re
import sys

from lathe import _core
from lathe._core import CompileError  # noqa: F401
from lathe.absent import absent
from lathe.renderer import Renderer


class _Printer(Renderer):
    """What programs ask of a device's way of printing kernels."""

    def __init__(self, name):
        kind = name.partition(":")[0]
        gpu = kind in ("CUDA", "AMD", "METAL", "WEBGPU")
        self.device, self.suffix, self.supports_float4 = kind, "", True
        self.has_local, self.has_shared, self.has_threads = gpu, gpu, not gpu
        self.tensor_cores = []


class _DeviceInfo:
    """What is known of one device: its name and target."""

    graph = None

    def __init__(self, name):
        self.device = self.dname = name
        self.renderer = _Printer(name)

    def synchronize(self):
        """Waits until the device has done everything it was given."""
        _core.synchronize()

    def __repr__(self):
        return f"<Device {self.device}>"


class _Device:
    """The devices: `Device.DEFAULT` is where tensors that name none are made; `Device[name]` is one of them.

    >>> Tensor([1.0]).device == lathe.Device.DEFAULT, lathe.Device.canonicalize("cpu")
    (True, 'CPU')
    """

    @property
    def DEFAULT(self):
        """The device of tensors that name none; can be assigned to."""
        return _core.default_device()

    @DEFAULT.setter
    def DEFAULT(self, name):
        _core.set_default_device(name)

    def canonicalize(self, name):
        """The one spelling of a device's name; the default's for None."""
        return self.DEFAULT if name is None else _core.canonical_device(name)

    def __getitem__(self, name):
        return _DeviceInfo(self.canonicalize(name))

    def get_available_devices(self):
        """Names of the devices that can be used on this machine."""
        return _core.available_devices()

    def synchronize(self):
        """Waits until all devices have done everything they were given."""
        _core.synchronize()


Device = _Device()


class _DeviceType(type):
    """`lathe.device` is this class and, under the same name, the module it is in."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(sys.modules[__name__], name)


class device(str, metaclass=_DeviceType):
    """The name of a device, as PyTorch's programs make and ask it: `type` in small letters and `index`.

    >>> lathe.device("cuda:1").type, lathe.device("cuda", 1).index, lathe.device("cpu") == "CPU"
    ('cuda', 1, True)
    """

    __slots__ = ()

    def __new__(cls, name, index=None):
        if isinstance(name, int):
            name, index = "CUDA", name
        text = str(name) if index is None else f"{name}:{index}"
        try:
            text = _core.canonical_device(text)
        except _core.UserError:
            kind = text.partition(":")[0].upper()  # one that this machine has not: it can be named, not used
            if kind not in ("CUDA", "META", "MPS", "XPU"):
                raise
            text = text.upper()
        return super().__new__(cls, text)

    @property
    def type(self):
        """What kind of device it is: "cpu", "cuda"."""
        return self.partition(":")[0].lower()

    @property
    def index(self):
        """Its number, None where it has none."""
        number = self.partition(":")[2]
        return int(number) if number.isdigit() else None

    def __enter__(self):
        _before.append(Device.DEFAULT)
        Device.DEFAULT = str(self)
        return self

    def __exit__(self, *error):
        Device.DEFAULT = _before.pop()


_before = []  # default devices of blocks that are open


def canonicalize_device(device):
    """The one spelling of a device's name, or of each in a tuple."""
    if isinstance(device, (tuple, list)):
        names = tuple(Device.canonicalize(d) for d in device)
        return names[0] if len(names) == 1 else names
    return Device.canonicalize(device)


def is_dtype_supported(dtype, device=None):
    """Whether the device computes with the dtype: all of Lathe's do, some by emulation."""
    return re.match(r"\w+", Device.canonicalize(device)) is not None and dtype is not None


# What else tinygrad programs import from here belongs to its runtime.
__getattr__ = absent(__name__)
