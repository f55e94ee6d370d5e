"""What the programs start from, the same for both libraries: numbers and weights of a seeded generator."""

import numpy as np

_generator = np.random.default_rng(0)


def restart(seed=0):
    global _generator
    _generator = np.random.default_rng(seed)


def noise(*shape):
    """Normal numbers."""
    return _generator.normal(size=tuple(int(n) for n in shape)).astype(np.float32)


def integers(low, high, shape):
    """Whole numbers."""
    return _generator.integers(low, high, shape)


def fill(net, scale=0.3):
    """Gives all parameters of a net values of the generator: norms stay near one."""
    for parameter in net.parameters():
        values = _generator.normal(size=tuple(parameter.shape)) * scale
        if parameter.ndim == 1 and np.all(parameter.detach().numpy() == 1):
            values = 1 + values * 0.1
        parameter.data.copy_(parameter.new_tensor(values.astype(np.float32)))
