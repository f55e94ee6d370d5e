"""Mixed precision: products in a smaller dtype, and loss scaling for gradients in half precision."""

import functools

from lathe import _core
from lathe.dtype import dtypes
from lathe.errors import UserError


class autocast:
    """Inside, products (matmul, linear layers, convolutions, attention, einsum) of 32-bit floats are computed from operands
    rounded to `dtype` and have it; softmax, layer norms and losses are computed in 32 bits. Parameters stay what they are, and so
    do their gradients. The dtype is bfloat16, and float16 where the device is called "cuda". Also decorates functions.

    >>> with lathe.autocast("cpu", dtype=dtypes.bfloat16):
    ...     out = nn.Linear(2, 3)(Tensor.ones(1, 2))
    >>> out.dtype
    dtypes.bfloat16
    """

    def __init__(self, device_type="cpu", dtype=None, enabled=True, cache_enabled=None):
        if not isinstance(device_type, str):
            raise UserError(f'lathe: autocast: the first argument names a device, not {device_type!r}\n  help: lathe.autocast("cpu", dtype=...)')
        kind = device_type.partition(":")[0].lower()
        self.dtype = dtype or (dtypes.float16 if kind == "cuda" else dtypes.bfloat16)
        self.enabled, self._scopes = enabled, []

    def __enter__(self):
        scope = _core.AutocastScope(self.dtype if self.enabled else None)
        scope.enter()
        self._scopes.append(scope)
        return self

    def __exit__(self, *error):
        self._scopes.pop().leave()

    def __call__(self, function):
        @functools.wraps(function)
        def inside(*args, **kwargs):
            with self:
                return function(*args, **kwargs)

        return inside


class GradScaler(_core.GradScaler):
    """Multiplies losses so that small gradients survive in half precision, and skips steps whose gradients overflowed. With
    `enabled=False` it lets everything pass. PyTorch's first argument, the device, may be given and means nothing.

    >>> x = Tensor([2.0], requires_grad=True)
    >>> scaler, opt = lathe.amp.GradScaler("cpu", init_scale=8.0), nn.optim.SGD([x], lr=1.0)
    >>> loss = scaler.scale((x * x).sum()).backward()
    >>> x.grad.item()
    32.0
    """

    def __init__(self, device=None, init_scale=65536.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000, enabled=True):
        if isinstance(device, (int, float)) and not isinstance(device, bool):  # torch.cuda.amp's first is the scale
            init_scale = device
        super().__init__(init_scale=init_scale, growth_factor=growth_factor, backoff_factor=backoff_factor, growth_interval=growth_interval)
        self._enabled = enabled

    def scale(self, outputs):
        """The loss, multiplied; of a list each."""
        if isinstance(outputs, (tuple, list)):
            return type(outputs)(self.scale(t) for t in outputs)
        return super().scale(outputs) if self._enabled else outputs

    def unscale_(self, optimizer):
        """Divides the gradients by the scale: needed before clipping."""
        if self._enabled:
            super().unscale_(optimizer)

    def step(self, optimizer, *args, **kwargs):
        """Steps unless a gradient is not finite."""
        return super().step(optimizer) if self._enabled else optimizer.step(*args, **kwargs)

    def update(self, new_scale=None):
        """Adapts the scale to what was found since the last time."""
        if self._enabled:
            super().update()

    def get_scale(self):
        """The factor."""
        return super().get_scale() if self._enabled else 1.0

    def is_enabled(self):
        """Whether it does anything."""
        return self._enabled


__all__ = ["GradScaler", "autocast"]
