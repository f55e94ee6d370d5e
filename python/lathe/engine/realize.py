"""As tinygrad programs import it."""

from lathe._core import Tensor


def run_schedule(schedule, var_vals=None, do_update_stats=True):
    """Computes the tensors whose schedule it is."""
    tensors = getattr(schedule, "tensors", ())
    if tensors:
        Tensor.realize(*tensors)


__all__ = ["run_schedule"]
