"""Settings, counters and small functions, under the names tinygrad programs import from `helpers`."""

import contextlib
import functools
import os
import sys

from lathe import _core
from lathe.absent import absent
from lathe.handy import *  # noqa: F403

_absent = absent(__name__)

CI = os.getenv("CI", "") != ""
OSX, WIN = sys.platform == "darwin", sys.platform == "win32"
ARCH_X86 = hasattr(os, "uname") and os.uname().machine in ("x86_64", "i386")


@functools.lru_cache(maxsize=None)
def getenv(key, default=0):
    """The environment variable, as the type of the default.

    >>> getenv("NO_SUCH_VARIABLE", 5)
    5
    """
    return type(default)(os.getenv(key, default))


def _flag_names():
    return {name.removeprefix("LATHE_"): name for name in _core.flags()}


class ContextVar:
    """A setting that `Context` overrides: DEBUG, BEAM, JIT, ... It compares like its value.

    >>> with Context(DEBUG=0):
    ...     print(DEBUG >= 1)
    False
    """

    _cache = {}

    def __new__(cls, key, default_value=0):
        if key not in cls._cache:
            made = cls._cache[key] = super().__new__(cls)
            made._start(key, default_value)
        return cls._cache[key]

    def _start(self, key, default_value):
        self.key = key
        self._flag = _FLAGS.get(key)
        self._plain = default_value
        self._scopes = []
        if getenv("LATHE_TINYGRAD_ENV") and key in os.environ:
            self.value = type(default_value)(os.environ[key])

    @property
    def value(self):
        if self._flag is None:
            return self._plain
        text = _core.flags()[self._flag][0]
        try:
            return int(text)
        except ValueError:
            return text

    @value.setter
    def value(self, value):
        if self._flag is None:
            self._plain = value
        else:
            scope = _core.FlagScope(self._flag, _flag_text(value))
            scope.enter()
            self._scopes.append(scope)  # for good

    def __bool__(self):
        return bool(self.value)

    def __int__(self):
        return int(self.value)

    __index__ = __int__

    def __eq__(self, x):
        return self.value == x

    def __ge__(self, x):
        return self.value >= x

    def __gt__(self, x):
        return self.value > x

    def __le__(self, x):
        return self.value <= x

    def __lt__(self, x):
        return self.value < x

    def __hash__(self):
        return hash(self.key)

    def __repr__(self):
        return f"{self.key}={self.value}"

    def __reduce__(self):
        return (ContextVar, (self.key, self._plain))


def _flag_text(value):
    return str(int(value)) if isinstance(value, (bool, int)) else str(value)


_FLAGS = _flag_names()
# Words of tinygrad that choose between ways of doing what Lathe does in one way: accepted, without effect.
_WORDS = (
    "ALL2ALL ALLOW_DEVICE_USAGE ALLOW_TF32 ALLREDUCE_CAST AMD_CC AMD_LLVM AMX CACHELEVEL CAPTURE_PROCESS_REPLAY "
    "CAPTURING CCACHE CHECK_OOB CORRECT_DIVMOD_FOLDING CPU_CC CPU_COUNT CPU_LLVM CPU_LVP CUDA_CC CUDA_PTX "
    "DEBUG_RANGEIFY DEVECTORIZE DISABLE_COMPILER_CACHE DISABLE_FAST_IDIV DISALLOW_BROADCAST DONT_GROUP_REDUCES "
    "DONT_REALIZE_EXPAND EMULATE EMULATED_DTYPES FLOAT16 FUSE_ARANGE FUSE_CONV_BW FUSE_OPTIM GRAPH IGNORE_BEAM_CACHE "
    "IGNORE_OOB IMAGE JIT_BATCH_SIZE LRU MAX_BUFFER_SIZE MAX_KERNEL_BUFFERS NOLOCALS NO_COLOR NO_MEMORY_PLANNER "
    "NULL_ALLOW_COPYOUT NULL_IR3 NULL_NAK NUM_CPU_THREADS NV_CC NV_NAK NV_PTX OPENPILOT_HACKS PARALLEL PCONTIG "
    "PICKLE_BUFFERS PROFILE QCOM_CC QCOM_IR3 QUANTIZE RING SCACHE SPEC SPLIT_REDUCEOP TC_OPT TC_SEARCH_OVER_SHAPE "
    "TC_SELECT TRACEMETA TRACK_MATCH_STATS TRANSCENDENTAL TUPLE_ORDER USE_ATOMICS USE_TC VALIDATE_WITH_CPU WINO"
).split()
DEBUG, BEAM, NOOPT = ContextVar("DEBUG", 0), ContextVar("BEAM", 0), ContextVar("NOOPT", 0)
JIT, TC, VIZ = ContextVar("JIT", 1), ContextVar("TC", 1), ContextVar("VIZ", 0)
IMAGE, WINO, TRACEMETA, PROFILE = (ContextVar(k, 0) for k in ("IMAGE", "WINO", "TRACEMETA", "PROFILE"))
for _word in _WORDS:
    ContextVar(_word, 0)


