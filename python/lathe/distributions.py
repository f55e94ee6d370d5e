"""Probability distributions under PyTorch's names: samples, densities, entropies, divergences."""

import math

from lathe._core import Tensor
from lathe.errors import NotSupported, UserError


def _tensor(value):
    return value if isinstance(value, Tensor) else Tensor(float(value))


def _together(*values):
    """Tensors of one shape."""
    tensors = [_tensor(v) for v in values]
    shape = tensors[0]
    for t in tensors[1:]:
        shape = shape + t
    return [t.expand(*shape.shape) if tuple(t.shape) != tuple(shape.shape) else t for t in tensors]


def _size(sample_shape):
    return (sample_shape,) if isinstance(sample_shape, int) else tuple(sample_shape)


class Distribution:
    """What all have: `sample` (no gradient), `rsample` (with one), `log_prob`, `entropy`, `mean`, `variance`."""

    batch_shape, event_shape, has_rsample = (), (), False

    def sample(self, sample_shape=()):
        """Random numbers of the distribution, without a gradient."""
        return self._draw(_size(sample_shape)).detach()

    def sample_n(self, n):
        """n samples."""
        return self.sample((n,))

    def rsample(self, sample_shape=()):
        """Random numbers with gradients to the parameters."""
        if not self.has_rsample:
            raise NotSupported(f"lathe: {type(self).__name__}: rsample has no gradient for integers\n  help: sample() and log_prob()")
        return self._draw(_size(sample_shape))

    @property
    def stddev(self):
        """The root of the variance."""
        return self.variance.sqrt()


class Normal(Distribution):
    """The normal distribution.

    >>> round(lathe.distributions.Normal(0.0, 1.0).log_prob(Tensor(0.0)).item(), 4)
    -0.9189
    """

    has_rsample = True

    def __init__(self, loc, scale, validate_args=None):
        self.loc, self.scale = _together(loc, scale)
        self.batch_shape = tuple(self.loc.shape)

    mean = property(lambda self: self.loc)
    mode = property(lambda self: self.loc)
    stddev = property(lambda self: self.scale)
    variance = property(lambda self: self.scale.square())

    def _draw(self, size):
        return self.loc + self.scale * Tensor.randn(*size, *self.batch_shape, device=self.loc.device)

    def log_prob(self, value):
        """The logarithm of the density."""
        return -((value - self.loc).square() / (2 * self.scale.square())) - self.scale.log() - 0.5 * math.log(2 * math.pi)

    def cdf(self, value):
        """The share below a value."""
        return 0.5 * (1 + ((value - self.loc) / (self.scale * math.sqrt(2))).erf())

    def entropy(self):
        """The entropy."""
        return 0.5 + 0.5 * math.log(2 * math.pi) + self.scale.log()


class LogNormal(Normal):
    """exp of a normal distribution.

    >>> lathe.distributions.LogNormal(0.0, 1.0).sample((3,)).shape
    (3,)
    """

    mean = property(lambda self: (self.loc + self.scale.square() / 2).exp())
    mode = property(lambda self: (self.loc - self.scale.square()).exp())
    variance = property(lambda self: (self.scale.square().exp() - 1) * (2 * self.loc + self.scale.square()).exp())
    stddev = Distribution.stddev

    def _draw(self, size):
        return super()._draw(size).exp()

    def log_prob(self, value):
        """The logarithm of the density."""
        return super().log_prob(value.log()) - value.log()

    def cdf(self, value):
        """The share below a value."""
        return super().cdf(value.log())

    def entropy(self):
        """The entropy."""
        return super().entropy() + self.loc


class Uniform(Distribution):
    """Equal density from low to high.

    >>> lathe.distributions.Uniform(0.0, 2.0).log_prob(Tensor([1.0, 3.0])).exp().tolist()
    [0.5, 0.0]
    """

    has_rsample = True

    def __init__(self, low, high, validate_args=None):
        self.low, self.high = _together(low, high)
        self.batch_shape = tuple(self.low.shape)

    mean = property(lambda self: (self.low + self.high) / 2)
    variance = property(lambda self: (self.high - self.low).square() / 12)

    def _draw(self, size):
        return self.low + (self.high - self.low) * Tensor.rand(*size, *self.batch_shape, device=self.low.device)

    def log_prob(self, value):
        """The logarithm of the density."""
        inside = (value >= self.low).logical_and(value < self.high)
        return inside.where((self.high - self.low).log().neg(), -math.inf)

    def entropy(self):
        """The entropy."""
        return (self.high - self.low).log()


