"""Optimizers under both peers' names, gradient clipping, and (in `lr_scheduler`) PyTorch's schedulers.

An optimizer takes parameters, or PyTorch's parameter groups: a list of dicts with "params" and the arguments that differ.
Groups are optimizers of their own, stepped together."""


import math

from lathe import _core
from lathe._core import Optimizer, OptimizerGroup, Tensor, clip_grad_norm_, clip_grad_value_
from lathe.dtype import dtypes
from lathe.errors import TypeError as WrongCall
from lathe.errors import UserError, nearest
from lathe.nn import state
from lathe.printing import _shortest, group_text, optimizer_text


def _new_optim_param(self):
    """Zeros shaped like each parameter, for the state of an optimizer of one's own."""
    return [Tensor.zeros(*p.shape, dtype=_wide(p.dtype), device=p.device).contiguous().realize() for p in self.params]


def _step(native):
    def step(self, closure=None):
        loss = closure() if closure is not None else None
        native(self)
        return loss

    step.__doc__ = native.__doc__
    return step


def _zero_grad(native):
    def zero_grad(self, set_to_none=True):
        if set_to_none:
            return native(self)
        for p in self.params:
            if p.grad is not None:
                p.grad = p.grad.zeros_like()

    zero_grad.__doc__ = "Forgets the gradients; with set_to_none=False they become 0.\n\n    >>> nn.optim.SGD([Tensor([1.0])]).zero_grad()"
    return zero_grad


class _Group(dict):
    """PyTorch's view of an optimizer's settings: param_groups[0]["lr"] = 0.1 sets the rate. The others are what the optimizer
    was made with, and stay so; what a program adds under names of its own is kept."""

    def __init__(self, optimizer):
        own = vars(optimizer)
        super().__init__({**own.get("_settings", {}), **own.get("_added", {})}, params=optimizer.params)
        self.optimizer = optimizer

    def __getitem__(self, name):
        return float(_shortest(self.optimizer.lr.item(), True)) if name == "lr" else super().__getitem__(name)

    def __setitem__(self, name, value):
        settings = vars(self.optimizer).get("_settings", {})
        if name == "lr":
            self.optimizer.lr = value
            return
        if name == "params" or name in settings and settings[name] != value:
            raise UserError(
                f"lathe: {type(self.optimizer).__name__}: {name} stays what it was when the optimizer was made; only lr can be set\n"
                "  help: make another optimizer, and give it this one's state_dict()"
            )
        if name not in settings:
            vars(self.optimizer).setdefault("_added", {})[name] = value
        super().__setitem__(name, value)

    def setdefault(self, name, default=None):
        if name not in self:
            self[name] = default
        return self[name]

    def update(self, *others, **more):
        for name, value in dict(*others, **more).items():
            self[name] = value

    def __contains__(self, name):
        return name == "lr" or super().__contains__(name)

    def get(self, name, default=None):
        return self[name] if name in self else default


def _members(optimizer):
    return [optimizer[i] for i in range(len(optimizer))] if isinstance(optimizer, OptimizerGroup) else [optimizer]


def _state_dict(self):
    """The state by name, tensors in memory: what load_state_dict of an optimizer of the same kind takes.

    >>> list(nn.optim.SGD([Tensor([1.0])], momentum=0.9).state_dict())
    ['lr', 'momentum.0']
    """
    return state.get_state_dict(self)


def _load_state_dict(self, state_dict):
    """Copies a state that state_dict gave.

    >>> optimizer = nn.optim.SGD([Tensor([1.0])], momentum=0.9)
    >>> optimizer.load_state_dict(optimizer.state_dict())
    """
    state.load_state_dict(self, state_dict)


def _set_rate(self, value):
    for member in _members(self):
        member.lr = value


for _kind in (Optimizer, OptimizerGroup):
    _kind.zero_grad = _zero_grad(_kind.zero_grad)
    _kind.step = _step(_kind.step)
    _kind.state_dict, _kind.load_state_dict = _state_dict, _load_state_dict
    _kind.param_groups = property(lambda self: [_Group(member) for member in _members(self)], doc="Settings of each group: 'params' and 'lr'.")
Optimizer._new_optim_param = _new_optim_param
Optimizer.__repr__, OptimizerGroup.__repr__ = optimizer_text, group_text
OptimizerGroup.lr = property(lambda self: self[0].lr, _set_rate, doc="The rate of the first group; setting it sets all.")

