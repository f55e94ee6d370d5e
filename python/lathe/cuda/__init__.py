"""What programs ask of `torch.cuda`: whether there is a GPU, and how much of its memory is used."""

from lathe import _core
from lathe.cuda import amp
from lathe.helpers import GlobalCounters


def device_count():
    """How many CUDA devices there are.

    >>> lathe.cuda.device_count() >= 0
    True
    """
    return sum(name.partition(":")[0] == "CUDA" for name in _core.available_devices())


def is_available():
    """Whether there is a CUDA device.

    >>> lathe.cuda.is_available() == (lathe.cuda.device_count() > 0)
    True
    """
    return device_count() > 0


def synchronize(device=None):
    """Waits until all devices have done everything they were given."""
    _core.synchronize()


def manual_seed(seed):
    """As lathe.manual_seed: one stream serves all devices."""
    from lathe import Tensor

    Tensor.manual_seed(int(seed))


manual_seed_all = manual_seed


def empty_cache():
    """Does nothing: memory that is free goes back when it is needed."""


def memory_allocated(device=None):
    """Bytes of memory in use.

    >>> lathe.cuda.memory_allocated() >= 0
    True
    """
    return GlobalCounters.mem_used


def max_memory_allocated(device=None):
    """Most bytes of memory in use since the counters were reset."""
    return _core.counters()["memory_peak"]


def is_bf16_supported():
    """True: every device computes with bfloat16."""
    return True


__all__ = ["amp", "device_count", "empty_cache", "is_available", "is_bf16_supported", "manual_seed", "manual_seed_all",
           "max_memory_allocated", "memory_allocated", "synchronize"]  # fmt: skip