class Exponential(Distribution):
    """Waiting times of a rate.

    >>> lathe.distributions.Exponential(2.0).mean.item()
    0.5
    """

    has_rsample = True

    def __init__(self, rate, validate_args=None):
        self.rate = _tensor(rate)
        self.batch_shape = tuple(self.rate.shape)

    mean = property(lambda self: self.rate.reciprocal())
    variance = property(lambda self: self.rate.square().reciprocal())

    def _draw(self, size):
        return -(1 - Tensor.rand(*size, *self.batch_shape, device=self.rate.device)).log() / self.rate

    def log_prob(self, value):
        """The logarithm of the density."""
        return self.rate.log() - self.rate * value

    def entropy(self):
        """The entropy."""
        return 1 - self.rate.log()


class Laplace(Distribution):
    """Two exponential tails.

    >>> round(lathe.distributions.Laplace(0.0, 1.0).log_prob(Tensor(1.0)).item(), 4)
    -1.6931
    """

    has_rsample = True

    def __init__(self, loc, scale, validate_args=None):
        self.loc, self.scale = _together(loc, scale)
        self.batch_shape = tuple(self.loc.shape)

    mean = property(lambda self: self.loc)
    variance = property(lambda self: 2 * self.scale.square())

    def _draw(self, size):
        u = Tensor.rand(*size, *self.batch_shape, device=self.loc.device) - 0.5
        return self.loc - self.scale * u.sign() * (1 - 2 * u.abs()).log()

    def log_prob(self, value):
        """The logarithm of the density."""
        return -(2 * self.scale).log() - (value - self.loc).abs() / self.scale

    def entropy(self):
        """The entropy."""
        return 1 + (2 * self.scale).log()


def _one_of(name, probs, logits):
    if (probs is None) == (logits is None):
        raise UserError(f"lathe: {name}: either probs or logits, not both and not none")


class Bernoulli(Distribution):
    """0 or 1.

    >>> lathe.distributions.Bernoulli(probs=Tensor([1.0, 0.0])).sample().tolist()
    [1.0, 0.0]
    """

    def __init__(self, probs=None, logits=None, validate_args=None):
        _one_of("Bernoulli", probs, logits)
        self.probs = _tensor(probs) if probs is not None else _tensor(logits).sigmoid()
        self.logits = _tensor(logits) if logits is not None else self.probs.log() - (1 - self.probs).log()
        self.batch_shape = tuple(self.probs.shape)

    mean = property(lambda self: self.probs)
    variance = property(lambda self: self.probs * (1 - self.probs))

    def _draw(self, size):
        return (Tensor.rand(*size, *self.batch_shape, device=self.probs.device) < self.probs).cast(self.probs.dtype)

    def log_prob(self, value):
        """The logarithm of the probability."""
        return value * self.logits.logsigmoid() + (1 - value) * (-self.logits).logsigmoid()

    def entropy(self):
        """The entropy."""
        return -(self.probs * self.logits.logsigmoid() + (1 - self.probs) * (-self.logits).logsigmoid())


class Categorical(Distribution):
    """One of several classes, along the last axis.

    >>> lathe.distributions.Categorical(Tensor([0.0, 1.0])).sample().item()
    1
    """

    def __init__(self, probs=None, logits=None, validate_args=None):
        _one_of("Categorical", probs, logits)
        if probs is not None:
            self.probs = probs / probs.sum(-1, keepdim=True)
            tiny = 2.0**-23  # as far from 0 and 1 as PyTorch keeps them
            self.logits = self.probs.clamp(tiny, 1 - tiny).log()
        else:
            self.logits = logits - logits.logsumexp(-1, keepdim=True)
            self.probs = self.logits.softmax(-1)
        self.batch_shape = tuple(self.probs.shape[:-1])

    mean = property(lambda self: self.probs[..., 0] * math.nan)
    variance = property(lambda self: self.probs[..., 0] * math.nan)

    def _draw(self, size):
        flat = self.probs.detach().reshape(-1, self.probs.shape[-1])
        drawn = flat.multinomial(math.prod(size) or 1, replacement=True)
        return drawn.transpose(0, 1).reshape(*size, *self.batch_shape)

    def log_prob(self, value):
        """The logarithm of the probability of a class."""
        value = value.long() if isinstance(value, Tensor) else Tensor(value).long()
        logits, index = self.logits, value.unsqueeze(-1)
        if tuple(value.shape) != self.batch_shape:
            shape = (*(value + self.probs[..., 0].detach() * 0).shape,)
            logits, index = logits.expand(*shape, logits.shape[-1]), value.expand(*shape).unsqueeze(-1)
        return logits.gather(-1, index).squeeze(-1)

    def entropy(self):
        """The entropy."""
        return -(self.logits.clamp(min_=-3.4028234663852886e38) * self.probs).sum(-1)


