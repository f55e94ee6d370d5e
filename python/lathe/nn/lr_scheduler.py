"""PyTorch's schedulers by its names: each gives the rate of a step from the step's number and the first rate. They take every
optimizer, and groups of them."""

import math
import warnings

from lathe._core import OptimizerGroup
from lathe.errors import UserError


def _members(optimizer):
    return [optimizer[i] for i in range(len(optimizer))] if isinstance(optimizer, OptimizerGroup) else [optimizer]


class LRScheduler:
    """The base: `rate(step, base)` says the rate."""

    def __init__(self, optimizer, last_epoch=-1):
        if not hasattr(optimizer, "lr"):
            raise UserError(f"lathe: {type(self).__name__}: needs an optimizer, not {type(optimizer).__name__}")
        self.optimizer = optimizer
        self.base_lrs = [member.lr.item() for member in _members(optimizer)]
        self.last_epoch = last_epoch
        self.step()

    def rate(self, step, base):
        """The rate of a step."""
        raise NotImplementedError

    def get_last_lr(self):
        """The rates now, one for each group."""
        return list(self._last)

    def get_lr(self):
        """The rates of this step."""
        return [self.rate(self.last_epoch, base) for base in self.base_lrs]

    def step(self, epoch=None):
        """On to the next step."""
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        self._apply(self.get_lr())

    def _apply(self, rates):
        self._last = rates
        for member, rate in zip(_members(self.optimizer), rates):
            member.lr = rate

    def state_dict(self):
        """The state as plain values."""
        return {name: value for name, value in vars(self).items() if isinstance(value, (int, float, list))}

    def load_state_dict(self, state_dict):
        """Goes on from a state."""
        vars(self).update(state_dict)
        self._apply(self._last)

    def __repr__(self):
        return f"{type(self).__name__}(lr={self._last[0]:.6g}, base={self.base_lrs[0]:.6g}, step={self.last_epoch})"


class LambdaLR(LRScheduler):
    """The first rate times a function of the step.

    >>> optimizer = nn.optim.SGD([Tensor([1.0])], lr=1.0)
    >>> nn.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5**step)
    LambdaLR(lr=1, base=1, step=0)
    """

    def __init__(self, optimizer, lr_lambda, last_epoch=-1):
        self._functions = list(lr_lambda) if isinstance(lr_lambda, (list, tuple)) else [lr_lambda] * len(_members(optimizer))
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        return [base * f(self.last_epoch) for base, f in zip(self.base_lrs, self._functions)]


class MultiplicativeLR(LRScheduler):
    """Each step the rate times a function of the step."""

    def __init__(self, optimizer, lr_lambda, last_epoch=-1):
        self._function = lr_lambda
        super().__init__(optimizer, last_epoch)

    def rate(self, step, base):
        for i in range(1, step + 1):
            base *= self._function(i)
        return base