# Arguments of PyTorch's that have no effect here: they choose among ways to compute the same.
_HINTS = ("foreach", "capturable", "fused", "device", "differentiable")


def _arguments(kind, options):
    """PyTorch's arguments as the native ones."""
    options = dict(options)
    if "betas" in options:
        options["b1"], options["b2"] = options.pop("betas")
    for name in _HINTS:
        options.pop(name, None)
    options.pop("amsgrad", None)
    if kind == "Adam":
        options.pop("decoupled_weight_decay", None)
    options.pop("maximize", None)
    return options


def _is_groups(params):
    return isinstance(params, (list, tuple)) and len(params) > 0 and all(isinstance(p, dict) for p in params)


def _named(params):
    """named_parameters() are taken too."""
    params = list(params) if not isinstance(params, Tensor) else [params]
    return [p[1] if isinstance(p, tuple) and len(p) == 2 and isinstance(p[0], str) else p for p in params]


def _kinds(native):
    """A native optimizer with PyTorch's arguments and groups."""
    name = native.__name__

    def __new__(cls, params=None, *args, **options):
        if name == "Adam" and options.pop("decoupled_weight_decay", False):
            return AdamW(params, *args, **{"weight_decay": 0.0, **options})
        if not _is_groups(params):
            return AMSGrad(params, *args, decoupled=name == "AdamW", **options) if options.get("amsgrad") else native.__new__(cls)
        made = []
        for group in params:
            own = {**options, **group}
            made.append(cls(own.pop("params"), *args, **own))
        return OptimizerGroup(*made)

    def __init__(self, params, *args, **options):
        if _is_groups(params):
            return
        try:
            native.__init__(self, _named(params), *args, **_arguments(name, options))
            self.maximize = bool(options.get("maximize", False))
            self._settings = _settings_of(native, args, options)
        except TypeError as error:
            if isinstance(error, UserError) or "lathe:" in str(error):
                raise
            text = str(error)
        else:
            return
        raise WrongCall(f"lathe: {name}: {_complaint(native, text, options)}")

    body = {"__new__": __new__, "__init__": __init__, "__doc__": native.__doc__, "__module__": "lathe.nn.optim"}
    return type(native)(name, (native,), body)


def _own_arguments(native):
    """The names of a native optimizer's arguments."""
    import re

    return [n for n in re.findall(r"(\w+):", native.__init__.__nb_signature__[0][0]) if n not in ("self", "hints")]


def _settings_of(native, args, options):
    """The options of an optimizer besides its parameters and learning rate, under PyTorch's names."""
    names = _own_arguments(native)
    defaults = native.__init__.__nb_signature__[0][2]
    settings = dict(zip(names[len(names) - len(defaults) :], defaults))
    settings.update(zip(names[1:], args))
    settings.update(options)
    if "b1" in settings:
        betas = settings.pop("b1"), settings.pop("b2")
        settings.setdefault("betas", betas)
    for name in ("lr", "params", "hints", *_HINTS):
        settings.pop(name, None)
    return {"maximize": False, **settings}


