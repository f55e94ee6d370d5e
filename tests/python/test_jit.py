"""Captured functions: right, or a typed error."""

import collections
import functools
import gc
import pickle
import weakref

import numpy as np
import pytest

from lathe import Context, GlobalCounters, JitError, Tensor, TinyJit, Variable, dtypes, jit, nn


def counted(function, calls=6):
    """The captured function with what it gave for 0, 1, 2, ..."""
    return [function(Tensor([float(i)])).item() for i in range(calls)]


def test_calls_equal_plain_calls_in_every_structure():
    @TinyJit
    def f(a, others, *, scale):
        return {"sum": a + others[0], "rest": [a * scale["s"], (others[1] - a,)]}

    for i in range(6):
        a, b, c, s = (Tensor([float(i + k)]) for k in range(4))
        out = f(a, [b, c], scale={"s": s})
        assert out["sum"].item() == 2 * i + 1
        assert out["rest"][0].item() == i * (i + 3) and out["rest"][1][0].item() == 2
    assert f.captured and f.kernels >= 1


def test_a_replay_runs_no_python_and_makes_no_schedule():
    calls = []

    @jit
    def f(x):
        calls.append(1)
        return (x * 2).realize()

    assert counted(f) == [0, 2, 4, 6, 8, 10]
    assert len(calls) == 2
    before = GlobalCounters.kernel_count
    f(Tensor([1.0]))
    assert GlobalCounters.kernel_count - before == f.kernels
    f.reset()
    assert counted(f) == [0, 2, 4, 6, 8, 10]


def test_old_results_stay_what_they_were():
    f = TinyJit(lambda x: (x + 1).realize())
    results = [f(Tensor([float(i)])) for i in range(6)]
    assert [r.item() for r in results] == [1, 2, 3, 4, 5, 6]


def test_state_is_seen_by_reference():
    weight = Tensor([2.0]).contiguous().realize()
    f = TinyJit(lambda x: (x * weight).realize())
    for i in range(6):
        weight.assign(Tensor([float(i)])).realize()
        assert f(Tensor([3.0])).item() == 3.0 * i

    @TinyJit
    def count(x):
        x += 1
        return x.realize()

    a = Tensor([0.0]).contiguous().realize()
    for _ in range(6):
        count(a)
    assert a.item() == 6


def test_a_method_is_captured_for_each_instance():
    class Model:
        def __init__(self, scale):
            self.scale = Tensor([scale])

        @TinyJit
        def forward(self, x):
            return (x * self.scale).realize()

    one, two = Model(2.0), Model(3.0)
    for i in range(6):
        assert one.forward(Tensor([float(i)])).item() == 2 * i
        assert two.forward(Tensor([float(i)])).item() == 3 * i


def test_what_cannot_be_replayed_is_a_jit_error():
    f = TinyJit(lambda a, b: (a + b).realize())
    for _ in range(4):
        f(Tensor([1.0]), Tensor([2.0]))
    with pytest.raises(JitError):
        f(Tensor([1]), Tensor([2.0]))
    with pytest.raises(JitError):
        f(Tensor([1.0]))
    with pytest.raises(JitError):
        f(Tensor([1.0]), b=Tensor([2.0]))

    reads = TinyJit(lambda x: x * x.sum().item())
    reads(Tensor([1.0]))
    with pytest.raises(JitError, match="reads"):
        reads(Tensor([1.0]))

    flag = TinyJit(lambda x, square: (x * x if square else x * 2).realize())
    flag(Tensor([3.0]), True)
    flag(Tensor([3.0]), True)
    with pytest.raises(JitError, match="captured with True"):
        flag(Tensor([3.0]), False)

    number = TinyJit(lambda x, i: ((x * 2).realize(), i))
    with pytest.raises(JitError):
        for i in range(4):
            number(Tensor([1.0]), i)


def test_other_shapes_are_captured_beside_up_to_a_number():
    f = TinyJit(lambda a, b: (a + b).sum().realize())

    for epoch in range(5):
        for size in (4, 4, 4, 3):
            x = np.random.randn(size).astype(np.float32)
            assert abs(f(Tensor(x), Tensor(x)).item() - 2 * x.sum()) < 1e-5
    assert f.captured and [bool(other.captured) for other in f._others.values()] == [True]
    few = TinyJit(lambda a: (a * 2).realize(), captures=2)
    for size in (1, 1, 1, 2, 2, 2, 1, 2):
        assert few(Tensor.ones(size).contiguous()).tolist() == [2.0] * size
    with pytest.raises(JitError, match="2 captures of other shapes are kept already(.|\n)*captures=4"):
        few(Tensor.ones(3).contiguous())


