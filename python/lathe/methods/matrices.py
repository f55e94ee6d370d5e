"""Products of vectors and matrices; what solves equations is in lathe.linalg."""

import collections
import math

from lathe._core import Tensor
from lathe.errors import UserError

Triangular = collections.namedtuple("Triangular", "solution cloned_coefficient")


def _axes(name, tensor, count):
    if tensor.ndim != count:
        raise UserError(f"lathe: {name}: needs {count} axes, not shape {tuple(tensor.shape)}\n  help: matmul takes any number of axes")


def mm(self, mat2):
    """The product of two matrices.

    >>> Tensor([[1, 2]]).mm(Tensor([[3], [4]])).tolist()
    [[11]]
    """
    _axes("mm", self, 2), _axes("mm", mat2, 2)
    return self.matmul(mat2)


def bmm(self, mat2):
    """The products of the matrices of two batches.

    >>> Tensor.ones(2, 1, 3).bmm(Tensor.ones(2, 3, 1)).tolist()
    [[[3.0]], [[3.0]]]
    """
    _axes("bmm", self, 3), _axes("bmm", mat2, 3)
    if self.shape[0] != mat2.shape[0]:
        raise UserError(f"lathe: bmm: the batches have {self.shape[0]} and {mat2.shape[0]} matrices")
    return self.matmul(mat2)


def mv(self, vec):
    """The product of a matrix and a vector.

    >>> Tensor([[1, 2]]).mv(Tensor([3, 4])).tolist()
    [11]
    """
    _axes("mv", self, 2), _axes("mv", vec, 1)
    return self.matmul(vec)


def outer(self, vec2):
    """All products of the elements of two vectors.

    >>> Tensor([1, 2]).outer(Tensor([3, 4])).tolist()
    [[3, 4], [6, 8]]
    """
    _axes("outer", self, 1), _axes("outer", vec2, 1)
    return self.unsqueeze(1) * vec2.unsqueeze(0)


def inner(self, other):
    """Sums of products over the last axes.

    >>> Tensor([1, 2]).inner(Tensor([3, 4])).item()
    11
    """
    if not self.ndim or not other.ndim:
        return self * other
    return tensordot(self, other, ([-1], [-1]))


def vdot(self, other):
    """The sum of products of two vectors.

    >>> Tensor([1, 2]).vdot(Tensor([3, 4])).item()
    11
    """
    _axes("vdot", self, 1), _axes("vdot", other, 1)
    return self.dot(other)


def _plus(self, product, beta, alpha):
    product = product if alpha == 1 else product * alpha
    return product.expand(*_joined(self, product)) if beta == 0 else (self if beta == 1 else self * beta) + product


def _joined(a, b):
    """The shape of both after broadcasting."""
    size = max(a.ndim, b.ndim)
    pairs = zip((1,) * (size - a.ndim) + tuple(a.shape), (1,) * (size - b.ndim) + tuple(b.shape))
    return tuple(y if x == 1 else x for x, y in pairs)


def addmm(self, mat1, mat2, *, beta=1, alpha=1):
    """beta self + alpha (mat1 mat2); with beta 0 self is not read.

    >>> Tensor([[1.0]]).addmm(Tensor([[2.0]]), Tensor([[3.0]])).tolist()
    [[7.0]]
    """
    return _plus(self, mm(mat1, mat2), beta, alpha)


def addmv(self, mat, vec, *, beta=1, alpha=1):
    """beta self + alpha (mat vec).

    >>> Tensor([1.0]).addmv(Tensor([[2.0]]), Tensor([3.0])).tolist()
    [7.0]
    """
    return _plus(self, mv(mat, vec), beta, alpha)


def addr(self, vec1, vec2, *, beta=1, alpha=1):
    """beta self + alpha outer(vec1, vec2).

    >>> Tensor([[1.0]]).addr(Tensor([2.0]), Tensor([3.0])).tolist()
    [[7.0]]
    """
    return _plus(self, outer(vec1, vec2), beta, alpha)


