"""Queries on a tensor and its memory, tensors like it, and methods that write in place."""

import math

from lathe import _core
from lathe._core import Tensor
from lathe.errors import TypeError as WrongType
from lathe.errors import UserError

# ---- questions


def dim(self):
    """The number of axes.

    >>> Tensor.ones(2, 3).dim()
    2
    """
    return self.ndim


def nelement(self):
    """The number of elements.

    >>> Tensor.ones(2, 3).nelement()
    6
    """
    return self.numel()


def stride(self, dim=None):
    """The stride of each axis in elements, in row-major order.

    >>> Tensor.ones(2, 3).stride()
    (3, 1)
    """
    steps = tuple(math.prod(max(n, 1) for n in self.shape[i + 1 :]) for i in range(self.ndim))
    return steps if dim is None else steps[dim]


def is_contiguous(self, memory_format=None):
    """Whether elements are in row-major order: always, as far as a program can observe.

    >>> Tensor.ones(2, 3).T.is_contiguous()
    True
    """
    return True


def is_complex(self):
    """Whether the numbers are complex: never.

    >>> Tensor([1.0]).is_complex()
    False
    """
    return False


def is_signed(self):
    """Whether the dtype has negative numbers.

    >>> Tensor([1], dtype=dtypes.uint8).is_signed()
    False
    """
    return self.dtype.min < 0


def is_nonzero(self):
    """Whether the only element is not 0.

    >>> Tensor([2]).is_nonzero()
    True
    """
    if self.numel() != 1:
        raise UserError(f"lathe: is_nonzero: needs one element, not shape {tuple(self.shape)}")
    return bool(self.item() != 0)


def is_same_size(self, other):
    """Whether the shapes are equal.

    >>> Tensor([1]).is_same_size(Tensor([2]))
    True
    """
    return tuple(self.shape) == tuple(other.shape)


def is_inference(self):
    """False: tensors are made the same way in every mode.

    >>> Tensor([1.0]).is_inference()
    False
    """
    return False


def get_device(self):
    """The number of its device, -1 for the CPU.

    >>> Tensor([1.0]).get_device()
    -1
    """
    name, _, number = self.device.partition(":")
    return -1 if name == "CPU" else int(number or 0)


def data_ptr(self):
    """The address of its memory on the CPU, which is computed first.

    >>> Tensor([1.0]).data_ptr() != 0
    True
    """
    import ctypes

    if not self.device.startswith("CPU"):
        raise UserError(f"lathe: data_ptr: the memory is on {self.device}\n  help: x.to('CPU') first, or DLPack to share it")
    if self.numel() == 0:
        return 0
    view = self.realize().data()
    return ctypes.addressof(ctypes.c_char.from_buffer(view.cast("B"))) if not view.readonly else _address(view)


def _address(view):
    import ctypes

    class Buffer(ctypes.Structure):  # Python's Py_buffer, as far as its first member
        _fields_ = [("buf", ctypes.c_void_p), ("rest", ctypes.c_char * 128)]

    buffer = Buffer()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(view), ctypes.byref(buffer), 0)
    address = buffer.buf
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(buffer))
    return address


def storage_offset(self):
    """0: a tensor begins where its memory does, as far as a program can see.

    >>> Tensor([1, 2])[1:].storage_offset()
    0
    """
    return 0


def cpu(self):
    """The tensor on the CPU.

    >>> Tensor([1.0]).cpu().device
    'CPU'
    """
    return self.to("CPU")


def cuda(self, device=None, non_blocking=False):
    """The tensor on a CUDA device.

    >>> callable(Tensor.cuda)
    True
    """
    return self.to("CUDA" if device is None else f"CUDA:{device}" if isinstance(device, int) else device)


def real(self):
    return self


real = property(real, doc="The tensor itself: its numbers are real.\n\n    >>> Tensor([1.0]).real.tolist()\n    [1.0]\n    ")


def _itself(name):
    def method(self, *args, **kwargs):
        return self

    method.__name__ = name
    method.__doc__ = f"The tensor itself: numbers are real and storage is dense.\n\n    >>> Tensor([1.0]).{name}().tolist()\n    [1.0]\n    "
    return method


