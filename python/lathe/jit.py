"""Functions captured once and replayed: `TinyJit`, also `jit`."""

import functools
import threading
import weakref

from lathe import _core
from lathe._core import Tensor, Variable
from lathe.errors import JitError
from lathe.guards import Guards, key_of
from lathe.helpers import JIT


_traces = threading.local()


def capturing():
    """Whether this thread is inside of a function that is being captured."""
    return getattr(_traces, "open", 0) > 0


class _Value:
    """An argument that is not a tensor: equal to one of the same type and value, or, if it is not a plain value, to itself alone."""

    def __init__(self, value):
        self.value, self.key = value, key_of(value)

    def __eq__(self, other):
        if not isinstance(other, _Value):
            return False
        return self.value is other.value if self.key is None else self.key == other.key

    __hash__ = None

    def __repr__(self):
        return repr(self.value)

    def __getstate__(self):
        return {"value": None if self.key is None else self.value, "key": self.key}


class _Flat:
    """A nested structure taken apart: its tensors, its bound sizes, and the rest as a description that compares."""

    def __init__(self, value):
        self.tensors, self.sizes, self.others = [], [], []
        self.shape = self._take(value)

    def _take(self, value):
        if isinstance(value, Tensor):
            self.tensors.append(value)
            return ("tensor",)
        if isinstance(value, (_core.Size, Variable)):
            self.sizes.append(value)
            return ("size",)
        if isinstance(value, (list, tuple)):
            return (type(value), tuple(self._take(v) for v in value))
        if isinstance(value, dict):
            return (dict, tuple((k, self._take(v)) for k, v in value.items()))
        self.others.append(value)
        return ("value", _Value(value))


def _rebuild(shape, tensors, sizes, others):
    kind = shape[0]
    if kind == "tensor":
        return next(tensors)
    if kind == "size":
        return next(sizes)
    if kind == "value":
        return next(others)
    if kind is dict:
        return {k: _rebuild(v, tensors, sizes, others) for k, v in shape[1]}
    items = [_rebuild(v, tensors, sizes, others) for v in shape[1]]
    return kind(*items) if hasattr(kind, "_fields") else kind(items)


def _shapes(tensors):
    return tuple((tuple(map(str, t.shape)), t.dtype, t.device) for t in tensors)


def _describe(shape):
    return f"{shape[1]!r}" if shape[0] == "value" else str(shape[0])