def _complaint(native, text, options):
    own = _own_arguments(native)
    strange = [n for n in options if n not in own]
    if strange:
        import difflib

        near = difflib.get_close_matches(strange[0], own, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        return f"there is no argument {strange[0]}\n  help: the arguments are {', '.join(own)}{hint}"
    return f"cannot be made from these arguments\n  help: it takes tensors, or a list of dicts with 'params', and {', '.join(own[1:])}"


SGD, LARS, AdamW, Adam, LAMB, Muon = map(_kinds, (_core.SGD, _core.LARS, _core.AdamW, _core.Adam, _core.LAMB, _core.Muon))


# ---- written with tensors


def _without_power(beta, t):
    """1 - beta**t, in which a beta near 1 leaves few digits of the power."""
    return -(t * math.log(beta)).expm1() if beta > 0 else 1.0


def _check_hints(optimizer, hints, *taken):
    """Refuses arguments that an optimizer written in Python does not know."""
    strange = [name for name in hints if name not in (*_HINTS, *taken)]
    if strange:
        import inspect

        kind = type(optimizer)
        own = [n for n in inspect.signature(kind.__init__).parameters if n not in ("self", "hints")]
        raise WrongCall(f"lathe: {kind.__name__}: there is no argument {strange[0]}{nearest(strange[0], own)}\n  help: the arguments are {', '.join(own)}")


def _wide(dtype):
    """Of state and arithmetic: float32 at least."""
    return dtype if dtype == dtypes.float64 else dtypes.float32


class _Own(Optimizer):
    """An optimizer written in Python: `_change(i, p, g)` returns what to subtract from a parameter."""

    _lists = ()  # names of its state, one tensor per parameter each
    _options = {}

    def __new__(cls, params=None, *args, **options):
        if not _is_groups(params):
            return Optimizer.__new__(cls)
        made = []
        for group in params:
            own = {**options, **group}
            made.append(cls(own.pop("params"), *args, **own))
        return OptimizerGroup(*made)

    def __init__(self, params, lr, weight_decay=0.0, hints=(), **options):
        _check_hints(self, hints, "maximize")
        super().__init__(_named(params), lr)
        self.maximize = bool(dict(hints).get("maximize", False))
        self.weight_decay = weight_decay
        for name, value in options.items():
            setattr(self, name, value)
        self._settings = {"weight_decay": weight_decay, "maximize": self.maximize, **options}
        if "b1" in options:
            self._settings["betas"] = self._settings.pop("b1"), self._settings.pop("b2")
        for name in self._lists:
            setattr(self, name, self._new_optim_param())
        self.steps = self._number(0.0)

    def _number(self, value):
        """A number of the state, as exact as the parameters are."""
        dtype = dtypes.float64 if all(p.dtype == dtypes.float64 for p in self.params) else dtypes.float32
        made = Tensor([value], dtype=dtype, device=self.device).contiguous().realize()
        made.requires_grad_(False)
        return made

    def _step(self, params, grads):
        t = self.steps.assign(self.steps + 1)
        changes = []
        for i, (p, g) in enumerate(zip(params, grads)):
            if g is None:
                changes.append(None)
                continue
            value, g = p.detach().cast(_wide(p.dtype)), g.cast(_wide(p.dtype))
            if self.weight_decay:
                g = g + value * self.weight_decay
            changes.append(self._change(i, value, g, t).cast(p.dtype))
        state = [tensor for name in self._lists for tensor in getattr(self, name)]
        return changes, [*state, self.steps]


class RMSprop(_Own):
    """Divides by a running root mean square of the gradient.

    >>> nn.optim.RMSprop([Tensor([1.0])], lr=0.1)
    RMSprop(lr=0.1, 1 tensor with 1 parameters)
    """

    _lists = ("square", "mean", "buffer")

    def __init__(self, params, lr=0.01, alpha=0.99, eps=1e-8, weight_decay=0.0, momentum=0.0, centered=False, **hints):
        super().__init__(params, lr, weight_decay, hints, alpha=alpha, eps=eps, momentum=momentum, centered=centered)

    def _change(self, i, p, g, t):
        square = self.square[i].assign(self.square[i] * self.alpha + g.square() * (1 - self.alpha))
        spread = square
        if self.centered:
            mean = self.mean[i].assign(self.mean[i] * self.alpha + g * (1 - self.alpha))
            spread = square - mean.square()
        step = g / (spread.sqrt() + self.eps)
        if self.momentum:
            step = self.buffer[i].assign(self.buffer[i] * self.momentum + step)
        return step * self.lr


class Adagrad(_Own):
    """Divides by the root of the sum of all squares of the gradient.

    >>> nn.optim.Adagrad([Tensor([1.0])], lr=0.1)
    Adagrad(lr=0.1, 1 tensor with 1 parameters)
    """

    _lists = ("total",)

    def __init__(self, params, lr=0.01, lr_decay=0.0, weight_decay=0.0, initial_accumulator_value=0.0, eps=1e-10, **hints):
        super().__init__(params, lr, weight_decay, hints, lr_decay=lr_decay, eps=eps)
        for total in self.total if initial_accumulator_value else ():
            total.assign(total + initial_accumulator_value).realize()

    def _change(self, i, p, g, t):
        total = self.total[i].assign(self.total[i] + g.square())
        return g / (total.sqrt() + self.eps) * (self.lr / (1 + (t - 1) * self.lr_decay))


class Adadelta(_Own):
    """Steps as large as the running mean of earlier ones.

    >>> nn.optim.Adadelta([Tensor([1.0])])
    Adadelta(lr=1, 1 tensor with 1 parameters)
    """

    _lists = ("square", "moved")

    def __init__(self, params, lr=1.0, rho=0.9, eps=1e-6, weight_decay=0.0, **hints):
        super().__init__(params, lr, weight_decay, hints, rho=rho, eps=eps)

    def _change(self, i, p, g, t):
        square = self.square[i].assign(self.square[i] * self.rho + g.square() * (1 - self.rho))
        step = g * (self.moved[i] + self.eps).sqrt() / (square + self.eps).sqrt()
        self.moved[i].assign(self.moved[i] * self.rho + step.square() * (1 - self.rho))
        return step * self.lr


class _Moments(_Own):
    _lists = ("m", "v")

    def __init__(self, params, lr, betas, eps, weight_decay, hints=(), decoupled=False, **options):
        self.apart = weight_decay if decoupled else 0.0  # decay that passes the moments by
        super().__init__(params, lr, 0.0 if decoupled else weight_decay, hints, b1=betas[0], b2=betas[1], eps=eps, **options)

    def _change(self, i, p, g, t):
        change = self._moved(i, g, t)
        return change + p * (self.lr * self.apart) if self.apart else change

    def _mean(self, i, g):
        return self.m[i].assign(self.m[i] * self.b1 + g * (1 - self.b1))

    def _square(self, i, g):
        return self.v[i].assign(self.v[i] * self.b2 + g.square() * (1 - self.b2))


class AMSGrad(_Moments):
    """Adam that divides by the largest mean square so far: Adam(amsgrad=True), with `decoupled` AdamW(amsgrad=True).

    >>> nn.optim.Adam([Tensor([1.0])], amsgrad=True)
    AMSGrad(lr=0.001, 1 tensor with 1 parameters)
    """

    _lists = ("m", "v", "most")

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=None, amsgrad=True, decoupled=False, **hints):
        decay = (0.01 if decoupled else 0.0) if weight_decay is None else weight_decay
        super().__init__(params, lr, betas, eps, decay, hints, decoupled)

    def _moved(self, i, g, t):
        mean = self._mean(i, g) / _without_power(self.b1, t)
        most = self.most[i].assign(self.most[i].maximum(self._square(i, g)))
        return mean / ((most / _without_power(self.b2, t)).sqrt() + self.eps) * self.lr