conj, conj_physical, resolve_conj, resolve_neg, to_dense, dequantize, pin_memory = map(
    _itself, ("conj", "conj_physical", "resolve_conj", "resolve_neg", "to_dense", "dequantize", "pin_memory")
)


def retain_grad(self):
    """Asks for a gradient of a tensor that is not a leaf, which is filled in any case.

    >>> x = Tensor([1.0], requires_grad=True)
    >>> (x * 2).retain_grad()
    """


class HookHandle:
    """What registering a hook gives: `remove()` takes it away."""

    def __init__(self, number):
        self.number = number

    def remove(self):
        """The hook is not called any more."""
        _core.remove_gradient_hook(self.number)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.remove()


def register_hook(self, hook):
    """Calls hook(grad) when the tensor's gradient is computed; what it gives, unless None, is the gradient. Before the tensor is used,
    unless it is a leaf; a view is a tensor of its own from then on.

    >>> x = Tensor([1.0, 2.0], requires_grad=True)
    >>> handle = x.register_hook(lambda grad: grad * 10)
    >>> loss = (x * 3).sum().backward()
    >>> x.grad.tolist()
    [30.0, 30.0]
    """
    return HookHandle(_core.add_gradient_hook(self, hook))


# ---- dtypes and tensors like this


def byte(self):
    """As uint8.

    >>> Tensor([1.5]).byte().tolist()
    [1]
    """
    return self.cast("uint8")


def char(self):
    """As int8.

    >>> Tensor([-1.5]).char().tolist()
    [-1]
    """
    return self.cast("int8")


def type(self, dtype=None, non_blocking=False):
    """The name of the dtype; or with one, the tensor as that.

    >>> Tensor([1.0]).type(), Tensor([1.0]).type(dtypes.int32).tolist()
    ('float32', [1])
    """
    return self.dtype.name if dtype is None else self.cast(dtype)


def type_as(self, other):
    """As the dtype, and on the device, of another.

    >>> Tensor([1.5]).type_as(Tensor([1])).tolist()
    [1]
    """
    return self.cast(other.dtype).to(other.device)


def _shape(size):
    return tuple(size[0]) if len(size) == 1 and isinstance(size[0], (tuple, list)) else size


def _new(name, make):
    def method(self, *size, dtype=None, device=None, requires_grad=None):
        out = make(_shape(size), self.dtype if dtype is None else dtype, self.device if device is None else device)
        return out if not requires_grad else out.requires_grad_()

    method.__name__ = name
    method.__doc__ = f"A tensor of another shape with this one's dtype and device.\n\n    >>> Tensor([1]).{name}(2).shape\n    (2,)\n    "
    return method


new_zeros = _new("new_zeros", lambda s, t, d: Tensor.zeros(*s, dtype=t, device=d))
new_ones = _new("new_ones", lambda s, t, d: Tensor.ones(*s, dtype=t, device=d))
new_empty = _new("new_empty", lambda s, t, d: Tensor.empty(*s, dtype=t, device=d))


def new(self, *data):
    """PyTorch's old name: zeros of these sizes, or data, with this one's dtype and device.

    >>> Tensor([1.0]).new(2, 3).shape, Tensor([1.0]).new([5]).tolist()
    ((2, 3), [5.0])
    """
    if len(data) == 1 and not isinstance(data[0], int):
        return new_tensor(self, data[0])
    return Tensor.zeros(*data, dtype=self.dtype, device=self.device)


def new_full(self, size, fill_value, dtype=None, device=None, requires_grad=None):
    """One value in another shape, with this one's dtype and device.

    >>> Tensor([1]).new_full((2,), 3).tolist()
    [3, 3]
    """
    out = Tensor.full(tuple(size), fill_value, dtype=self.dtype if dtype is None else dtype, device=self.device if device is None else device)
    return out.requires_grad_() if requires_grad else out


def new_tensor(self, data, dtype=None, device=None, requires_grad=None):
    """Data as a tensor with this one's dtype and device.

    >>> Tensor([1.5]).new_tensor([2, 3]).tolist()
    [2.0, 3.0]
    """
    data = data.detach().clone() if isinstance(data, Tensor) else data
    return Tensor(data, dtype=self.dtype if dtype is None else dtype, device=self.device if device is None else device, requires_grad=requires_grad)