def baddbmm(self, batch1, batch2, *, beta=1, alpha=1):
    """beta self + alpha (batch1 batch2).

    >>> Tensor([[[1.0]]]).baddbmm(Tensor([[[2.0]]]), Tensor([[[3.0]]])).tolist()
    [[[7.0]]]
    """
    return _plus(self, bmm(batch1, batch2), beta, alpha)


def addbmm(self, batch1, batch2, *, beta=1, alpha=1):
    """beta self + alpha times the sum of the products of a batch.

    >>> Tensor([[1.0]]).addbmm(Tensor.ones(2, 1, 1), Tensor.ones(2, 1, 1)).tolist()
    [[3.0]]
    """
    return _plus(self, bmm(batch1, batch2).sum(0), beta, alpha)


def tensordot(self, other, dims=2):
    """Sums of products over several axes: a number of them, or two lists.

    >>> Tensor.ones(2, 3).tensordot(Tensor.ones(3, 2), 1).shape
    (2, 2)
    """
    if isinstance(dims, int):
        first, second = list(range(self.ndim - dims, self.ndim)), list(range(dims))
    else:
        first, second = ([d] if isinstance(d, int) else list(d) for d in dims)
    first, second = [d % self.ndim for d in first], [d % other.ndim for d in second]
    if [self.shape[d] for d in first] != [other.shape[d] for d in second]:
        raise UserError(f"lathe: tensordot: axes {first} of {tuple(self.shape)} do not fit axes {second} of {tuple(other.shape)}")
    rest = [i for i in range(self.ndim) if i not in first]
    others = [i for i in range(other.ndim) if i not in second]
    inner_size = math.prod(self.shape[d] for d in first)
    a = self.permute(*rest, *first).reshape(math.prod(self.shape[d] for d in rest), inner_size)
    b = other.permute(*second, *others).reshape(inner_size, math.prod(other.shape[d] for d in others))
    return a.matmul(b).reshape(*[self.shape[d] for d in rest], *[other.shape[d] for d in others])


def kron(self, other):
    """The Kronecker product.

    >>> Tensor([1, 2]).kron(Tensor([1, 10])).tolist()
    [1, 10, 2, 20]
    """
    size = max(self.ndim, other.ndim)
    a = self.reshape(*(1,) * (size - self.ndim), *self.shape)
    b = other.reshape(*(1,) * (size - other.ndim), *other.shape)
    left = a.reshape(*[n for s in a.shape for n in (s, 1)])
    right = b.reshape(*[n for s in b.shape for n in (1, s)])
    return (left * right).reshape(*[x * y for x, y in zip(a.shape, b.shape)])


def cdist(self, other, p=2.0, compute_mode=None):
    """The distances of all pairs of rows; compute_mode is PyTorch's and changes nothing.

    >>> Tensor([[0.0, 0.0]]).cdist(Tensor([[3.0, 4.0], [0.0, 1.0]])).tolist()
    [[5.0, 1.0]]
    """
    return (self.unsqueeze(-2) - other.unsqueeze(-3)).norm(p, -1)


def cosine_similarity(self, other, dim=1, eps=1e-8):
    """The cosine of the angle between vectors along an axis.

    >>> Tensor([[1.0, 0.0]]).cosine_similarity(Tensor([[0.0, 1.0]])).tolist()
    [0.0]
    """
    from lathe.nn.functional import cosine_similarity

    return cosine_similarity(self, other, dim, eps)


def cross(self, other, dim=None):
    """The cross product of vectors with 3 elements.

    >>> Tensor([1, 0, 0]).cross(Tensor([0, 1, 0])).tolist()
    [0, 0, 1]
    """
    from lathe import linalg

    if dim is None:
        dim = next((i for i, n in enumerate(self.shape) if n == 3), -1)
    return linalg.cross(self, other, dim)


def _linalg(name, own=None):
    """A method that is a function of lathe.linalg."""

    def method(self, *args, **kwargs):
        from lathe import linalg

        return getattr(linalg, own or name)(self, *args, **kwargs)

    method.__name__ = name
    return method


