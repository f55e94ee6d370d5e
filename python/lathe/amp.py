"""Mixed precision: loss scaling for gradients in half precision."""

from lathe._core import Tensor  # noqa: F401

class GradScaler:
    """Multiplies the loss so that small gradients survive in half precision, and steps only where all are finite.

    >>> from lathe import nn
    >>> w = Tensor([1.0], requires_grad=True)
    >>> opt, scaler = nn.optim.SGD([w], lr=0.5), GradScaler(init_scale=1024.0)
    >>> scaled = scaler.scale((w * 2).sum()).backward()
    >>> stepped = scaler.step(opt)
    >>> scaler.update()
    >>> w.tolist()
    [0.0]
    """

    def __init__(self, init_scale=65536.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000):
        self._scale = float(init_scale)
        self.growth_factor, self.backoff_factor, self.growth_interval = growth_factor, backoff_factor, growth_interval
        self._good_steps = 0
        self._found_inf = False
        self._unscaled = set()

    def get_scale(self):
        """The factor the next loss is multiplied with."""
        return self._scale

    def scale(self, loss):
        """The loss times the factor."""
        return loss * self._scale

    def unscale_(self, optimizer):
        """Divides the gradients by the factor, so that they can be clipped before `step`."""
        finite = None
        for p in optimizer.params:
            if p.grad is None:
                continue
            p.grad = (p.grad * (1.0 / self._scale)).cast(p.grad.dtype)
            good = p.grad.isfinite().all()
            finite = good if finite is None else finite & good
        self._found_inf = finite is not None and not finite.item()
        self._unscaled.add(id(optimizer))

    def step(self, optimizer):
        """Steps unless a gradient is not finite; gives whether it did."""
        if id(optimizer) not in self._unscaled:
            self.unscale_(optimizer)
        if not self._found_inf:
            optimizer.step()
        return not self._found_inf

    def update(self):
        """Adapts the factor: down after a skipped step, up after many good ones."""
        self._unscaled.clear()
        if self._found_inf:
            self._scale *= self.backoff_factor
            self._good_steps = 0
        else:
            self._good_steps += 1
            if self._good_steps == self.growth_interval:
                self._scale *= self.growth_factor
                self._good_steps = 0
        self._found_inf = False

    def state_dict(self):
        """What `load_state_dict` needs to go on."""
        return {"scale": self._scale, "good_steps": self._good_steps}

    def load_state_dict(self, state):
        """Goes on where another scaler was."""
        self._scale, self._good_steps = state["scale"], state["good_steps"]

__all__ = ["GradScaler", "Tensor"]
__all__ = ["GradScaler"]