def test_a_python_constant_that_moves_is_never_silently_frozen():
    factor = 1.0

    @TinyJit
    def f(x):
        return (x * factor).realize()

    right = []
    with pytest.raises(JitError):
        for i in range(6):
            factor = float(i + 1)
            right.append(f(Tensor([10.0])).item() == 10.0 * factor)
    assert all(right)


def test_nested_captures_lists_and_duplicate_arguments():
    inner = TinyJit(lambda x: x + 1)
    outer = TinyJit(lambda x: (inner(x) * 3).realize())
    assert counted(outer) == [3, 6, 9, 12, 15, 18]
    twice = TinyJit(lambda a, b: (a + b).realize())
    for i in range(5):
        x = Tensor([float(i)])
        assert twice(x, x).item() == 2 * i


def test_an_output_may_be_other_bits_of_an_argument():
    f = TinyJit(lambda x: ((x + 1).realize(), x.bitcast(dtypes.uint32)))
    for i in range(5):
        _, bits = f(Tensor([i, -1], dtype=dtypes.int32).realize())
        assert bits.tolist() == [i, 2**32 - 1]


def test_symbolic_sizes_replay_for_every_value():
    a = Tensor.rand(3, 10).realize()
    f = TinyJit(lambda x: (x + 1).sum(axis=1).realize())
    for i in range(1, 9):
        n = Variable("n", 1, 10).bind(i)
        np.testing.assert_allclose(f(a[:, :n]).numpy(), (a.numpy()[:, :i] + 1).sum(1), rtol=1e-5)


def test_random_numbers_go_on_in_their_stream():
    f = TinyJit(lambda x: (x + Tensor.rand(3)).realize())
    results = {tuple(f(Tensor([0.0, 0.0, 0.0])).tolist()) for _ in range(8)}
    assert len(results) == 8


def test_a_captured_training_step_equals_the_plain_one():
    def train(wrap):
        Tensor.manual_seed(3)
        layer = nn.Linear(4, 2)
        opt = nn.optim.Adam(nn.state.get_parameters(layer), lr=0.1)

        def step(x, y):
            opt.zero_grad()
            loss = (layer(x) - y).square().mean().backward()
            opt.step()
            return loss

        step = wrap(step)
        generator = np.random.default_rng(0)
        with Context(TRAINING=1):
            return [step(Tensor(generator.normal(size=(8, 4)).astype(np.float32)), Tensor.zeros(8, 2).contiguous()).item() for _ in range(8)]

    np.testing.assert_allclose(train(TinyJit), train(lambda f: f), rtol=1e-4)


def test_a_capture_can_be_pickled():
    weight = Tensor([5.0]).contiguous().realize()
    f = TinyJit(lambda x: {"y": (x * weight).realize()})
    for i in range(4):
        f(Tensor([float(i)]))
    again = pickle.loads(pickle.dumps(f))
    assert again(Tensor([3.0]))["y"].item() == 15.0
    with pytest.raises(JitError):
        again.reset()


def test_jit_0_runs_the_function():
    calls = []
    f = TinyJit(lambda x: calls.append(1) or x + 1)
    with Context(JIT=0):
        assert counted(f) == [1, 2, 3, 4, 5, 6]
    assert len(calls) == 6


class Settings:
    kind = 3

    def __init__(self):
        self.scale, self.name, self.sizes, self.unread = 2.0, "a", [1, 2], 0


class Slots:
    __slots__ = ("factor",)

    def __init__(self):
        self.factor = 2.0


class Guarded:
    """Reads numbers in many places."""

    def __init__(self):
        self.settings, self.slots = Settings(), Slots()
        self.layer, self.drop = nn.Linear(2, 2), nn.Dropout(0.5)
        self.table = {"bias": 1.0}
        self.calls = 0

    @property
    def factor(self):
        return self.slots.factor

    def inner(self, x, *, by=2.0):
        return x * self.settings.scale * self.factor * by + GLOBAL * len(self.settings.name)

    @TinyJit
    def forward(self, x, shift=1.0):
        self.calls += 1
        return (self.drop(self.inner(self.layer(x))) * self.settings.sizes[1] + self.settings.kind + self.table["bias"] + shift).realize()


GLOBAL = 3.0