def __getattr__(name):  # a setting by its name, whether Lathe has a use for it or not
    if name in _FLAGS or name in _WORDS:
        return ContextVar(name, 0)
    return _absent(name)


class _Training(ContextVar):
    """Whether dropout and batch norm behave as in training."""

    @property
    def value(self):
        return int(_core.training())

    @value.setter
    def value(self, on):
        _core.Tensor.training = bool(on)


TRAINING = _Training("TRAINING", 0)


class _Dev(ContextVar):
    """The default device, and what tinygrad's setting adds to it."""

    renderer = arch = interface = ""

    @property
    def value(self):
        return _core.default_device()

    @value.setter
    def value(self, device):
        _core.set_default_device(device)

    @property
    def device(self):
        return self.value.partition(":")[0]


DEV = _Dev("DEV", "")


class _Swap:
    """Sets something on entry and the old value on leaving."""

    def __init__(self, get, put, value):
        self.get, self.put, self.new = get, put, value

    def enter(self):
        self.old = self.get()
        self.put(self.new)

    def leave(self):
        self.put(self.old)


def _scope(name, value):
    if name == "TRAINING":
        return _core.TrainingScope(bool(value))
    if name == "DEFAULT_FLOAT":
        return _Swap(_core.default_float, _core.set_default_float, value)
    if name == "DEFAULT_INT":
        return _Swap(_core.default_int, _core.set_default_int, value)
    if name == "DEV":
        return _Swap(_core.default_device, _core.set_default_device, value)
    if name in _FLAGS or name in _FLAGS.values():
        return _core.FlagScope(name, _flag_text(value))
    if name in ContextVar._cache:
        variable = ContextVar._cache[name]
        return _Swap(lambda: variable._plain, lambda v: setattr(variable, "_plain", v), value)
    known = sorted({*_FLAGS, *ContextVar._cache, "DEFAULT_FLOAT", "DEFAULT_INT", "DEV"})
    raise _core.UserError(f"lathe: context: there is no setting {name}\n  help: the settings are {', '.join(known)}")


class Context(contextlib.ContextDecorator):
    """Settings that hold inside a `with` block or a decorated function.

    >>> with Context(TRAINING=1):
    ...     Tensor.training
    True
    """

    def __init__(self, **settings):
        self.settings = settings
        self._open = []
        for name, value in settings.items():
            _scope(name, value)

    def __enter__(self):
        scopes = [_scope(name, value) for name, value in self.settings.items()]
        for scope in scopes:
            scope.enter()
        self._open.append(scopes)
        return self

    def __exit__(self, *error):
        for scope in reversed(self._open.pop()):
            scope.leave()

    def _recreate_cm(self):
        return Context(**self.settings)


class no_grad(contextlib.ContextDecorator):
    """Inside, no operation takes part in `backward()`.

    >>> x = Tensor([1.0], requires_grad=True)
    >>> with no_grad():
    ...     (x * 2).requires_grad is True
    False
    """

    def __init__(self):
        self._open = []

    def __enter__(self):
        scope = _core.NoGradScope()
        scope.enter()
        self._open.append(scope)
        return self

    def __exit__(self, *error):
        self._open.pop().leave()