class Adamax(_Moments):
    """Adam with the largest gradient seen instead of the mean square.

    >>> nn.optim.Adamax([Tensor([1.0])])
    Adamax(lr=0.002, 1 tensor with 1 parameters)
    """

    def __init__(self, params, lr=0.002, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, **hints):
        super().__init__(params, lr, betas, eps, weight_decay, hints)

    def _moved(self, i, g, t):
        most = self.v[i].assign((self.v[i] * self.b2).maximum(g.abs() + self.eps))
        return self._mean(i, g) / most * (self.lr / _without_power(self.b1, t))


class NAdam(_Moments):
    """Adam with Nesterov's momentum.

    >>> nn.optim.NAdam([Tensor([1.0])])
    NAdam(lr=0.002, 1 tensor with 1 parameters)
    """

    def __init__(
        self, params, lr=0.002, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, momentum_decay=4e-3, decoupled_weight_decay=False, **hints
    ):
        super().__init__(params, lr, betas, eps, weight_decay, hints, decoupled_weight_decay, momentum_decay=momentum_decay)
        self.product = self._number(1.0)

    def _step(self, params, grads):
        t = self.steps + 1
        self._mu = self.b1 * (1 - 0.5 * 0.96 ** (t * self.momentum_decay))
        self._next = self.b1 * (1 - 0.5 * 0.96 ** ((t + 1) * self.momentum_decay))
        self.product.assign(self.product * self._mu)
        changes, changed = super()._step(params, grads)
        return changes, [*changed, self.product]

    def _moved(self, i, g, t):
        mean, square = self._mean(i, g), self._square(i, g)
        size = (square / _without_power(self.b2, t)).sqrt() + self.eps
        own = g / size * (self.lr * (1 - self._mu) / (1 - self.product))
        return own + mean / size * (self.lr * self._next / (1 - self.product * self._next))


class RAdam(_Moments):
    """Adam whose first steps do not trust the mean square.

    >>> nn.optim.RAdam([Tensor([1.0])])
    RAdam(lr=0.001, 1 tensor with 1 parameters)
    """

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, decoupled_weight_decay=False, **hints):
        super().__init__(params, lr, betas, eps, weight_decay, hints, decoupled_weight_decay)

    def _moved(self, i, g, t):
        mean, rest = self._mean(i, g) / _without_power(self.b1, t), _without_power(self.b2, t)
        most = 2 / (1 - self.b2) - 1
        length = most - 2 * t * (1 - rest) / rest
        safe = length.maximum(4.5)
        factor = ((safe - 4) * (safe - 2) * most / ((most - 4) * (most - 2) * safe)).sqrt()
        size = rest**0.5 / (self._square(i, g).sqrt() + self.eps)
        return (length > 5).where(mean * factor * size, mean) * self.lr