CHANGES = {
    "self.settings.scale": lambda m: setattr(m.settings, "scale", 3.0),
    "the type alone": lambda m: setattr(m.settings, "scale", 2),
    "a string": lambda m: setattr(m.settings, "name", "bb"),
    "an element of a list": lambda m: m.settings.sizes.__setitem__(1, 5),
    "a longer list": lambda m: m.settings.sizes.append(5),
    "a dict": lambda m: m.table.__setitem__("bias", 2.0),
    "an object": lambda m: setattr(m, "settings", Settings()),
    "an attribute over the class's": lambda m: setattr(m.settings, "kind", 4),
    "a slot": lambda m: setattr(m.slots, "factor", 1.0),
    "a layer's number": lambda m: setattr(m.drop, "p", 0.1),
    "a layer's tensor": lambda m: setattr(m.layer, "weight", Tensor.ones(2, 2)),
    "a default": lambda m: Guarded.inner.__kwdefaults__.__setitem__("by", 1.0),
    "replaced memory": lambda m: m.layer.weight.replace(Tensor.ones(2, 2)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_a_captured_method_reads_is_watched(name):
    model, x = Guarded(), Tensor([[1.0, 2.0]])
    for _ in range(4):
        model.forward(x)
    model.settings.unread = model.unread = 5  # nobody reads these
    model.layer.bias.assign(Tensor([7.0, 8.0])).realize()
    model.forward(x)
    try:
        CHANGES[name](model)
        with pytest.raises(JitError, match="captured"):
            model.forward(x)
    finally:
        Guarded.inner.__kwdefaults__["by"] = 2.0
    model.forward.reset()
    expected = Guarded.forward.fxn(model, x).tolist()
    for _ in range(4):
        assert model.forward(x).tolist() == expected


def test_globals_that_called_functions_read_are_watched():
    global GLOBAL
    before = GLOBAL

    def helper(x):
        return [x * GLOBAL][0]

    f = TinyJit(lambda x: helper(x).realize())
    assert counted(f, 4) == [before * i for i in range(4)]
    try:
        GLOBAL = 4.0
        with pytest.raises(JitError, match="the global GLOBAL is 4.0, captured with 3.0"):
            f(Tensor([1.0]))
    finally:
        GLOBAL = before
    assert f(Tensor([1.0])).item() == 3.0


def test_arrays_in_closures_and_partials_are_watched():
    array = np.ones(3, np.float32)
    f = TinyJit(lambda x: (x + Tensor(array)).realize())
    g = TinyJit(functools.partial(lambda array, x: (x + Tensor(array)).realize(), array))
    for h in (f, g):
        for _ in range(4):
            assert h(Tensor([1.0, 1.0, 1.0])).tolist() == [2.0, 2.0, 2.0]
    array[0] = 5
    for h in (f, g):
        with pytest.raises(JitError, match="captured"):
            h(Tensor([1.0, 1.0, 1.0]))


@pytest.mark.parametrize("size", [3, 40_000])
def test_arrays_and_sets_given_as_arguments_are_watched(size):
    array = np.ones(size, np.float32)
    f = TinyJit(lambda x, given: (x + Tensor(given)).realize())
    for _ in range(4):
        assert f(Tensor.ones(size), array)[-1].item() == 2.0
    array[-1] = 5
    with pytest.raises(JitError, match="argument 0"):
        f(Tensor.ones(size), array)

    chosen = {1, 2}
    g = TinyJit(lambda x, given: (x * sum(given)).realize())
    for _ in range(4):
        assert g(Tensor([1.0]), chosen).item() == 3.0
    chosen.add(10)
    with pytest.raises(JitError, match="argument 0"):
        g(Tensor([1.0]), chosen)


def test_modules_imported_inside_and_other_containers_are_watched(tmp_path, monkeypatch):
    (tmp_path / "own_settings.py").write_text("scale = 2.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    queue, raw = collections.deque([3.0]), bytearray(b"\x04")

    def scaled(x):
        import own_settings

        return (x * own_settings.scale).realize()

    def scaled_too(x):
        from own_settings import scale

        return (x * scale).realize()

    import own_settings

    def change():
        own_settings.scale = 7.0
        queue[0] = 7.0
        raw[0] = 7

    captured = [TinyJit(scaled), TinyJit(scaled_too), TinyJit(lambda x: (x * queue[0]).realize())]
    captured.append(TinyJit(lambda x: (x * raw[0]).realize()))
    for f, expected in zip(captured, (2.0, 2.0, 3.0, 4.0)):
        assert [f(Tensor([1.0])).item() for _ in range(4)] == [expected] * 4
    change()
    for f in captured:
        with pytest.raises(JitError, match="captured"):
            f(Tensor([1.0]))


@pytest.mark.parametrize(
    ("first", "second"),
    [(2, 2.0), (1, True), (0, False), (0.0, -0.0), (2.0, np.float32(2)), (np.float32(2), np.float64(2)), ("a", b"a"), (1, "1")],
)
def test_arguments_of_other_types_are_other_arguments(first, second):
    def make():
        f = TinyJit(lambda x, k: (x * 2).realize() if isinstance(k, (str, bytes)) else (x * k).realize())
        for _ in range(4):
            f(Tensor([1]), first)
        return f

    with pytest.raises(JitError, match="captured with"):
        make()(Tensor([1]), second)
    with pytest.raises(JitError, match="captured with"):
        make()(Tensor([1]), k=first)


def test_equal_arguments_are_the_same_whatever_object_they_are():
    f = TinyJit(lambda x, k, flag: (x * k[0]).realize())
    for _ in range(5):
        assert np.isnan(f(Tensor([1.0]), [float("nan")], np.bool_(True)).item())


def test_a_number_as_a_tensor_is_not_one_with_a_dtype():
    f = TinyJit(lambda x, k: (x * k).realize())
    half = Tensor([1.0, 2.0]).half()
    for i in range(4):
        assert f(half, Tensor(float(i))).dtype == dtypes.half
    with pytest.raises(JitError, match="a strong dtype"):
        f(half, Tensor(2.0, dtype="float32"))


def test_the_mode_and_the_default_dtypes_are_watched():
    f = TinyJit(lambda x: x.dropout(0.5).realize())
    x = Tensor.ones(64).contiguous().realize()
    with Context(TRAINING=1):
        for _ in range(4):
            f(x)
    with pytest.raises(JitError, match="training mode is off, captured with on"):
        f(x)


def test_a_capture_keeps_no_object_alive():
    class Child:
        def __init__(self, parent):
            self.parent, self.scale = parent, 2.0

    class Parent:
        def __init__(self):
            self.child = Child(self)

        @TinyJit
        def forward(self, x):
            return (x * self.child.parent.child.scale).realize()

    model = Parent()
    for _ in range(4):
        assert model.forward(Tensor([1.0])).item() == 2.0
    weak = weakref.ref(model)
    del model
    gc.collect()
    assert weak() is None


def test_a_function_that_does_nothing_is_refused():
    nothing = TinyJit(lambda a: None)
    with pytest.raises(JitError, match="nothing to capture"):
        for _ in range(3):
            nothing(Tensor.ones(3).realize())


def test_a_result_that_depends_on_no_argument_is_captured():
    """Also where an equal expression was computed before, whose memory is another tensor's."""
    w = Tensor([1.0, 2.0]).realize()
    eager = [(Tensor.arange(4) * 2.0).realize(), (w * 3.0).realize(), (Tensor.full((3,), 2.0).contiguous() + 1).realize()]
    f = TinyJit(lambda x: (x + 1, Tensor.arange(4) * 2.0, w * 3.0, Tensor.full((3,), 2.0).contiguous() + 1, w))
    for i in range(5):
        if i == 3:
            for t in eager:
                t.assign(t + 100).realize()
        got = [t.tolist() for t in f(Tensor([float(i)]))]
        assert got == [[i + 1.0], [0.0, 2.0, 4.0, 6.0], [3.0, 6.0], [3.0, 3.0, 3.0], [1.0, 2.0]], i
    assert f.captured


def test_a_value_computed_before_is_no_state_of_a_capture():
    """A later write to the tensor that holds it changes nothing for who wrote the expression again."""
    eager = (Tensor.arange(4) * 2.5).realize()
    f = TinyJit(lambda x: x + Tensor.arange(4) * 2.5)
    for i in range(5):
        if i == 3:
            eager.assign(eager + 100).realize()
        assert f(Tensor([float(i)])).tolist() == [i, i + 2.5, i + 5.0, i + 7.5], i


def test_a_captured_backward_does_not_depend_on_tensors_that_take_no_part():
    w = Tensor([1.0, 2.0], requires_grad=True)
    w.realize()
    other = Tensor(3.0)  # alive while the step is captured, and gone later

    @TinyJit
    def step(x):
        w.grad = None
        (w * x).sum().backward()
        return w.grad.realize()

    for i in range(2):
        assert step(Tensor([float(i), 1.0]).realize()).tolist() == [float(i), 1.0]
    del other
    for i in range(2, 5):
        assert step(Tensor([float(i), 1.0]).realize()).tolist() == [float(i), 1.0]


def test_a_capture_that_nobody_has_any_more_is_freed():
    seen = []

    def once():
        given, scale = Tensor([1.0, 2.0]), Tensor([3.0, 4.0]).realize()
        f = TinyJit(lambda x: (x * scale).realize())
        seen.extend(weakref.ref(what) for what in (f, given, scale))
        for _ in range(3):
            f(given)

    once()
    gc.collect()
    assert [ref() for ref in seen] == [None] * 3
