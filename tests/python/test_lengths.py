"""Sizes of one kernel share machine code from the third on (LATHE_LENGTHS): the bits of every result are those without."""

import threading

import numpy as np
import pytest

from lathe import Context, Tensor, TinyJit, _core, dtypes

SIZES = [3, 4, 5, 1, 0, 6, 7, 8, 9, 15, 16, 17, 31, 32, 33, 61, 63, 64, 65, 97, 127, 128, 129, 200, 2, 255, 256, 257, 300]
WIDTH = 64  # which is one of the sizes too


@pytest.fixture(autouse=True)
def without_disk():
    """What an earlier process left on disk is neither compiled nor shared."""
    with Context(CACHE="off"):
        yield


def numbers(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape).astype(dtype)


def weights(*shape):
    return Tensor(numbers(*shape, seed=7))


def chain(n):
    x = Tensor(numbers(n, 5))
    return (x * 3 + 1).exp().log1p() - x.sin()


def flat(n):
    return Tensor(numbers(n)).tanh() * n


def product(n):
    return Tensor(numbers(n, WIDTH)) @ weights(WIDTH, 24)


def product_inside(n):
    return Tensor(numbers(7, n)) @ Tensor(numbers(n, 9, seed=1))


def square(n):
    x = Tensor(numbers(n, n))
    return x @ x.T


def softmax(n):
    return Tensor(numbers(6, n)).softmax(-1) if n else Tensor(numbers(6, 0))


def layer_norm(n):
    return Tensor(numbers(n, WIDTH)).layernorm() + Tensor(numbers(3, n + 2)).var(-1).sum()


def attention(n):
    q, k, v = (Tensor(numbers(2, n, 16, seed=s)) for s in range(3))
    return ((q @ k.transpose(-1, -2)) * 0.25 + Tensor.full((n, n), -9.0).triu(1)).softmax(-1) @ v


def decode(n):
    k, v = (Tensor(numbers(n, WIDTH, seed=s)).cat(weights(1, WIDTH)) for s in range(2))
    q = weights(4, 1, 16)
    split = [x.reshape(-1, 4, 16).transpose(0, 1) for x in (k, v)]
    return (q @ split[0].transpose(-1, -2)).softmax(-1) @ split[1]


def means(n):
    x = Tensor(numbers(n + 1, 8))
    return x.mean(0) + x.mean() + x.cast(dtypes.float16).mean(0).float() + x.cast(dtypes.float64).mean(0).float()


def maxima(n):
    x = Tensor(numbers(n + 1, 8))
    return x.max(0) + x.min(0) + x.argmax(0)


def movement(n):
    x = Tensor(numbers(n, 6))
    return x.flip(0).pad(((1, 2), (0, 1))).T.reshape(-1)[::3] * 2


def strided(n):
    return Tensor(numbers(2 * n + 1, 3))[::2].cat(Tensor(numbers(n, 3)), Tensor.ones(2, 3)).sum(1)


def counted(n):
    i = Tensor.arange(n * 6)
    return i // max(n, 1) + i % max(n, 1) * 3


def scanned(n):
    return Tensor(numbers(n + 1, 4)).cumsum(0)


def ordered(n):
    return Tensor(numbers(n + 1)).sort()[0]


def gathered(n):
    table = Tensor(numbers(n + 3, 8))
    return table[Tensor((np.arange(n) * 7) % (n + 3))].sum(-1)


def scattered(n):
    index = Tensor(((np.arange(n) * 5) % (n + 2)).astype(np.int64))
    return Tensor.zeros(n + 2).scatter_reduce(0, index, Tensor(numbers(n)), "sum")


def written(n):
    x = Tensor(numbers(n + 4, 8)).contiguous().realize()
    x[n : n + 2] = Tensor(numbers(2, 8))
    x[:n] += 1
    return x.realize() * 2


def convolution(n):
    return Tensor(numbers(1, 3, n + 4, 9)).conv2d(weights(4, 3, 3, 3), padding=1).relu()