class MultivariateNormal(Distribution):
    """Normal in several dimensions, by its covariance or that one's lower triangular root.

    >>> round(lathe.distributions.MultivariateNormal(Tensor.zeros(2), Tensor.eye(2)).log_prob(Tensor.zeros(2)).item(), 4)
    -1.8379
    """

    has_rsample = True

    def __init__(self, loc, covariance_matrix=None, precision_matrix=None, scale_tril=None, validate_args=None):
        if scale_tril is None:
            matrix = covariance_matrix if covariance_matrix is not None else precision_matrix.inverse()
            scale_tril = matrix.cholesky()
        self.loc, self.scale_tril = loc, scale_tril
        self.batch_shape, self.event_shape = tuple(loc.shape[:-1]), tuple(loc.shape[-1:])

    mean = property(lambda self: self.loc)
    covariance_matrix = property(lambda self: self.scale_tril @ self.scale_tril.transpose(-1, -2))
    variance = property(lambda self: self.scale_tril.square().sum(-1))

    def _draw(self, size):
        noise = Tensor.randn(*size, *self.loc.shape, device=self.loc.device)
        return self.loc + (self.scale_tril @ noise.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, value):
        """The logarithm of the density."""
        off = (self.scale_tril.inverse() @ (value - self.loc).unsqueeze(-1)).squeeze(-1)
        size = self.event_shape[0]
        diagonal = self.scale_tril.diagonal(0, -2, -1).log().sum(-1)
        return -0.5 * (size * math.log(2 * math.pi) + off.square().sum(-1)) - diagonal

    def entropy(self):
        """The entropy."""
        return 0.5 * self.event_shape[0] * (1 + math.log(2 * math.pi)) + self.scale_tril.diagonal(0, -2, -1).log().sum(-1)


class Independent(Distribution):
    """The last axes of a distribution as one event.

    >>> base = lathe.distributions.Normal(Tensor.zeros(2, 3), Tensor.ones(2, 3))
    >>> lathe.distributions.Independent(base, 1).log_prob(Tensor.zeros(2, 3)).shape
    (2,)
    """

    def __init__(self, base_distribution, reinterpreted_batch_ndims, validate_args=None):
        self.base_dist, self.count = base_distribution, reinterpreted_batch_ndims
        shape = base_distribution.batch_shape
        self.has_rsample = base_distribution.has_rsample
        self.batch_shape, self.event_shape = shape[: len(shape) - self.count], shape[len(shape) - self.count :]

    mean = property(lambda self: self.base_dist.mean)
    variance = property(lambda self: self.base_dist.variance)

    def _draw(self, size):
        return self.base_dist._draw(size)

    def _summed(self, x):
        return x.sum(tuple(range(-self.count, 0))) if self.count else x

    def log_prob(self, value):
        """The logarithm of the density."""
        return self._summed(self.base_dist.log_prob(value))

    def entropy(self):
        """The entropy."""
        return self._summed(self.base_dist.entropy())


def _kl_normal(p, q):
    ratio = (p.scale / q.scale).square()
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).square() - 1 - ratio.log())


def _kl_multivariate(p, q):
    size = p.event_shape[0]
    root = q.scale_tril.inverse()
    spread = (root @ p.scale_tril).square().sum((-2, -1))
    off = (root @ (q.loc - p.loc).unsqueeze(-1)).square().sum((-2, -1))
    logs = q.scale_tril.diagonal(0, -2, -1).log().sum(-1) - p.scale_tril.diagonal(0, -2, -1).log().sum(-1)
    return 0.5 * (spread + off - size) + logs


_DIVERGENCES = {
    (Normal, Normal): _kl_normal,
    (LogNormal, LogNormal): _kl_normal,
    (Categorical, Categorical): lambda p, q: (p.probs * (p.logits - q.logits)).sum(-1),
    (Bernoulli, Bernoulli): lambda p, q: p.probs * (p.logits.logsigmoid() - q.logits.logsigmoid())
    + (1 - p.probs) * ((-p.logits).logsigmoid() - (-q.logits).logsigmoid()),
    (Exponential, Exponential): lambda p, q: (p.rate / q.rate).log() + q.rate / p.rate - 1,
    (Independent, Independent): lambda p, q: p._summed(kl_divergence(p.base_dist, q.base_dist)),
    (MultivariateNormal, MultivariateNormal): _kl_multivariate,
}


def kl_divergence(p, q):
    """How far q is from p.

    >>> N = lathe.distributions.Normal
    >>> lathe.distributions.kl_divergence(N(1.0, 1.0), N(0.0, 1.0)).item()
    0.5
    """
    formula = _DIVERGENCES.get((type(p), type(q)))
    if formula is None:
        raise NotSupported(f"lathe: kl_divergence: there is no formula for {type(p).__name__} and {type(q).__name__}")
    return formula(p, q)


class kl:
    """`torch.distributions.kl`'s name of the function."""

    kl_divergence = staticmethod(kl_divergence)


__all__ = ["Bernoulli", "Categorical", "Distribution", "Exponential", "Independent", "Laplace", "LogNormal", "MultivariateNormal", "Normal",
           "Uniform", "kl", "kl_divergence"]  # fmt: skip