class TinyJit:
    """A function whose kernels are captured by the first two calls, which are compared, and replayed by later ones. (The
    first call may read data: then it is a warm-up, and the next two capture.) Tensors and bound variables in its arguments
    (also inside lists, tuples and dicts) may change from call to call; everything else must stay what it was, dtypes
    and what the function reads from Python too (docs/python/quickstart.md has the list): otherwise a JitError says what differs.
    Calls with other shapes, such as a last short batch, are captured separately, up to `captures` in all.

    >>> @TinyJit
    ... def double(x): return (x * 2).realize()
    >>> [double(Tensor([i])).item() for i in range(4)]
    [0, 2, 4, 6]
    """

    def __init__(self, fxn=None, prune=False, captures=8, **ignored):
        self._fxn = fxn
        self._most = captures
        self._owners = weakref.WeakKeyDictionary()
        self._owner = None  # of a method: its function and, weakly, the object
        if fxn is not None:
            functools.update_wrapper(self, fxn)
        self._begin()

    def _begin(self):
        self._jit = None
        self._args = None  # how the arguments are nested, and what else they are
        self._result = None
        self._guards = None  # of a captured function: what else it reads
        self._shapes = None  # of the tensors it was captured with
        self._others = {}  # captures with tensors of other shapes, such as a last short batch
        self.cnt = 0

    @property
    def fxn(self):
        return self._fxn

    def reset(self):
        """Forgets the capture: the next call traces again."""
        if self._fxn is None:
            raise JitError("lathe: jit: a loaded capture cannot be traced again")
        self._begin()

    @property
    def captured(self):
        """The captured program, or None before there is one."""
        return self if self._jit is not None and self._jit.captured else None

    @property
    def kernels(self):
        """The number of kernels and copies a replay runs."""
        return 0 if self._jit is None else self._jit.kernels

    def __repr__(self):
        from lathe.printing import jit_text

        return jit_text(self)

    def free_intermediates(self):
        """Nothing is kept between calls but the state, so there is nothing to free."""

    def _trace(self, tensors, sizes):
        args, kwargs = _rebuild(self._args.shape, iter(tensors), iter(sizes), iter(self._args.others))
        _traces.open = getattr(_traces, "open", 0) + 1
        try:
            result = _Flat(self._fxn(*args, **kwargs))
        finally:
            _traces.open -= 1
        if result.sizes:
            raise JitError("lathe: jit: the function returns a symbolic size\n  help: return a tensor")
        if self._result is not None and self._result.shape != result.shape:
            raise JitError(
                "lathe: jit: the function returned something else on its second call, so it cannot be replayed\n"
                f"  note: first {_describe(self._result.shape)}, then {_describe(result.shape)}\n"
                "  help: return tensors, and the same structure each time"
            )
        self._result = result
        out = result.tensors
        result.tensors = []
        return out

    def __call__(self, *args, **kwargs):
        if not JIT and self._fxn is not None:
            return self._fxn(*args, **kwargs)
        self.cnt += 1
        given = _Flat((args, dict(sorted(kwargs.items()))))
        if self.cnt == 2 and self.captured is None and given.shape != self._args.shape:
            self._begin()  # the first call may be of another kind, as a warm-up
            self.cnt = 2
        if self._args is not None and given.shape != self._args.shape:
            raise JitError(
                f"lathe: jit: the arguments of {getattr(self, '__name__', 'the function')} differ from the captured ones\n"
                f"  note: {self._difference(given.shape, self._args.shape)}\n"
                "  help: pass what changes as a Tensor or a bound Variable, or reset() the function"
            )
        if self._args is None:
            self._args = given
        if self._jit is None:
            trace = weakref.WeakMethod(self._trace)  # what is native must not keep what it belongs to
            self._jit = _core.Jit(lambda tensors, sizes: trace()(tensors, sizes))
        self._args.others = given.others
        if self._guards is not None and (changed := self._guards.changed()):
            raise JitError(
                f"lathe: jit: what {getattr(self, '__name__', 'the function')} reads has changed since it was captured\n"
                f"  note: {changed}\n"
                "  help: pass what changes as a Tensor or a bound Variable, keep it in a realized tensor and assign to that, "
                "or reset() the function"
            )
        try:
            out = self._jit(given.tensors, given.sizes)
        except JitError as error:
            other = self._of_other_shapes(given.tensors)
            if other is None:
                raise
            if isinstance(other, int):
                raise JitError(
                    f"{error}\n  note: {other + 1} captures of other shapes are kept already\n"
                    f"  help: pad to few shapes, pass the size as a bound Variable, or TinyJit(f, captures={2 * self._most})"
                ) from None
            return other(*args, **kwargs)
        if self._shapes is None and self._jit.captured:
            self._shapes = _shapes(given.tensors)
        if self._guards is None and self._fxn is not None and self._jit.captured:
            function, owner = self._owner or (self._fxn, None)
            self._guards = Guards(function, owner, given.others)
        return _rebuild(self._result.shape, iter(out), iter(()), iter(self._result.others))

    def _of_other_shapes(self, tensors):
        """The capture for tensors that differ from the captured ones in nothing but shape; None where that is not so, and
        the number of captures where there is no room for another."""
        if self._shapes is None or self._fxn is None:
            return None
        now = _shapes(tensors)
        same_kinds = len(now) == len(self._shapes) and all(a[1:] == b[1:] for a, b in zip(now, self._shapes))
        if not same_kinds or now == self._shapes:
            return None
        if now not in self._others:
            if len(self._others) + 1 >= self._most:
                return len(self._others)
            made = self._others[now] = type(self)(self._fxn, captures=1)
            made._owner = self._owner
        return self._others[now]

    @staticmethod
    def _difference(now, then):
        for a, b in zip(now[1], then[1]):
            if a != b:
                pairs = zip(a[1], b[1]) if isinstance(a[1], tuple) and isinstance(b[1], tuple) else ()
                for x, y in pairs:
                    if x != y:
                        return f"now {_describe(x)}, captured with {_describe(y)}"
                return f"now {len(a[1])} arguments, captured with {len(b[1])}"
        return "their structure is another"

    def __get__(self, instance, owner=None):
        """A method is captured for each instance by itself."""
        if instance is None:
            return self
        try:
            bound = self._owners.get(instance)
            if bound is None:
                function, weak = self._fxn, weakref.ref(instance)
                bound = self._owners[instance] = type(self)(
                    functools.wraps(function)(lambda *args, **kwargs: function(weak(), *args, **kwargs))
                )
                bound._owner = (function, weak)
            return bound
        except TypeError:  # no weak references, or no hash
            return functools.partial(self.__call__, instance)

    def __reduce__(self):
        if self.captured is None:
            if self._fxn is None:
                raise JitError("lathe: jit: nothing is captured")
            return (type(self), (self._fxn,))
        self._args.tensors, self._args.sizes = [], []
        state = (self._jit.save(), self._args.shape, self._result.shape, self._result.others)
        return (_load, state)


def _load(saved, args, result, others):
    jit = TinyJit(None)
    jit._jit = _core.Jit.load(saved)
    jit._args = _Flat(())
    jit._args.shape = args
    jit._result = _Flat(())
    jit._result.shape, jit._result.others = result, others
    return jit


jit = TinyJit


def function(fxn=None, **ignored):
    """Marks a function of tensors as one unit. Lathe's graphs need no marks: the function is called as it is.

    >>> @function
    ... def double(x): return x * 2
    >>> double(Tensor([1, 2])).tolist()
    [2, 4]
    """
    return fxn if fxn is not None else (lambda f: f)