class ASGD(_Own):
    """SGD with a running average of the parameters in `averaged`.

    >>> nn.optim.ASGD([Tensor([1.0])])
    ASGD(lr=0.01, 1 tensor with 1 parameters)
    """

    _lists = ("averaged",)

    def __init__(self, params, lr=0.01, lambd=1e-4, alpha=0.75, t0=1e6, weight_decay=0.0, **hints):
        super().__init__(params, lr, weight_decay, hints, lambd=lambd, alpha=alpha, t0=t0)
        self.rate = self._number(0.0)

    def _step(self, params, grads):
        t = self.steps + 1
        self._now = (t == 1).where(self.lr, self.rate)  # a step's rate follows from the lr of the step before, as PyTorch's
        changes, changed = super()._step(params, grads)
        self.rate.assign(self.lr / (1 + self.lambd * self.lr * t) ** self.alpha)
        return changes, [*changed, self.rate]

    def _change(self, i, p, g, t):
        change = g * self._now + p * (self.lambd * self._now)
        share = 1 / (t - 1 - self.t0).maximum(1)
        self.averaged[i].assign(self.averaged[i] + (p - change - self.averaged[i]) * share)
        return change


class Rprop(_Own):
    """Steps that grow while the sign of the gradient stays.

    >>> nn.optim.Rprop([Tensor([1.0])])
    Rprop(lr=0.01, 1 tensor with 1 parameters)
    """

    _lists = ("before", "size")

    def __init__(self, params, lr=0.01, etas=(0.5, 1.2), step_sizes=(1e-6, 50), **hints):
        super().__init__(params, lr, 0.0, hints, etas=etas, step_sizes=step_sizes)

    def _change(self, i, p, g, t):
        agreement = (g * self.before[i]).sign()
        factor = (agreement > 0).where(self.etas[1], (agreement < 0).where(self.etas[0], g.const_like(1.0)))
        before = (t == 1).where(self.lr, self.size[i])  # the rate counts at the first step alone
        size = self.size[i].assign((before * factor).clamp(*self.step_sizes))
        kept = (agreement < 0).where(0, g)
        self.before[i].assign(kept)
        return kept.sign() * size


class EMA:
    """A running average of a net's parameters: `update()` after each step, `copy_to(net)` or the `average` block to use it.

    >>> layer = nn.Linear(1, 1)
    >>> ema = nn.optim.EMA(layer, decay=0.9)
    >>> ema.update()
    >>> with ema.average(): out = layer(Tensor([[1.0]]))
    """

    def __init__(self, net, decay=0.999):
        self.tensors, self.decay = list(state.get_parameters(net)), decay
        self.shadows = [t.detach().clone().realize() for t in self.tensors]
        for shadow in self.shadows:
            shadow.requires_grad_(False)

    def update(self):
        """Moves the average towards the parameters."""
        for shadow, tensor in zip(self.shadows, self.tensors):
            value = tensor.detach()
            shadow.assign(shadow * self.decay + value * (1 - self.decay) if tensor.is_floating_point() else value)
        Tensor.realize(*self.shadows)

    def copy_to(self, net):
        """Writes the average into the parameters of a net."""
        for tensor, shadow in zip(state.get_parameters(net), self.shadows):
            tensor.assign(shadow.detach()).realize()

    def average(self):
        """Inside the block the net has the average."""
        import contextlib

        @contextlib.contextmanager
        def block():
            kept = [t.detach().clone().realize() for t in self.tensors]
            for tensor, shadow in zip(self.tensors, self.shadows):
                tensor.assign(shadow.detach()).realize()
            try:
                yield
            finally:
                for tensor, before in zip(self.tensors, kept):
                    tensor.assign(before).realize()

        return block()


from lathe.nn import lr_scheduler  # noqa: E402
from lathe.nn.lbfgs import LBFGS  # noqa: E402

__all__ = [
    "AMSGrad", "ASGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "EMA", "LAMB", "LARS", "LBFGS", "Muon", "NAdam", "Optimizer", "OptimizerGroup", "RAdam",
    "RMSprop", "Rprop", "SGD", "clip_grad_norm_", "clip_grad_value_",
]  # fmt: skip