class _GlobalCounters:
    """What was run since the last reset: kernel_count, global_ops, global_mem, time_sum_s; mem_used is now.

    >>> from lathe import GlobalCounters
    >>> GlobalCounters.reset()
    >>> out = (Tensor([1.0, 2.0]).realize() + 1).realize()
    >>> GlobalCounters.kernel_count
    1
    """

    def reset(self):
        """Starts counting from 0 again."""
        _core.reset_counters()

    @property
    def kernel_count(self):
        return _core.counters()["kernels"]

    @property
    def global_ops(self):
        return int(_core.counters()["flops"])

    @property
    def global_mem(self):
        return int(_core.counters()["bytes"])

    @property
    def time_sum_s(self):
        return _core.counters()["seconds"]

    @property
    def mem_used(self):
        return _core.counters()["memory_used"]

    @property
    def mem_peak(self):
        return _core.counters()["memory_peak"]

    def __repr__(self):
        return f"GlobalCounters({_core.counters()})"


GlobalCounters = _GlobalCounters()


def live_buffers():
    """All memory that tensors hold, largest first: the line that made each, its device and its bytes.

    >>> from lathe import live_buffers
    >>> kept = Tensor.ones(1000).contiguous().realize()
    >>> max(bytes for line, device, bytes in live_buffers()) >= 4000
    True
    """
    return _core.live_buffers()


def memory_report(most_lines=20):
    """The same for people: one line per place and size.

    >>> from lathe import memory_report
    >>> kept = Tensor.ones(1000).contiguous().realize()
    >>> "buffer" in memory_report()
    True
    """
    return _core.memory_report(most_lines)


def memory_stats():
    """Bytes of device memory in use now, and the most there were.

    >>> from lathe import memory_stats
    >>> kept = Tensor.ones(1000).contiguous().realize()
    >>> memory_stats()["peak"] >= memory_stats()["used"] >= 4000
    True
    """
    counters = _core.counters()
    return {"used": counters["memory_used"], "peak": counters["memory_peak"]}


# ---- files from elsewhere

def _download(url, path, headers=None):
    import urllib.request

    with urllib.request.urlopen(urllib.request.Request(url, headers=headers or {}), timeout=30) as response, open(path, "wb") as file:
        while chunk := response.read(1 << 20):
            file.write(chunk)
        promised = response.headers.get("Content-Length")
        if promised is not None and file.tell() != int(promised):
            raise _core.UserError(f"lathe: fetch: {url} is truncated: {file.tell()} of {promised} bytes came")


def _unpacked(file, fresh):
    """Extracts a tar file into a folder next to it. The folder is complete or does not exist."""
    import pathlib
    import shutil
    import tempfile

    folder = file.with_name(file.name + ".extract")
    if folder.is_dir() and not fresh:
        return folder
    making = pathlib.Path(tempfile.mkdtemp(dir=file.parent))
    try:
        for name, data in _core.tar_extract(file).items():
            target = making / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data.tobytes())
        shutil.rmtree(folder, ignore_errors=True)
        try:
            making.rename(folder)
        except OSError:  # another process was quicker
            if not folder.is_dir():
                raise
    finally:
        shutil.rmtree(making, ignore_errors=True)
    return folder


def fetch(url, name=None, subdir=None, gunzip=False, allow_caching=True, headers=None, sha256=None, size=None, extract=False):
    """The path of a URL's file, which is kept in the cache folder (LATHE_CACHE); a path is itself. With `sha256` or
    `size`, a file that differs is an error. `headers` go with the request, and make the file another one; with `extract`
    it is a tar archive, and the folder with what is in it is given. LATHE_MIRROR names a folder that is used instead of
    the network.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "file")
    >>> with open(path, "wb") as file: out = file.write(b"abc")
    >>> fetch(path).read_bytes()
    b'abc'
    """
    import hashlib
    import pathlib
    import urllib.error

    if headers and "/" not in str(name or ""):
        words = "\n".join(f"{k.strip()}:{v.strip()}" for k, v in sorted(headers.items()))
        name = (name or hashlib.md5(str(url).encode()).hexdigest()) + "_" + hashlib.md5(words.encode()).hexdigest()
    download = functools.partial(_download, headers=headers)
    try:
        file = pathlib.Path(
            _core.fetch(str(url), str(name or ""), subdir or "", gunzip, allow_caching, sha256 or "", size, download)
        )
    except urllib.error.URLError as error:
        raise _core.UserError(
            f"lathe: fetch: {url} cannot be loaded: {error}\n"
            "  help: without a network, put the file into a folder and name that in LATHE_MIRROR, or pass the file's path"
        ) from error
    return _unpacked(file, not allow_caching) if extract else file
