"""Threads, the interpreter's lock and signals: nothing waits while it holds the lock, and Ctrl-C is heard."""

import concurrent.futures
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import lathe
from lathe import JitError, Tensor, TinyJit, nn


def test_what_a_thread_computes_in_every_call_of_a_capture_is_refused():
    pool = concurrent.futures.ThreadPoolExecutor(1)

    @TinyJit
    def f(x):
        there = pool.submit(lambda: (x * 2).realize()).result()
        return (there + 1).realize()

    with pytest.raises(JitError, match="cannot be captured"):
        for i in range(6):
            assert f(Tensor([float(i), 1.0]).realize()).tolist() == [2.0 * i + 1, 3.0]


def test_what_a_thread_computed_once_is_state_of_a_capture():
    pool, kept = concurrent.futures.ThreadPoolExecutor(1), []

    @TinyJit
    def f(x):
        if not kept:
            kept.append(pool.submit(lambda: (Tensor([1.0, 2.0]) * 10).realize()).result())
        return (x + kept[0]).realize()

    for i in range(6):
        assert f(Tensor([float(i), 1.0]).realize()).tolist() == [10.0 + i, 21.0]
    assert f.captured


# One thread makes a capture while others call it: each call is as good as the function.
def test_several_threads_may_call_a_captured_function_while_it_is_captured():
    @TinyJit
    def f(x):
        time.sleep(0.002)  # the lock goes to the others here
        return (x * 3 + 1).realize()

    def work(n):
        return [f(Tensor([float(n), float(i)]).realize()).tolist() == [3.0 * n + 1, 3.0 * i + 1] for i in range(20)]

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert all(all(ok) for ok in pool.map(work, range(4)))
    assert f.captured


def _files(folder):
    nn.state.safe_save({"w": Tensor.rand(64, 64).realize()}, folder / "f")
    return [
        lambda: nn.state.safe_load(folder / "f")["w"].numpy(),
        lambda: nn.state.safe_save({"w": Tensor.ones(8, 8).contiguous()}, folder / "g"),
    ]


def _works(folder):
    a, parameter = Tensor.rand(64, 64).realize(), Tensor.rand(64, requires_grad=True).realize()
    optimizer = nn.optim.Adam([parameter])
    f = TinyJit(lambda x: (x + 1).realize())

    def step():
        (parameter * parameter).sum().backward()
        with Tensor.train():
            optimizer.step()

    return [
        lambda: (a @ a).realize(),
        lambda: (a + 1).numpy(),
        lambda: (a + 2).sum().item(),
        lambda: (a + 3).tolist(),
        lambda: (a + 4).allclose(a),
        lambda: (a > 0.5).nonzero(),
        lambda: a.masked_select(a > 0.5),
        lambda: (a + 5).kernelize(),
        lambda: (a * 6).schedule(),
        lambda: pickle.dumps(a + 7),
        lambda: memoryview((a + 8).realize()),
        lambda: f(a),
        lambda: setattr(optimizer, "lr", 0.1),
        step,
        lathe.Device.synchronize,
        *_files(folder),
    ]


# Whoever holds Lathe's locks may want the interpreter's: two threads that do everything at once would stop for ever if one
# waited with the interpreter's lock in its hands.
def test_threads_that_do_everything_at_once_do_not_wait_for_each_other(tmp_path):
    code = f"""
import pathlib, sys, threading
sys.path.insert(0, {str(__file__.rsplit("/", 1)[0])!r})
import test_threads
failed = []
def run(n):
    try:
        folder = pathlib.Path({str(tmp_path)!r}) / str(n)
        folder.mkdir()
        for _ in range(3):
            for work in test_threads._works(folder): work()
    except Exception as e:
        failed.append(e)
threads = [threading.Thread(target=run, args=(n,)) for n in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
assert not failed, failed
print("done")
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240)
    assert out.stdout.strip() == "done", out.stderr


def interrupted(code, after, env=None):
    """Runs a program that says when it is ready and interrupts it then: what it printed, its errors, its status."""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    try:
        assert process.stdout.readline().strip() == "ready"
        time.sleep(after)
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=120)
    finally:
        process.kill()
    return out, errors, process.returncode


def test_ctrl_c_ends_a_loop_of_kernels():
    # A job in the background inherits that the signal is ignored: here it is not.
    code = (
        "import lathe, signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "a = lathe.Tensor.rand(300, 300).realize(); print('ready', flush=True)\n"
        "while True: a = (a @ a * 0.01).realize()"
    )
    _, errors, status = interrupted(code, after=0.3)
    assert "KeyboardInterrupt" in errors and status != 0


LONG = """
import lathe, signal, sys
from lathe import Tensor
signal.signal(signal.SIGINT, signal.default_int_handler)
Tensor([1.0]).add(1).realize()
print("ready", flush=True)
x = Tensor.rand(16, 16)
for i in range(3000): x = (x @ x.sin() + i).contiguous()
try:
    x.realize()
except KeyboardInterrupt:
    print("interrupted", lathe.helpers.GlobalCounters.kernel_count > 100, flush=True)