_EXAMPLES = {
    "inverse": ("inv", "The inverse of a square matrix.", "Tensor([[2.0]]).inverse().tolist()", "[[0.5]]"),
    "det": ("det", "The determinant.", "round(Tensor([[1.0, 2.0], [3.0, 4.0]]).det().item(), 4)", "-2.0"),
    "slogdet": ("slogdet", "The sign of the determinant and the logarithm of its size.", "Tensor([[1.0]]).slogdet()[1].item()", "0.0"),
    "cholesky": ("cholesky", "The lower triangle whose product with its transpose this is.", "Tensor([[4.0]]).cholesky().tolist()", "[[2.0]]"),
    "matrix_power": ("matrix_power", "Multiplied by itself.", "Tensor([[2.0]]).matrix_power(3).tolist()", "[[8.0]]"),
    "matrix_exp": ("matrix_exp", "The exponential series of a matrix.", "Tensor([[0.0]]).matrix_exp().tolist()", "[[1.0]]"),
    "pinverse": ("pinv", "The pseudo-inverse.", "round(Tensor([[2.0]]).pinverse().item(), 4)", "0.5"),
    "eigh": ("eigh", "Eigenvalues and eigenvectors of a symmetric matrix.", "Tensor([[2.0]]).eigh()[0].tolist()", "[2.0]"),
    "solve": ("solve", "X with this matrix times X equal to the argument.", "Tensor([[2.0]]).solve(Tensor([[4.0]])).tolist()", "[[2.0]]"),
    "lstsq": ("lstsq", "X for which this matrix times X is nearest to the argument.", "round(Tensor([[2.0]]).lstsq(Tensor([[4.0]])).solution.item(), 3)", "2.0"),
}
for _name, (_own, _text, _call, _result) in _EXAMPLES.items():
    globals()[_name] = _linalg(_name, _own)
    globals()[_name].__doc__ = f"{_text}\n\n    >>> {_call}\n    {_result}\n    "


def logdet(self):
    """The logarithm of the determinant, NaN if that is negative.

    >>> Tensor([[1.0]]).logdet().item()
    0.0
    """
    from lathe import linalg

    sign, log = linalg.slogdet(self)
    return (sign < 0).where(math.nan, log)


def cholesky_inverse(self, upper=False):
    """The inverse of the matrix whose Cholesky factor this is.

    >>> Tensor([[2.0]]).cholesky_inverse().tolist()
    [[0.25]]
    """
    from lathe import linalg

    factor = self.transpose(-2, -1) if upper else self
    return linalg.inv(factor.matmul(factor.transpose(-2, -1)))


def cholesky_solve(self, L, upper=False):
    """X with A X = this, where L is the Cholesky factor of A.

    >>> Tensor([[4.0]]).cholesky_solve(Tensor([[2.0]])).tolist()
    [[1.0]]
    """
    from lathe import linalg

    factor = L.transpose(-2, -1) if upper else L
    half = linalg.solve_triangular(factor, self, upper=False)
    return linalg.solve_triangular(factor.transpose(-2, -1), half, upper=True)


def triangular_solve(self, A, upper=True, transpose=False, unitriangular=False):
    """X with A X = this, where A is triangular, and A.

    >>> Tensor([[4.0]]).triangular_solve(Tensor([[2.0]]))[0].tolist()
    [[2.0]]
    """
    from lathe import linalg

    used = A.transpose(-2, -1) if transpose else A
    return Triangular(linalg.solve_triangular(used, self, upper=upper != transpose, unitriangular=unitriangular), A)


ger = outer
mT = property(lambda self: self.transpose(-2, -1), doc="The last two axes swapped.\n\n    >>> Tensor.ones(2, 3).mT.shape\n    (3, 2)\n    ")
mH = H = property(lambda self: self.transpose(-2, -1), doc="The last two axes swapped: the numbers are real.\n\n    >>> Tensor.ones(2, 3).mH.shape\n    (3, 2)\n    ")


def adjoint(self):
    """The last two axes swapped.

    >>> Tensor.ones(2, 3).adjoint().shape
    (3, 2)
    """
    return self.transpose(-2, -1)
