"""As tinygrad programs import it."""

from lathe.absent import absent
from lathe._core import Tensor


def run_schedule(schedule, var_vals=None, do_update_stats=True):
    """Computes the tensors whose schedule it is."""
    tensors = getattr(schedule, "tensors", ())
    if tensors:
        Tensor.realize(*tensors)


run_linear = run_schedule

__all__ = ["run_linear", "run_schedule"]


__getattr__ = absent(__name__)