def resize_as(self, other):
    """reshape to the shape of another.

    >>> Tensor([1, 2]).resize_as(Tensor([[3], [4]])).shape
    (2, 1)
    """
    return self.reshape(*other.shape)


# ---- in place

def twin(name):
    def method(self, *args, **kwargs):
        out = getattr(self, name)(*args, **kwargs)
        if tuple(out.shape) != tuple(self.shape):
            raise UserError(f"lathe: {name}_: the result has shape {tuple(out.shape)}, the tensor {tuple(self.shape)}")
        if out.is_floating_point() and not self.is_floating_point():
            raise WrongType(f"lathe: {name}_: the result is {out.dtype.name}, which {self.dtype.name} cannot hold\n  help: x = x.{name}(...)")
        return self.assign(out.cast(self.dtype))

    method.__name__ = f"{name}_"
    method.__doc__ = f"`{name}`, written into the tensor itself.\n\n    >>> callable(Tensor.{name}_)\n    True\n    "
    return method


def view_twin(name):
    def method(self, *args, **kwargs):
        return self.replace(getattr(self, name)(*args, **kwargs), True)

    method.__name__ = f"{name}_"
    method.__doc__ = f"`{name}` of the tensor itself, whose shape changes.\n\n    >>> callable(Tensor.{name}_)\n    True\n    "
    return method


def copy_(self, src, non_blocking=False):
    """Writes the values of another, broadcast and cast.

    >>> Tensor([1.0, 2.0]).copy_(Tensor([3])).tolist()
    [3.0, 3.0]
    """
    src = src if isinstance(src, Tensor) else Tensor(src)
    return self.assign(src.to(self.device).cast(self.dtype).expand(*self.shape))


def fill_(self, value):
    """Writes one value everywhere.

    >>> Tensor([1.0, 2.0]).fill_(3).tolist()
    [3.0, 3.0]
    """
    value = value.item() if isinstance(value, Tensor) else value
    return self.assign(Tensor.full(tuple(self.shape), value, dtype=self.dtype, device=self.device))


def zero_(self):
    """Writes 0 everywhere.

    >>> Tensor([1.0, 2.0]).zero_().tolist()
    [0.0, 0.0]
    """
    return fill_(self, 0)


def detach_(self):
    """Cut off from what it was computed from.

    >>> (Tensor([1.0], requires_grad=True) * 2).detach_().requires_grad is True
    False
    """
    return self.replace(self.detach())


def _drawn(name, make, example):
    def method(self, *args, generator=None, **kwargs):
        return self.assign(make(self, *args, **kwargs).cast(self.dtype))

    method.__name__ = name
    method.__doc__ = f"Random values, written into the tensor: {example[0]}.\n\n    >>> Tensor.zeros(2).contiguous().{name}({example[1]}).shape\n    (2,)\n    "
    return method


def _uniform(t):
    return Tensor.rand(*t.shape, device=t.device, dtype=t.dtype if t.is_floating_point() else None)


def _above(t):
    """Uniform without 0."""
    return 1 - _uniform(t)


uniform_ = _drawn("uniform_", lambda t, a=0.0, b=1.0, **k: _uniform(t) * (k.get("to", b) - k.get("from", a)) + k.get("from", a), ("uniform from a to b", "-1, 1"))
normal_ = _drawn("normal_", lambda t, mean=0.0, std=1.0: Tensor.randn(*t.shape, device=t.device) * std + mean, ("normal", "0, 2"))
log_normal_ = _drawn("log_normal_", lambda t, mean=1.0, std=2.0: (Tensor.randn(*t.shape, device=t.device) * std + mean).exp(), ("exp of normal", ""))
exponential_ = _drawn("exponential_", lambda t, lambd=1.0: -_above(t).log() / lambd, ("exponential", "2.0"))
cauchy_ = _drawn("cauchy_", lambda t, median=0.0, sigma=1.0: ((_uniform(t) - 0.5) * math.pi).tan() * sigma + median, ("Cauchy", ""))
geometric_ = _drawn("geometric_", lambda t, p: (_above(t).log() / math.log1p(-p)).ceil().maximum(1), ("tries up to a success", "0.5"))
bernoulli_ = _drawn("bernoulli_", lambda t, p=0.5: _uniform(t) < p, ("1 with probability p", "0.5"))


