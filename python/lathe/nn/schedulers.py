"""Learning rates that change during training: `step()` after each step of the optimizer."""

from lathe._core import (
    CosineAnnealing,
    Lambda,
    MultiStep,
    OneCycle,
    Polynomial,
    ReduceOnPlateau,
    Scheduler,
)
from lathe.printing import scheduler_text

Scheduler.__repr__ = scheduler_text

__all__ = ["CosineAnnealing", "Lambda", "MultiStep", "OneCycle", "Polynomial", "ReduceOnPlateau", "Scheduler"]
