"""`torch.special`'s names of functions."""

from lathe import functions as _functions

_SAME = "digamma erf erfc erfinv exp2 expm1 gammaln i0 log1p log_softmax logit logsumexp multigammaln polygamma psi round sinc softmax xlogy expit".split()
_OTHER = {"gammaln": "lgamma", "multigammaln": "mvlgamma", "psi": "digamma", "expit": "sigmoid"}


def __getattr__(name):
    if name not in _SAME:
        raise AttributeError(f"module 'lathe.special' has no attribute {name!r}")
    return _functions.find(_OTHER.get(name, name))