print(Tensor([1.0, 2.0]).mul(2).add(1).tolist(), flush=True)
"""


def test_ctrl_c_ends_a_long_compile_and_leaves_lathe_working():
    out, errors, _ = interrupted(LONG, after=0.7, env={**os.environ, "LATHE_CACHE": "off"})
    assert out.split("\n")[:2] == ["interrupted False", "[3.0, 5.0]"], errors


def test_ctrl_c_ends_a_realize_between_its_kernels():
    # What it runs, it says (LATHE_DEBUG=2), and whoever reads that is another process: a thread of its own would ask for
    # counters under a lock that launches hardly ever leave free.
    code = """
import lathe, signal
from lathe import Tensor
signal.signal(signal.SIGINT, signal.default_int_handler)
def products(n):
    x = Tensor.ones(640, 640).contiguous()
    for i in range(n): x = (x @ x * 0.001).contiguous()
    return x
products(2).realize()
counters = lathe.helpers.GlobalCounters
before = counters.kernel_count
try:
    products(1000).realize()
except KeyboardInterrupt:
    print("interrupted", 5 <= counters.kernel_count - before < 1000, flush=True)
print(Tensor([1.0, 2.0]).mul(2).add(1).tolist(), flush=True)
"""
    environment = {**os.environ, "LATHE_DEBUG": "2"}
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    said = []
    for line in child.stderr:
        said.append(line)
        if sum(line.startswith("r_640") for line in said) == 20:
            child.send_signal(signal.SIGINT)
            break
    out, errors = child.communicate(timeout=240)
    assert out.split("\n")[:2] == ["interrupted True", "[3.0, 5.0]"], "".join(said) + errors


def test_ctrl_c_does_not_repeat_a_write_in_place():
    code = """
import lathe, os, signal, threading, time
from lathe import Tensor
signal.signal(signal.SIGINT, signal.default_int_handler)
x = Tensor.full((300, 300), 1e-3).contiguous().realize()
a = Tensor.zeros(4).contiguous().realize()
counters = lathe.helpers.GlobalCounters
def step():
    a.assign(a + 1)
    y, outs = x * (a[0] * 0 + 1), []
    for i in range(200):
        y = (y @ x).contiguous()
        outs.append(y)
    return outs
Tensor.realize(a, *step())
for round in range(3):
    before = counters.kernel_count
    def interrupt():
        while counters.kernel_count - before < 20: time.sleep(0.0005)
        os.kill(os.getpid(), signal.SIGINT)
    outs = step()
    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        Tensor.realize(a, *outs)
        thread.join()
        time.sleep(0.01)
    except KeyboardInterrupt:
        pass
print(a.tolist(), flush=True)
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240)
    assert out.stdout.split("\n")[0] == str([4.0] * 4), out.stdout + out.stderr


def test_a_handler_of_the_programs_own_raises_from_a_computation():
    class Mine(Exception):
        pass

    def handler(*_):
        raise Mine

    before = signal.signal(signal.SIGINT, handler)
    try:
        a = Tensor.rand(400, 400).realize()
        timer = threading.Timer(0.2, signal.raise_signal, (signal.SIGINT,))
        timer.start()
        begin = time.perf_counter()
        with pytest.raises(Mine):
            while time.perf_counter() - begin < 60:
                a = (a @ a * 0.01).realize()
        timer.join()
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert (Tensor([1.0]) + 1).tolist() == [2.0]


def test_memory_of_another_library_is_given_back_by_whichever_thread_drops_it():
    class Array(np.ndarray):
        pass

    alive = []
    array = np.arange(1000, dtype=np.float32)
    import weakref

    owner = array.view(Array)
    alive.append(weakref.ref(owner))
    t = Tensor.from_numpy(owner)
    del owner
    results = []
    thread = threading.Thread(target=lambda held: results.append((held * 2).sum().item()), args=(t,))
    thread.start()
    del t
    thread.join()
    assert results == [999000.0]
    del thread
    for _ in range(100):
        if alive[0]() is None:
            break
        time.sleep(0.01)
    assert alive[0]() is None


def _trained(k):
    """Losses of a net that is trained while a captured function runs and tensors are written in place."""
    rng = np.random.RandomState(k)
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    for p in net.parameters():
        p.assign(Tensor(rng.randn(*p.shape).astype(np.float32) * 0.3))
    optimizer = nn.optim.Adam(net.parameters(), lr=0.01)
    kept, captured, losses = Tensor.zeros(6, 4).contiguous(), TinyJit(lambda x: (x * 2 + k).realize()), []
    for i in range(30):
        x = rng.randn(5, 4).astype(np.float32)
        optimizer.zero_grad()
        loss = net(Tensor(x)).square().mean()
        loss.backward()
        optimizer.step()
        kept[i % 6] = Tensor(x[0])
        losses += [loss.item(), kept.sum().item(), captured(Tensor(x)).sum().item()]
    return losses


def test_nets_that_are_trained_at_once_learn_what_they_do_alone():
    alone = [_trained(k) for k in range(6)]
    together, errors = [None] * 6, []

    def run(k):
        try:
            together[k] = _trained(k)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    np.testing.assert_allclose(together, alone, rtol=1e-5)
