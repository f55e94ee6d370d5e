"""LBFGS: a step evaluates the loss several times, so it takes a closure."""

import collections
import math

from lathe._core import Tensor
from lathe.dtype import dtypes
from lathe.errors import TypeError as WrongCall
from lathe.errors import UserError
from lathe.functions.settings import enable_grad
from lathe.helpers import no_grad
from lathe.nn.optim import Optimizer, _check_hints, _is_groups, _named

# A place along the line of search: how far, the loss there, its gradient, and the slope along the line.
_Place = collections.namedtuple("_Place", "at loss grad slope")

_ENOUGH, _FLAT = 1e-4, 0.9  # Wolfe's conditions: the share of the promised descent, and of the slope that may be left
_MOST_PLACES = 25


def _between(a, b, low=None, high=None):
    """The minimum of the cubic through two places with their slopes, kept within bounds (by default theirs)."""
    low = min(a.at, b.at) if low is None else low
    high = max(a.at, b.at) if high is None else high
    mean = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.at - b.at)
    square = mean * mean - a.slope * b.slope
    if not square >= 0:
        return (low + high) / 2
    left, right = (a, b) if a.at <= b.at else (b, a)
    root = math.sqrt(square)
    bottom = right.slope - left.slope + 2 * root
    place = right.at - (right.at - left.at) * ((right.slope + root - mean) / bottom) if bottom else math.nan
    return min(max(place, low), high)


def _strong_wolfe(evaluate, start, first, size, least):
    """A place that descends enough and is flat enough, and how many were evaluated: at first further and further out until a
    minimum is bracketed, then within the bracket."""

    def climbs(place):
        return place.loss > start.loss + _ENOUGH * place.at * start.slope

    def is_flat(place):
        return abs(place.slope) <= -_FLAT * start.slope

    before, now, count = start, evaluate(first), 1
    bracket = None
    while bracket is None:
        if climbs(now) or (count > 2 and now.loss >= before.loss):
            bracket = [before, now]
        elif is_flat(now):
            return now, count
        elif now.slope >= 0:
            bracket = [before, now]
        elif count > _MOST_PLACES:
            bracket = [start, now]
        else:
            further = _between(before, now, now.at + 0.01 * (now.at - before.at), now.at * 10)
            before, now, count = now, evaluate(further), count + 1
    best, worst = sorted(bracket, key=lambda place: place.loss)
    stalled = False
    while count <= _MOST_PLACES and abs(worst.at - best.at) * size >= least:
        low, high = min(best.at, worst.at), max(best.at, worst.at)
        at, margin = _between(best, worst), 0.1 * (high - low)
        near = min(high - at, at - low) < margin
        if near and (stalled or at >= high or at <= low):
            at, near = high - margin if abs(at - high) < abs(at - low) else low + margin, False
        stalled = near
        now, count = evaluate(at), count + 1
        if climbs(now) or now.loss >= best.loss:
            best, worst = sorted((best, now), key=lambda place: place.loss)
        elif is_flat(now):
            return now, count
        else:
            best, worst = now, best if now.slope * (worst.at - best.at) >= 0 else worst
    return best, count