def gradients(n):
    x, w = Tensor(numbers(n, 12), requires_grad=True), Tensor(numbers(12, 5), requires_grad=True)
    loss = (x @ w).softmax(-1).square().sum()
    loss.backward()
    return x.grad.flatten().cat(w.grad.flatten())


def two_sizes(n):
    return Tensor(numbers(n, 2 * n + 3)) @ Tensor(numbers(2 * n + 3, (n * n) % 11 + 1))


def bytes_and_masks(n):
    x = Tensor((np.arange(n * 3) % 251).astype(np.uint8)).reshape(n, 3)
    return (x > 17).where(x.cast(dtypes.int32) * n, x.cast(dtypes.int32) - n)


PROGRAMS = [chain, flat, product, product_inside, square, softmax, layer_norm, attention, decode, means, maxima, movement, strided]
PROGRAMS += [counted, scanned, ordered, gathered, scattered, written, convolution, gradients, two_sizes, bytes_and_masks]


def bits(program, sizes):
    return [program(n).numpy().tobytes() for n in sizes]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_results_have_the_bits_that_they_have_without(program):
    with Context(LENGTHS=0):
        expected = bits(program, SIZES)
    for n, one, other in zip(SIZES, expected, bits(program, SIZES)):
        assert one == other, f"{program.__name__} differs at size {n}"


def compiles():
    return _core.counters()["compiles"]


def step(n):
    x = Tensor(numbers(n, 40)) * 2 + 1
    return ((x @ weights(40, 24)).gelu() + 3).sum(-1).numpy()


def test_a_loop_over_many_lengths_soon_compiles_nothing_more():
    with Context(NOOPT=1):
        for n in range(41, 49):
            step(n)
        before = compiles()
        for n in range(49, 249):
            step(n)
        assert compiles() == before


def test_options_that_differ_by_size_keep_few_lengths_from_sharing():
    """The options are those of a size, so some sizes have programs of their own."""
    for n in range(41, 101):
        step(n)
    before = compiles()
    for n in range(101, 241):
        step(n)
    assert (compiles() - before) * 4 < 3 * 140


def test_a_growing_cache_of_keys_compiles_a_fraction_of_its_lengths():
    def lengths(begin, end):
        before = compiles()
        k, v = (Tensor(numbers(begin, WIDTH, seed=s)).realize() for s in range(2))
        q = weights(4, 1, 16).realize()
        for _ in range(begin, end):
            k, v = k.cat(weights(1, WIDTH)).realize(), v.cat(weights(1, WIDTH)).realize()
            split = [x.reshape(-1, 4, 16).transpose(0, 1) for x in (k, v)]
            ((q @ split[0].transpose(-1, -2)).softmax(-1) @ split[1]).numpy()
        return compiles() - before

    with Context(LENGTHS=0):
        without = lengths(20, 60)
    assert lengths(20, 60) * 2 < without


def test_fixed_sizes_share_nothing():
    """Two sizes, such as the last batch of an epoch, are compiled by themselves; so is a size that is captured."""

    def shifted(n):
        return (Tensor(numbers(n, 23)) - 5).cos().numpy()

    before = compiles()
    shifted(400), shifted(401)
    assert compiles() - before == 2
    for n in range(402, 410):
        shifted(n)
    before = compiles()
    captured = TinyJit(lambda x: (x - 5).cos().realize())
    x = Tensor(numbers(409, 23)).realize()
    for _ in range(3):
        result = captured(x).numpy()
    assert result.tobytes() == shifted(409).tobytes()
    assert compiles() - before == 1


def test_a_size_that_is_used_often_gets_code_of_its_own():
    def scaled(n):
        return (Tensor(numbers(n, 29)) * 0.5).sin().numpy()

    first = [scaled(n).tobytes() for n in range(420, 432)]
    before = compiles()
    for _ in range(30):
        assert scaled(431).tobytes() == first[-1]
    assert compiles() - before == 1


def test_threads_share_code():
    wrong = []

    def work(seed):
        for n in range(440 + seed, 480, 3):
            x = numbers(n, 17, seed=seed)
            got = (Tensor(x) * 4 - 1).numpy()
            if not np.array_equal(got, x * 4 - 1):
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
