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

__all__ = ["CosineAnnealing", "Lambda", "MultiStep", "OneCycle", "Polynomial", "ReduceOnPlateau", "Scheduler"]