class LBFGS(Optimizer):
    """Newton's method with a Hessian guessed from the last `history_size` steps. `step(closure)` calls a function that forgets the
    gradients, computes the loss, calls backward() and gives the loss. line_search_fn is None or "strong_wolfe".

    >>> x = Tensor([3.0], requires_grad=True)
    >>> optimizer = nn.optim.LBFGS([x], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = ((x - 1) ** 2).sum()
    ...     loss.backward()
    ...     return loss
    >>> first = optimizer.step(closure).item()
    >>> first, round(x.item(), 4)
    (4.0, 1.0)
    """

    def __init__(self, params, lr=1, max_iter=20, max_eval=None, tolerance_grad=1e-7, tolerance_change=1e-9, history_size=100,
                 line_search_fn=None, **hints):  # fmt: skip
        if _is_groups(params):
            raise UserError("lathe: LBFGS: it has no groups of parameters\n  help: pass the parameters as one list")
        _check_hints(self, hints)
        if line_search_fn not in (None, "strong_wolfe"):
            raise UserError(f"lathe: LBFGS: there is no line search {line_search_fn!r}\n  help: None or 'strong_wolfe'")
        super().__init__(_named(params), lr)
        self._most, self._most_evaluations = max_iter, max_iter * 5 // 4 if max_eval is None else max_eval
        self._least_grad, self._least_change = tolerance_grad, tolerance_change
        self._history, self._search = history_size, line_search_fn == "strong_wolfe"
        self._settings = {"max_iter": max_iter, "max_eval": self._most_evaluations, "tolerance_grad": tolerance_grad,
                          "tolerance_change": tolerance_change, "history_size": history_size, "line_search_fn": line_search_fn}  # fmt: skip
        self._dtype = dtypes.float64 if all(p.dtype == dtypes.float64 for p in self.params) else dtypes.float32
        self._forget()

    def _forget(self):
        self._iterations, self._scale, self._length = 0, 1.0, 0.0
        self._direction = self._before = None
        self._moves, self._bends = [], []  # the last steps, and how the gradient changed over them

    # ---- parameters and gradients as one vector

    def _flat(self, tensors):
        return tensors[0].cat(*tensors[1:]).contiguous().realize()

    def _gradient(self):
        zeros = (lambda p: Tensor.zeros(p.numel(), dtype=self._dtype, device=p.device))
        return self._flat([zeros(p) if p.grad is None else p.grad.detach().cast(self._dtype).reshape(-1) for p in self.params])

    def _values(self):
        return self._flat([p.detach().cast(self._dtype).reshape(-1) for p in self.params])

    def _set(self, values):
        at = 0
        for p in self.params:
            p.assign(values[at : at + p.numel()].reshape(*p.shape).cast(p.dtype))
            at += p.numel()
        Tensor.realize(*self.params)

    def _newton(self, grad):
        """The way to go: the gradient times the guessed inverse Hessian."""
        way, shares = -grad, []
        for move, bend in zip(reversed(self._moves), reversed(self._bends)):
            shares.append(_dot(move, way) / _dot(bend, move))
            way = (way - bend * shares[-1]).realize()
        way = (way * self._scale).realize()
        for move, bend in zip(self._moves, self._bends):
            way = (way + move * (shares.pop() - _dot(bend, way) / _dot(bend, move))).realize()
        return way

    def _learn(self, grad):
        bend, move = (grad - self._before).realize(), (self._direction * self._length).realize()
        curvature = _dot(bend, move)
        if curvature <= 1e-10:
            return
        self._moves.append(move), self._bends.append(bend)
        if len(self._moves) > self._history:
            self._moves.pop(0), self._bends.pop(0)
        self._scale = curvature / _dot(bend, bend)

    def step(self, closure=None):
        """One step: up to max_iter iterations, which call the closure. Gives the loss before it."""
        if closure is None:
            raise WrongCall(
                "lathe: LBFGS: step needs a function that computes the loss again\n"
                "  help: def closure(): optimizer.zero_grad(); loss = ...; loss.backward(); return loss"
            )

        def evaluate():
            loss = closure()
            return loss, float(loss), self._gradient()

        closure_with_gradients = enable_grad()(evaluate)
        first, loss, grad = closure_with_gradients()
        with no_grad():
            self._iterate(lambda: closure_with_gradients()[1:], loss, grad)
        return first.detach() if isinstance(first, Tensor) else first

    def _iterate(self, evaluate, loss, grad):
        count = 1
        if _most(grad) <= self._least_grad:
            return
        for iteration in range(1, self._most + 1):
            self._iterations += 1
            if self._direction is not None:
                self._learn(grad)
            self._direction = self._newton(grad)
            rate = float(self.lr.item())
            self._before, before = grad, loss
            self._length = min(1.0, 1.0 / float(grad.abs().sum().item())) * rate if self._iterations == 1 else rate
            slope = _dot(grad, self._direction)
            if slope > -self._least_change:
                return
            values = self._values()
            if self._search:

                def place(at):
                    self._set(values + self._direction * at)
                    loss, grad = evaluate()
                    return _Place(at, loss, grad, _dot(grad, self._direction))

                start, size = _Place(0.0, loss, grad, slope), _most(self._direction)
                found, evaluations = _strong_wolfe(place, start, self._length, size, self._least_change)
                self._length, loss, grad = found.at, found.loss, found.grad
                self._set(values + self._direction * self._length)
            else:
                self._set(values + self._direction * self._length)
                evaluations = 0
                if iteration != self._most:
                    loss, grad = evaluate()
                    evaluations = 1
            count += evaluations
            if count >= self._most_evaluations or _most(grad) <= self._least_grad:
                return
            if _most(self._direction) * self._length <= self._least_change or abs(loss - before) < self._least_change:
                return

    # ---- saving

    def state_dict(self):
        """The state by name, as tensors: the history and where it stands."""
        numbers = Tensor([float(self._iterations), self._scale, self._length], dtype=dtypes.float64)
        out = {"lr": self.lr, "numbers": numbers}
        if self._direction is not None:
            out.update(direction=self._direction, before=self._before)
        for i, (move, bend) in enumerate(zip(self._moves, self._bends)):
            out[f"moves.{i}"], out[f"bends.{i}"] = move, bend
        return out

    def load_state_dict(self, state_dict):
        """Copies a state that state_dict gave."""
        self._forget()
        self.lr = state_dict["lr"]
        iterations, self._scale, self._length = state_dict["numbers"].tolist()
        self._iterations = int(iterations)
        self._direction, self._before = state_dict.get("direction"), state_dict.get("before")
        while f"moves.{len(self._moves)}" in state_dict:
            self._bends.append(state_dict[f"bends.{len(self._moves)}"])
            self._moves.append(state_dict[f"moves.{len(self._moves)}"])


def _dot(a, b):
    return float((a * b).sum().item())


def _most(a):
    return float(a.abs().max().item())
