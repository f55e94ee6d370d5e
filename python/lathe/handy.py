"""Small functions that programs import from `helpers`: numbers, lists, text, memory, progress, time."""

import contextlib
import functools
import os
import sys
import threading
import time

from lathe import _core


def prod(values):
    """The product, 1 for none."""
    return functools.reduce(lambda a, b: a * b, values, 1)


def argfix(*x):
    """f(1, 2) and f((1, 2)) alike: a tuple."""
    if x and isinstance(x[0], (tuple, list)):
        if len(x) != 1:
            raise ValueError(f"bad arg {x}")
        return tuple(x[0])
    return x


def flatten(lists):
    """One list of the items of all."""
    return [item for items in lists for item in items]


def dedup(values):
    """Each value once, in order."""
    return list(dict.fromkeys(values))


def all_int(values):
    """Whether all are plain ints."""
    return all(isinstance(v, int) for v in values)


def all_same(values):
    """Whether all are equal."""
    return all(v == values[0] for v in values)


def make_tuple(x, count):
    """x as a tuple: `count` times where it is an int."""
    return (x,) * count if isinstance(x, int) else tuple(x)


def ceildiv(a, b):
    """a / b rounded up."""
    return -(a // -b)


def round_up(a, b):
    """The least multiple of b that is not below a."""
    return ceildiv(a, b) * b


def argsort(x):
    """The order that sorts x."""
    return type(x)(sorted(range(len(x)), key=x.__getitem__))


def partition(values, condition):
    """Those that meet the condition, and the others."""
    yes, no = [], []
    for value in values:
        (yes if condition(value) else no).append(value)
    return yes, no


def get_child(obj, key):
    """The attribute, item or element a dotted name leads to."""
    for part in key.split("."):
        obj = obj[int(part)] if part.isnumeric() else obj[part] if isinstance(obj, dict) else getattr(obj, part)
    return obj


def colored(text, color, background=False):
    """The text with a terminal colour."""
    names = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"]
    if color is None:
        return text
    code = 10 * background + 60 * (color.upper() == color) + 30 + names.index(color.lower())
    return f"\u001b[{code}m{text}\u001b[0m"


class Timing(contextlib.ContextDecorator):
    """Prints how long a block took."""

    def __init__(self, prefix="", on_exit=None, enabled=True):
        self.prefix, self.on_exit, self.enabled = prefix, on_exit, enabled

    def __enter__(self):
        self.begin = time.perf_counter_ns()
        return self

    def __exit__(self, *error):
        self.et = time.perf_counter_ns() - self.begin
        if self.enabled:
            print(f"{self.prefix}{self.et * 1e-6:6.2f} ms" + (self.on_exit(self.et) if self.on_exit else ""))


class tqdm:
    """An iterable, or a count that `update` moves on, with a progress line on the error stream: in place on a terminal, a new
    line every ten seconds elsewhere. `disable=True`, LATHE_PROGRESS=0 or TQDM_DISABLE in the environment silences it.

    >>> from lathe.helpers import tqdm
    >>> [x for x in tqdm([1, 2])]
    [1, 2]
    """

    def __init__(self, iterable=None, desc="", disable=False, total=None, **kwargs):
        self.iterable, self.n, self.postfix = iterable, 0, ""
        self.total = total if total is not None else len(iterable) if hasattr(iterable, "__len__") else 0
        self.disable = bool(disable) or os.environ.get("TQDM_DISABLE", "0") not in ("", "0") or _core.flags()["LATHE_PROGRESS"][0] == "0"
        self.set_description(desc)
        self._in_place = sys.stderr.isatty()
        self._every = 0.1 if self._in_place else 10.0
        self._begin = self._last = time.perf_counter()
        self._shown = False

    def __len__(self):
        return self.total

    def __iter__(self):
        try:
            for item in self.iterable:
                yield item
                self.update(1)
        finally:
            self.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def update(self, n=1):
        """Moves the count on."""
        self.n += n
        if not self.disable and time.perf_counter() - self._last >= self._every:
            self._show()

    def _show(self, end=False):
        self._last, self._shown = time.perf_counter(), True
        rate = self.n / max(self._last - self._begin, 1e-9)
        of = f"/{self.total}" if self.total else ""
        text = f"{self.desc}{self.n}{of} [{rate:.2f} it/s]{self.postfix}"
        if self._in_place:
            print(f"\r{text}\033[K", end="\n" if end else "", file=sys.stderr, flush=True)
        else:
            print(text, file=sys.stderr, flush=True)

    def close(self):
        """Ends the line."""
        if not self.disable and (self._shown or self._in_place):
            self._show(end=True)
        self.disable = True

    def set_description(self, desc=None, refresh=True):
        """The words before the count."""
        self.desc = f"{desc}: " if desc else ""

    def set_description_str(self, desc=None, refresh=True):
        """The text before the count."""
        self.desc = desc or ""

    def set_postfix(self, values=None, refresh=True, **more):
        """Values shown after the count: set_postfix(loss=0.1)."""
        self.postfix = "".join(f", {k}={v:.3g}" if isinstance(v, float) else f", {k}={v}" for k, v in {**(values or {}), **more}.items())

    @staticmethod
    def write(text):
        """Prints a line without harming the progress line."""
        print(text)


class trange(tqdm):
    """range() with a progress line.

    >>> from lathe.helpers import trange
    >>> sum(trange(3))
    3
    """

    def __init__(self, n, desc="", disable=False, **kwargs):
        super().__init__(range(n), desc, disable, **kwargs)


def unwrap(x):
    """x, which is not None."""
    if x is None:
        raise ValueError("a value is missing")
    return x


def fully_flatten(nested):
    """One flat list of a nested one."""
    if not isinstance(nested, (list, tuple)):
        return [nested]
    return [item for part in nested for item in fully_flatten(part)]


def polyN(x, p):
    """The polynomial with coefficients p (highest first) at x."""
    return functools.reduce(lambda acc, c: acc * x + c, p, 0.0)


def to_mv(ptr, size):
    """Memory at an address as a memoryview of bytes."""
    import ctypes

    return memoryview((ctypes.c_uint8 * size).from_address(ptr)).cast("B")


# ---- numbers


def cdiv(x, y):
    """x / y rounded towards 0, as C does; 0 where y is 0."""
    return 0 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def cmod(x, y):
    """What cdiv leaves."""
    return x - cdiv(x, y) * y


def floordiv(x, y):
    """x / y rounded down; 0 where y is 0."""
    return 0 if y == 0 else x // y


def floormod(x, y):
    """What floordiv leaves."""
    return x - floordiv(x, y) * y


def round_down(a, b):
    """The greatest multiple of b that is not above a."""
    return round_up(a, b) - b if a % b else a


def next_power2(x):
    """The least power of 2 that is not below x."""
    return 1 << (x - 1).bit_length() if x > 0 else 1


def lo32(x):
    """The low 32 bits."""
    return x & 0xFFFFFFFF


def hi32(x):
    """The bits above the low 32."""
    return x >> 32


def data64(x):
    """The high and the low half of 64 bits."""
    return hi32(x), lo32(x)


def data64_le(x):
    """The low and the high half of 64 bits."""
    return lo32(x), hi32(x)


def getbits(value, start, end):
    """Bits start to end, both included."""
    return (value >> start) & ((1 << (end - start + 1)) - 1)


def i2u(bits, value):
    """The unsigned number with these bits."""
    return value % (1 << bits)


# ---- lists and shapes


def merge_dicts(ds):
    """One dict of all; a key in two of them must have one value."""
    merged = {}
    for d in ds:
        for key, value in d.items():
            if key in merged and merged[key] != value:
                raise ValueError(f"the key {key!r} has two values, {merged[key]!r} and {value!r}")
            merged[key] = value
    return merged


def get_single_element(x):
    """The only element."""
    if len(x) != 1:
        raise ValueError(f"{len(x)} elements where one is needed")
    return next(iter(x))


def to_tuple(x):
    """x as a tuple: itself, or alone in one."""
    return tuple(x) if isinstance(x, (tuple, list)) else (x,)


def get_shape(x):
    """The shape of a nested list; its parts must agree."""
    if not isinstance(x, (list, tuple)):
        return ()
    inner = [get_shape(part) for part in x]
    if not all_same(inner):
        raise ValueError(f"the parts of a list have different shapes: {inner[:4]}")
    return (len(x), *(inner[0] if inner else ()))


def canonicalize_strides(shape, strides):
    """Strides with 0 for axes of one element."""
    return tuple(0 if size == 1 else stride for size, stride in zip(shape, strides))


def strides_for_shape(shape):
    """The strides of a row-major array; 0 for axes of one element."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return canonicalize_strides(shape, tuple(reversed(strides)))


def resolve_pool_pads(padding, dims):
    """Padding of a window as (low, high) of each axis, the last first."""
    if isinstance(padding, int):
        return [padding] * (2 * dims)
    if len(padding) not in (dims, 2 * dims):
        raise ValueError(f"padding must be an int or a sequence of {dims} or {2 * dims} of them, not {padding}")
    return list(padding) if len(padding) == 2 * dims else [p for p in reversed(padding) for _ in range(2)]


def pad_bytes(b, align):
    """The bytes with zeros up to a multiple."""
    return b + b"\0" * (-len(b) % align)


# ---- text


def ansistrip(s):
    """The text without terminal colours."""
    import re

    return re.sub("\x1b\\[(K|.*?m)", "", s)


def ansilen(s):
    """How wide the text is on a terminal."""
    return len(ansistrip(s))


def ansipad(s, width):
    """The text filled with spaces to a width on the terminal."""
    return s + " " * max(width - ansilen(s), 0)


def colorize_float(x):
    """A ratio to a baseline, with a colour that says how good it is."""
    return colored(f"{x:7.2f}x", "green" if x < 0.75 else "red" if x > 1.15 else "yellow")


def time_to_str(t, w=8):
    """Seconds with a fitting unit."""
    scale, unit = next(((d, u) for d, u in ((1, "s "), (1e3, "ms")) if t * d >= 10), (1e6, "us"))
    return f"{t * scale:{w}.2f}{unit}"


def size_to_str(s):
    """Bytes with a fitting unit."""
    scale, unit = next(((d, u) for d, u in ((1e9, "GB"), (1e6, "MB"), (1e3, "KB")) if s >= d), (1, "B"))
    return f"{s / scale:.2f} {unit}"


def pluralize(st, cnt):
    """A count and its word: 1 kernel, 2 kernels."""
    return f"{cnt} {st}" + ("" if cnt == 1 else "s")


def strip_parens(fst):
    """The text without the parentheses around all of it."""
    if not (fst.startswith("(") and fst.endswith(")")):
        return fst
    depth = 0
    for i, c in enumerate(fst):
        depth += (c == "(") - (c == ")")
        if depth == 0 and i + 1 < len(fst):
            return fst
    return fst[1:-1]


def word_wrap(x, wrap=80):
    """Text wrapped to a width."""
    lines = []
    for line in x.splitlines() or [""]:
        while ansilen(line) > wrap:
            end = wrap
            while end < len(line) and ansilen(line[:end]) < wrap:
                end += 1
            lines.append(line[:end])
            line = line[end:]
        lines.append(line)
    return "\n".join(lines)


def to_function_name(s):
    """The text as a name of C: other characters as their codes."""
    return "".join(c if c.isalnum() and c.isascii() or c == "_" else f"{ord(c):02X}" for c in ansistrip(s))


# ---- memory


def flat_mv(mv):
    """A memoryview as one of bytes without axes."""
    return mv.cast("B", shape=(mv.nbytes,)) if mv.nbytes else mv


def from_mv(mv, to_type=None):
    """The memory of a memoryview as a ctypes pointer."""
    import ctypes

    kind = ctypes.c_char if to_type is None else to_type
    return ctypes.cast(ctypes.addressof(kind.from_buffer(mv)), ctypes.POINTER(kind * len(mv))).contents


def mv_address(mv):
    """The address of a memoryview's memory."""
    import ctypes

    return ctypes.addressof(ctypes.c_char.from_buffer(mv))


def is_numpy_ndarray(x):
    """Whether it is a numpy array, without importing numpy."""
    return str(type(x)) == "<class 'numpy.ndarray'>"


# ---- files, processes and time


def temp(x, append_user=False):
    """A path in the folder of temporary files."""
    import pathlib
    import tempfile

    name = f"{x}.{os.environ.get('USER', 'user')}" if append_user else x
    return (pathlib.Path(tempfile.gettempdir()) / name).as_posix()


def system(cmd, **kwargs):
    """What a command prints."""
    import shlex
    import subprocess

    return subprocess.check_output(shlex.split(cmd), text=True, **kwargs).strip()


def fromimport(mod, frm):
    """A name of a module, imported by both names."""
    import importlib

    return getattr(importlib.import_module(mod), frm)


def perf_counter_us():
    """A clock in microseconds."""
    return time.perf_counter_ns() / 1000


def stderr_log(msg):
    """Writes to the error stream at once."""
    print(msg, end="", file=sys.stderr, flush=True)


def panic(e=None):
    """Raises it."""
    raise e if e is not None else RuntimeError("panic")


def wait_cond(cb, *args, value=True, timeout_ms=10000, msg=""):
    """Calls until the value comes, or raises TimeoutError."""
    begin = time.perf_counter()
    while (got := cb(*args)) != value:
        if (time.perf_counter() - begin) * 1000 > timeout_ms:
            raise TimeoutError(f"{msg} timed out: got {got!r} where {value!r} was awaited")
    return got


def suppress_finalizing(func):
    """A function that is quiet when the interpreter is shutting down."""

    @functools.wraps(func)
    def quiet(*args, **kwargs):
        try:
            return func(*args, **kwargs)
        except (AttributeError, TypeError, ImportError):
            if not sys.is_finalizing():
                raise

    return quiet


class disable_gc(contextlib.ContextDecorator):
    """Without the collector of cyclic garbage inside."""

    def __enter__(self):
        import gc

        self.was = gc.isenabled()
        gc.disable()
        return self

    def __exit__(self, *error):
        import gc

        if self.was:
            gc.enable()


class Profiling(contextlib.ContextDecorator):
    """Prints which functions a block spent its time in."""

    def __init__(self, enabled=True, sort="cumtime", frac=0.2, fn=None, ts=1):
        self.enabled, self.sort, self.frac, self.fn = enabled, sort, frac, fn

    def __enter__(self):
        import cProfile

        self.profile = cProfile.Profile()
        if self.enabled:
            self.profile.enable()
        return self

    def __exit__(self, *error):
        if not self.enabled:
            return
        import pstats

        self.profile.disable()
        if self.fn:
            self.profile.dump_stats(self.fn)
        pstats.Stats(self.profile).sort_stats(self.sort).print_stats(self.frac)


@contextlib.contextmanager
def cpu_profile(name, device="TINY", **ignored):
    """A named part of a run; Lathe's own traces have the kernels."""
    yield


# ---- values kept on disk, by table and key


_connections, _one_at_a_time = {}, threading.RLock()


def db_connection():
    """The data base of kept values, in the cache folder; in memory where the cache is off. For all threads."""
    import sqlite3

    folder = _core.cache_folder()
    with _one_at_a_time:
        if folder not in _connections:
            if folder:
                os.makedirs(folder, mode=0o700, exist_ok=True)
            file = os.path.join(folder, "python.db") if folder else ":memory:"
            connection = sqlite3.connect(file, timeout=60, isolation_level=None, check_same_thread=False)
            connection.execute("create table if not exists kept (what text, key text, value blob, primary key (what, key))")
            _connections[folder] = connection
        return _connections[folder]


def _query(text, values=()):
    with _one_at_a_time:
        return db_connection().execute(text, values).fetchone()


def _disk_key(key):
    return repr(sorted(key.items()) if isinstance(key, dict) else key)


def diskcache_put(table, key, val, prepickled=False):
    """Keeps a value under a key."""
    import pickle

    data = val if prepickled else pickle.dumps(val)
    _query("replace into kept values (?, ?, ?)", (table, _disk_key(key), data))
    return val


def diskcache_get(table, key):
    """What was kept under a key, or None."""
    import pickle

    row = _query("select value from kept where what = ? and key = ?", (table, _disk_key(key)))
    return None if row is None else pickle.loads(row[0])


def diskcache_clear():
    """Forgets everything that was kept."""
    _query("delete from kept")


def diskcache(func):
    """A function whose results are kept on disk by its arguments."""

    @functools.wraps(func)
    def kept(*args, **kwargs):
        key = (args, tuple(sorted(kwargs.items())))
        found = diskcache_get(f"function {func.__name__}", key)
        return found if found is not None else diskcache_put(f"function {func.__name__}", key, func(*args, **kwargs))

    return kept