class StepLR(LRScheduler):
    """The rate times gamma every step_size steps."""

    def __init__(self, optimizer, step_size, gamma=0.1, last_epoch=-1):
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def rate(self, step, base):
        return base * self.gamma ** (step // self.step_size)


class MultiStepLR(LRScheduler):
    """The rate times gamma at each milestone."""

    def __init__(self, optimizer, milestones, gamma=0.1, last_epoch=-1):
        self.milestones, self.gamma = sorted(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def rate(self, step, base):
        return base * self.gamma ** sum(step >= m for m in self.milestones)


class ConstantLR(LRScheduler):
    """A part of the rate for the first steps."""

    def __init__(self, optimizer, factor=1.0 / 3, total_iters=5, last_epoch=-1):
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def rate(self, step, base):
        return base * (self.factor if step < self.total_iters else 1.0)


class LinearLR(LRScheduler):
    """From a part of the rate to another in a straight line."""

    def __init__(self, optimizer, start_factor=1.0 / 3, end_factor=1.0, total_iters=5, last_epoch=-1):
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def rate(self, step, base):
        done = min(step, self.total_iters) / self.total_iters
        return base * (self.start_factor + (self.end_factor - self.start_factor) * done)


class ExponentialLR(LRScheduler):
    """The rate times gamma each step."""

    def __init__(self, optimizer, gamma, last_epoch=-1):
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def rate(self, step, base):
        return base * self.gamma**step


class PolynomialLR(LRScheduler):
    """Decays to 0 with a power of the remaining fraction."""

    def __init__(self, optimizer, total_iters=5, power=1.0, last_epoch=-1):
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def rate(self, step, base):
        return base * (1 - min(step, self.total_iters) / self.total_iters) ** self.power


class CosineAnnealingLR(LRScheduler):
    """Down to eta_min along a cosine, and up again."""

    def __init__(self, optimizer, T_max, eta_min=0.0, last_epoch=-1):
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def rate(self, step, base):
        return self.eta_min + (base - self.eta_min) * (1 + math.cos(math.pi * step / self.T_max)) / 2


class CosineAnnealingWarmRestarts(LRScheduler):
    """Down along a cosine, then at once up again, each time for longer."""

    def __init__(self, optimizer, T_0, T_mult=1, eta_min=0.0, last_epoch=-1):
        self.T_0, self.T_mult, self.eta_min = T_0, T_mult, eta_min
        super().__init__(optimizer, last_epoch)

    def rate(self, step, base):
        length = self.T_0
        while step >= length:
            step -= length
            length *= self.T_mult
        return self.eta_min + (base - self.eta_min) * (1 + math.cos(math.pi * step / length)) / 2


def _say_momentum_stays(name, cycle_momentum):
    """PyTorch changes the momentum with the rate unless it is told not to."""
    if cycle_momentum:
        raise UserError(f"lathe: {name}: cycle_momentum is not there\n  help: pass cycle_momentum=False")
    if cycle_momentum is None:
        warnings.warn(f"lathe: {name}: the momentum stays as it is, where PyTorch changes it too; cycle_momentum=False says so", stacklevel=3)



class CyclicLR(LRScheduler):
    """Up and down between two rates."""

    def __init__(self, optimizer, base_lr, max_lr, step_size_up=2000, step_size_down=None, mode="triangular", gamma=1.0, cycle_momentum=None, last_epoch=-1):
        if mode not in ("triangular", "triangular2", "exp_range"):
            raise UserError(f"lathe: CyclicLR: {mode!r} is not a mode\n  help: triangular, triangular2 or exp_range")
        _say_momentum_stays("CyclicLR", cycle_momentum)
        self.base_lr, self.max_lr, self.up, self.down = base_lr, max_lr, step_size_up, step_size_down or step_size_up
        self._mode, self.gamma = mode, gamma
        super().__init__(optimizer, last_epoch)

    def rate(self, step, base):
        cycle, at = divmod(step, self.up + self.down)
        height = at / self.up if at <= self.up else 1 - (at - self.up) / self.down
        scale = {"triangular": 1.0, "triangular2": 0.5**cycle, "exp_range": self.gamma**step}[self._mode]
        return self.base_lr + (self.max_lr - self.base_lr) * max(height, 0.0) * scale


class OneCycleLR(LRScheduler):
    """Up to the largest rate and far down again, once."""

    def __init__(self, optimizer, max_lr, total_steps=None, epochs=None, steps_per_epoch=None, pct_start=0.3, anneal_strategy="cos",
                 cycle_momentum=None, base_momentum=0.85, max_momentum=0.95, div_factor=25.0, final_div_factor=1e4, three_phase=False, last_epoch=-1):  # fmt: skip
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise UserError("lathe: OneCycleLR: needs total_steps, or epochs and steps_per_epoch")
            total_steps = epochs * steps_per_epoch
        if anneal_strategy not in ("cos", "linear"):
            raise UserError(f"lathe: OneCycleLR: anneal_strategy is {anneal_strategy!r}\n  help: cos or linear")
        _say_momentum_stays("OneCycleLR", cycle_momentum)
        self.max_lr, self.total_steps, self.pct_start, self._cosine = max_lr, total_steps, pct_start, anneal_strategy == "cos"
        self.div_factor, self.final_div_factor, self.three_phase = div_factor, final_div_factor, three_phase
        super().__init__(optimizer, last_epoch)

    def _phases(self):
        """The step at which each part ends, and the rates at its ends."""
        first = self.max_lr / self.div_factor
        last, peak = first / self.final_div_factor, self.pct_start * self.total_steps - 1
        if self.three_phase:
            return [(peak, first, self.max_lr), (2 * peak, self.max_lr, first), (self.total_steps - 1, first, last)]
        return [(peak, first, self.max_lr), (self.total_steps - 1, self.max_lr, last)]

    def rate(self, step, base):
        if step > self.total_steps:  # a call after the last step belongs to PyTorch's loop
            raise UserError(f"lathe: OneCycleLR: step {step + 1} of {self.total_steps}\n  help: total_steps is the number of all steps")
        before = 0
        for until, begin, end in self._phases():
            if step <= until:
                break
            before = until
        else:
            before = self._phases()[-2][0]
        done = (step - before) / (until - before)
        return end + (begin - end) * (1 + math.cos(math.pi * done)) / 2 if self._cosine else begin + (end - begin) * done


class SequentialLR(LRScheduler):
    """One scheduler after the other, from milestone to milestone."""

    def __init__(self, optimizer, schedulers, milestones, last_epoch=-1):
        self._schedulers, self.milestones = schedulers, milestones
        for scheduler in schedulers:  # each begins with the rates that stood before any of them changed them
            scheduler.base_lrs = schedulers[0].base_lrs
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        number = sum(self.last_epoch >= m for m in self.milestones)
        scheduler = self._schedulers[number]
        scheduler.last_epoch = self.last_epoch - (self.milestones[number - 1] if number else 0)
        return scheduler.get_lr()


class ChainedScheduler:
    """Several schedulers at once: each multiplies the rate."""

    def __init__(self, schedulers):
        self.schedulers = schedulers
        self.optimizer = schedulers[0].optimizer
        self._set()

    def _set(self):
        base = self.schedulers[0].base_lrs
        rates = list(base)
        for scheduler in self.schedulers:
            scheduler.base_lrs = base
            rates = [r * s / b for r, s, b in zip(rates, scheduler.get_lr(), base)]
        self.schedulers[0]._apply(rates)

    def step(self):
        """On to the next step."""
        for scheduler in self.schedulers:
            scheduler.last_epoch += 1
        self._set()

    def get_last_lr(self):
        """The rates now."""
        return self.schedulers[0].get_last_lr()


class ReduceLROnPlateau:
    """The rate times a factor when a measurement has not become better for a while."""

    def __init__(self, optimizer, mode="min", factor=0.1, patience=10, threshold=1e-4, threshold_mode="rel", cooldown=0, min_lr=0, eps=1e-8, verbose=False):
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs"):
            raise UserError("lathe: ReduceLROnPlateau: mode is min or max, threshold_mode rel or abs")
        if factor >= 1:
            raise UserError(f"lathe: ReduceLROnPlateau: the factor is {factor}, which is not below 1")
        self.optimizer, self.mode, self.factor, self.patience, self.threshold = optimizer, mode, factor, patience, threshold
        self.threshold_mode, self.cooldown, self.min_lr, self.eps = threshold_mode, cooldown, min_lr, eps
        self.best = math.inf if mode == "min" else -math.inf
        self.num_bad_epochs = self.cooldown_counter = self.last_epoch = 0
        self._last = [member.lr.item() for member in _members(optimizer)]

    def _better(self, value):
        sign = 1 if self.mode == "min" else -1
        if self.threshold_mode == "rel":
            return value * sign < self.best * (1 - sign * self.threshold) * sign
        return value * sign < self.best * sign - self.threshold

    def step(self, metrics, epoch=None):
        """Looks at a measurement: a number or a tensor of one."""
        value = float(metrics.item() if hasattr(metrics, "item") else metrics)
        self.last_epoch += 1
        if math.isinf(self.best) or self._better(value):
            self.best, self.num_bad_epochs = value, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            for i, member in enumerate(_members(self.optimizer)):
                new = max(self._last[i] * self.factor, self.min_lr)
                if self._last[i] - new > self.eps:
                    self._last[i] = new
                    member.lr = new
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0

    def get_last_lr(self):
        """The rates now."""
        return list(self._last)


_LRScheduler = LRScheduler
__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR", "ExponentialLR", "LRScheduler", "LambdaLR",
    "LinearLR", "MultiStepLR", "MultiplicativeLR", "OneCycleLR", "PolynomialLR", "ReduceLROnPlateau", "SequentialLR", "StepLR",
]  # fmt: skip