def random_(self, low=None, high=None, *, generator=None):
    """Random integers from low (0) up to high, which is not among them.

    >>> Tensor.zeros(3).contiguous().random_(0, 5).max().item() < 5
    True
    """
    if high is None:
        low, high = 0, low
    if high is None:
        high = min(2**24 if self.is_floating_point() else self.dtype.max, 2**31 - 1)
    drawn = Tensor.randint(*self.shape, low=int(low), high=int(high), device=self.device)
    return self.assign(drawn.cast(self.dtype))


def apply_(self, callable):
    """Every element through a Python function, in place; slow, as in PyTorch.

    >>> Tensor([1.0, 2.0]).apply_(lambda x: x + 1).tolist()
    [2.0, 3.0]
    """
    flat = [callable(v) for v in self.reshape(-1).tolist()]
    return self.assign(Tensor(flat, dtype=self.dtype, device=self.device).reshape(*self.shape))


def map_(self, other, callable):
    """A Python function of each pair of elements, in place; slow, as in PyTorch.

    >>> Tensor([1.0, 2.0]).map_(Tensor([3.0, 4.0]), lambda a, b: a * b).tolist()
    [3.0, 8.0]
    """
    pairs = zip(self.reshape(-1).tolist(), other.expand(*self.shape).reshape(-1).tolist())
    return self.assign(Tensor([callable(a, b) for a, b in pairs], dtype=self.dtype, device=self.device).reshape(*self.shape))


ndimension = dim
is_cpu = property(lambda self: self.device.startswith("CPU"), doc="Whether it is on the CPU.\n\n    >>> Tensor([1.0]).is_cpu\n    True\n    ")


def _kind(kind):
    answer = (lambda self: self.device.startswith("CUDA")) if kind == "cuda" else (lambda self: False)
    return property(answer, doc=f"Whether it is {kind}.\n\n    >>> Tensor([1.0]).is_{kind}\n    False\n    ")


is_cuda, is_meta, is_sparse, is_quantized, is_mps, is_xpu, is_nested, is_mkldnn, is_vulkan, is_ipu, is_sparse_csr, is_ort = map(
    _kind, ("cuda", "meta", "sparse", "quantized", "mps", "xpu", "nested", "mkldnn", "vulkan", "ipu", "sparse_csr", "ort")
)


def is_neg(self):
    """False: numbers are stored as they are.

    >>> Tensor([1.0]).is_neg()
    False
    """
    return False


def is_conj(self):
    """False: the numbers are real.

    >>> Tensor([1.0]).is_conj()
    False
    """
    return False


def map2_(self, x, y, callable):
    """A Python function of three elements each, in place; slow, as in PyTorch.

    >>> Tensor([1.0]).map2_(Tensor([2.0]), Tensor([3.0]), lambda a, b, c: a + b * c).tolist()
    [7.0]
    """
    rows = zip(*(t.expand(*self.shape).reshape(-1).tolist() for t in (self, x, y)))
    return self.assign(Tensor([callable(*row) for row in rows], dtype=self.dtype, device=self.device).reshape(*self.shape))


def resize_(self, *sizes, memory_format=None):
    """Another shape for the same elements; a larger one is refused, since its new elements would have no values.

    >>> Tensor([1, 2, 3, 4]).resize_(2, 1).tolist()
    [[1], [2]]
    """
    shape = _shape(sizes)
    count = math.prod(shape)
    if count > self.numel():
        raise UserError(f"lathe: resize_: {self.numel()} elements cannot become {count}\n  help: pad, or Tensor.empty of that shape")
    return self.replace(self.reshape(-1)[:count].reshape(*shape), True)


def resize_as_(self, other):
    """The shape of another for the same elements.

    >>> Tensor([1, 2]).resize_as_(Tensor([[3], [4]])).tolist()
    [[1], [2]]
    """
    return resize_(self, *other.shape)


itemsize = property(lambda self: self.dtype.itemsize, doc="Bytes of an element.\n\n    >>> Tensor([1.0]).itemsize\n    4\n    ")
