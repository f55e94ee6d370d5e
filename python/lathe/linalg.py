"""Linear algebra on the last two axes, batches before them, under the names of torch.linalg. Eliminations are loops of one
step each: a step is the same kernel for every column, because the column's number is data. Gradients are formulas."""

import collections
import math

from lathe import _core
from lathe._core import Tensor
from lathe.errors import UserError
from lathe.jit import capturing


# Results under PyTorch's names: tuples whose parts can be asked for by name.
Spectrum = collections.namedtuple("Spectrum", "eigenvalues eigenvectors")
QR = collections.namedtuple("QR", "Q R")
SVD = collections.namedtuple("SVD", "U S Vh")
Determinant = collections.namedtuple("Determinant", "sign logabsdet")
LeastSquares = collections.namedtuple("LeastSquares", "solution residuals rank singular_values")


def _float(a):
    return a if a.is_floating_point() and a.dtype.itemsize >= 4 else a.cast("float32")


def _matrix(name, a, square=True):
    if a.ndim < 2:
        raise UserError(f"lathe: {name}: needs a matrix (at least 2 axes), not shape {tuple(a.shape)}")
    if square and a.shape[-1] != a.shape[-2]:
        raise UserError(f"lathe: {name}: needs a square matrix, not {a.shape[-2]} by {a.shape[-1]}")
    return _float(a)


def _t(a):
    return a.transpose(-2, -1)


def _eye(n, like):
    return Tensor.eye(n, dtype=like.dtype, device=like.device)


def _refuse(name, bad, why, help):
    """An error where a computed value says that there is no answer. Inside a capture it stays inf or NaN."""
    if not capturing() and bool(bad.any().item()):
        raise UserError(f"lathe: {name}: {why}\n  help: {help}")


def _numbers(count, device):
    """0, 1, 2, ... each as a tensor in memory, so that a step's kernel does not depend on it."""
    return [Tensor([k], dtype="int32", device=device) for k in range(count)]


def _eliminate(a, rhs):
    """Gauss-Jordan with row pivoting: what [a, rhs] becomes when a becomes 1, and for each step the pivot and whether rows
    were swapped."""
    n = a.shape[-1]
    matrix = a.cat(rhs, dim=-1).contiguous().realize()
    row = Tensor.arange(n, dtype="int32", device=a.device).reshape(n, 1)
    place = Tensor.arange(matrix.shape[-1], dtype="int32", device=a.device).reshape(1, -1)
    pivots, swaps = [], []
    for k in _numbers(n, a.device):
        column = (place == k).where(matrix, 0).sum(-1, keepdim=True)
        best = (row >= k).where(column.abs(), -1).argmax(-2, keepdim=True).cast("int32")
        chosen, current = row == best, row == k
        lifted = chosen.where(matrix, 0).sum(-2, keepdim=True)
        below = current.where(matrix, 0).sum(-2, keepdim=True)
        pivot = chosen.where(column, 0).sum(-2, keepdim=True)
        swapped = current.where(lifted, chosen.where(below, matrix))
        factor = current.where(pivot, chosen.where(current.where(column, 0).sum(-2, keepdim=True), column))
        scaled = lifted / pivot
        matrix = current.where(scaled, swapped - factor * scaled).contiguous()
        pivot, moved = pivot.contiguous(), (best != k).contiguous()
        Tensor.realize(matrix, pivot, moved)
        pivots.append(pivot.reshape(*a.shape[:-2]))
        swaps.append(moved.reshape(*a.shape[:-2]))
    return matrix[..., n:], pivots, swaps


def _stacked(parts, like):
    if not parts:
        return Tensor.ones(*like.shape[:-2], 1, dtype=like.dtype, device=like.device)
    return parts[0].stack(*parts[1:], dim=-1)


def _solved(a, b):
    a, b = a.detach(), b.detach()
    if a.shape[-1] == 0 or math.prod(a.shape) == 0 or b.shape[-1] == 0:
        return b
    shape = [max(x, y) for x, y in zip((1,) * (b.ndim - a.ndim) + tuple(a.shape[:-2]), (1,) * (a.ndim - b.ndim) + tuple(b.shape[:-2]))]
    out, pivots, _ = _eliminate(a.expand(*shape, *a.shape[-2:]), b.expand(*shape, *b.shape[-2:]))
    _refuse("solve", _stacked(pivots, a) == 0, "the matrix is singular", "linalg.lstsq and linalg.pinv have an answer for it")
    return out


def _summed(grad, shape):
    """A gradient with the axes of broadcasting summed."""
    extra = grad.ndim - len(shape)
    axes = tuple(range(extra)) + tuple(extra + i for i, n in enumerate(shape) if n == 1 and grad.shape[extra + i] != 1)
    return grad.sum(axes, keepdim=True).reshape(*shape) if axes else grad


def _solve_gradient(inputs, output, grad):
    a, b = inputs
    towards = _solve(_t(a), grad)
    return [_summed(-(towards.matmul(_t(output))), tuple(a.shape)), _summed(towards, tuple(b.shape))]


def _determinant(a):
    """log |det| and the sign of det, in one tensor."""
    a = a.detach()
    if math.prod(a.shape) == 0:
        ones = Tensor.ones(*a.shape[:-2], dtype=a.dtype, device=a.device)
        return (ones * 0).stack(ones, dim=-1)
    _, pivots, swaps = _eliminate(a, a[..., :0])
    # After a pivot of 0 there is no next step: the matrix is singular whatever follows.
    values = _stacked(pivots, a)
    singular = (values == 0).any(-1)
    sign = (values < 0).cast("int32").sum(-1) + _stacked(swaps, a).cast("int32").sum(-1)
    sign = (sign % 2 == 0).where(1.0, -1.0).cast(a.dtype)
    logs = singular.where(-math.inf, (values == 0).where(1, values.abs()).log().sum(-1))
    return logs.stack(singular.where(0, sign), dim=-1)


def _determinant_gradient(inputs, output, grad):
    (a,) = inputs
    return [grad[..., 0].unsqueeze(-1).unsqueeze(-1) * _t(inv(a))]


def _triangle(a):
    """The Cholesky factor: a column each step."""
    n = a.shape[-1]
    matrix = a.detach().contiguous().realize()
    if math.prod(a.shape) == 0:
        return matrix
    row = Tensor.arange(n, dtype="int32", device=a.device).reshape(n, 1)
    place = Tensor.arange(n, dtype="int32", device=a.device).reshape(1, n)
    out = Tensor.zeros(*a.shape, dtype=a.dtype, device=a.device).contiguous().realize()
    for k in _numbers(n, a.device):
        column = (place == k).where(matrix, 0).sum(-1, keepdim=True)
        pivot = (row == k).where(column, 0).sum(-2, keepdim=True)
        column = (row >= k).where(column / pivot.sqrt(), 0).contiguous()
        matrix = (matrix - column * _t(column)).contiguous()
        out = (place == k).where(column, out).contiguous()
        Tensor.realize(matrix, out)
    _refuse("cholesky", (out != out) | out.isinf(), "the matrix is not positive definite", "add a small multiple of the unit matrix")
    return out


def _cholesky_gradient(inputs, output, grad):
    lower = output
    inner = _t(lower).matmul(grad).tril()
    half = inner - Tensor.eye(lower.shape[-1], dtype=lower.dtype, device=lower.device) * inner * 0.5
    inverse = inv(lower)
    made = _t(inverse).matmul(half).matmul(inverse)
    return [(made + _t(made)) * 0.5]


def _spectrum(a):
    """Eigenvalues, ascending, as the first row, then the eigenvectors as columns: from the singular values of the matrix
    shifted so that none is negative."""
    a = a.detach()
    n = a.shape[-1]
    if math.prod(a.shape) == 0:
        return Tensor.zeros(*a.shape[:-2], n + 1, n, dtype=a.dtype, device=a.device)
    a = (a.tril() + _t(a.tril(-1))).contiguous().realize()
    shift = a.abs().sum(-1, keepdim=True).max(-2, keepdim=True)
    vectors = (a + shift * _eye(n, a)).svd()[0].flip(-1).contiguous().realize()
    values = (vectors * a.matmul(vectors)).sum(-2, keepdim=True)
    return values.cat(vectors, dim=-2)


def _spectrum_gradient(inputs, output, grad):
    values, vectors = output[..., :1, :], output[..., 1:, :]
    gvalues, gvectors = grad[..., :1, :], grad[..., 1:, :]
    gaps = values - _t(values)
    between = (gaps == 0).where(0, 1 / (gaps == 0).where(1, gaps))
    inner = _t(vectors).matmul(gvectors) * between
    inner = inner + _eye(values.shape[-1], values) * gvalues
    made = vectors.matmul(inner).matmul(_t(vectors))
    return [(made + _t(made)) * 0.5]


_ops = {}


def _op(name, forward, gradient, *inputs):
    """An op with a gradient of its own, registered when it is first used."""
    own = _ops.get(name)
    if own is None:
        own = _ops[name] = f"linalg.{name}"
        _core.register_op(own, forward, gradient)
    return _core.custom(own, list(inputs))


def _solve(a, b):
    return _op("solve", _solved, _solve_gradient, a, b)


# ---- what is called


def inv(A):
    """The inverse of a square matrix."""
    A = _matrix("inv", A)
    return solve(A, _eye(A.shape[-1], A).expand(*A.shape))


def solve(A, B, left=True):
    """X with A X = B; B may be vectors. With left=False X A = B."""
    A = _matrix("solve", A)
    B = B.cast(A.dtype)
    vector = B.ndim == 1 or (B.ndim == A.ndim - 1 and tuple(B.shape) == tuple(A.shape[:-1]))
    if not left:
        return _t(solve(_t(A), _t(B)))
    if vector:
        return solve(A, B.unsqueeze(-1)).squeeze(-1)
    if B.shape[-2] != A.shape[-1]:
        raise UserError(f"lathe: solve: A is {A.shape[-2]} by {A.shape[-1]}, B has {B.shape[-2]} rows")
    return _solve(A, B)


def slogdet(A):
    """The sign of the determinant and the logarithm of its size."""
    A = _matrix("slogdet", A)
    both = _op("determinant", _determinant, _determinant_gradient, A)
    return Determinant(both[..., 1].detach(), both[..., 0])


def det(A):
    """The determinant."""
    sign, log = slogdet(A)
    return sign * log.exp()


def cholesky(A, upper=False):
    """The lower triangular matrix whose product with its transpose is A."""
    lower = _op("cholesky", _triangle, _cholesky_gradient, _matrix("cholesky", A))
    return _t(lower) if upper else lower


# A triangle and its mirror image. The gradient of a symmetric matrix is symmetric.
_mirrored = {"L": lambda A: A.tril() + _t(A.tril(-1)), "U": lambda A: A.triu() + _t(A.triu(1))}


def eigh(A, UPLO="L"):
    """Eigenvalues, ascending, and eigenvectors (columns) of a symmetric matrix; one triangle is read."""
    A = _matrix("eigh", A)
    whole = _op(f"mirrored{UPLO}", _mirrored[UPLO], lambda inputs, out, grad: [(grad + _t(grad)) * 0.5], A)
    both = _op("spectrum", _spectrum, _spectrum_gradient, whole)
    return Spectrum(both[..., 0, :], both[..., 1:, :])


def eigvalsh(A, UPLO="L"):
    """The eigenvalues of a symmetric matrix, ascending."""
    return eigh(A, UPLO)[0]


def qr(A, mode="reduced"):
    """Q with columns at right angles and R upper triangular, with Q R = A."""
    q, r = _matrix("qr", A, square=False).qr()
    if mode == "complete":
        return QR(q, r)
    least = min(A.shape[-2:])
    return QR(q[..., :, :least], r[..., :least, :].triu())


def svd(A, full_matrices=True):
    """U, singular values (descending) and V^T. Gradients flow through those that are not filled up to square ones."""
    return SVD(*_matrix("svd", A, square=False).svd(full_matrices))


def svdvals(A):
    """The singular values, descending."""
    return svd(A, False)[1]


def pinv(A, rcond=None, hermitian=False, *, atol=None, rtol=None):
    """The pseudo-inverse: singular values up to atol, or to rtol (rcond) times the largest, count as 0. That the matrix is symmetric
    need not be said."""
    A = _matrix("pinv", A, square=False)
    return _turned(*svd(A, False), A, rcond if rtol is None else rtol, atol)


def _counted(s, A, rtol, atol=None):
    """Which singular values count."""
    if not s.shape[-1]:
        return s > 0
    if rtol is None:
        rtol = (2**-23 if A.dtype.itemsize == 4 else 2**-52) * max(A.shape[-2:]) if atol is None else 0.0
    rtol, atol = (t.unsqueeze(-1) if isinstance(t, Tensor) and t.ndim else t for t in (rtol, atol))
    least = s.max(-1, keepdim=True) * rtol
    if atol is not None:
        least = least.maximum(atol)
    return s > least


def _turned(u, s, vt, A, rtol, atol=None):
    kept = _counted(s, A, rtol, atol)
    turned = kept.where(1 / kept.where(s, 1), 0)
    return _t(vt).matmul(turned.unsqueeze(-1) * _t(u))


def _rank(s, A, rtol, atol=None):
    return _counted(s, A, rtol, atol).cast("int32").sum(-1)


def lstsq(A, B, rcond=None, *, driver=None):
    """X for which A X is nearest to B, as `solution` of a tuple; with it the squared distances (where A has more rows than columns),
    the rank and the singular values of A. The driver is PyTorch's and changes nothing."""
    A = _matrix("lstsq", A, square=False)
    B = B.cast(A.dtype)
    vector = B.ndim == 1 or (B.ndim == A.ndim - 1 and tuple(B.shape) == tuple(A.shape[:-1]))
    right = B.unsqueeze(-1) if vector else B
    if right.ndim < 2 or right.shape[-2] != A.shape[-2]:
        raise UserError(f"lathe: lstsq: A is {A.shape[-2]} by {A.shape[-1]}, B has shape {tuple(B.shape)}")
    u, s, vt = svd(A, False)
    solution = _turned(u, s, vt, A, rcond).matmul(right)
    more = A.shape[-2] > A.shape[-1]
    residuals = (A.matmul(solution) - right).square().sum(-2) if more else Tensor.empty(0, dtype=A.dtype, device=A.device)
    return LeastSquares(solution.squeeze(-1) if vector else solution, residuals, _rank(s, A, rcond), s)


def matrix_rank(A, tol=None, hermitian=False, *, atol=None, rtol=None):
    """The number of singular values above tol (atol), or above rtol times the largest."""
    A = _matrix("matrix_rank", A, square=False)
    return _rank(svdvals(A), A, rtol, tol if atol is None else atol)


def matrix_power(A, n):
    """A multiplied by itself n times; n < 0 is of the inverse."""
    if A.ndim < 2 or A.shape[-1] != A.shape[-2]:
        raise UserError(f"lathe: matrix_power: needs a square matrix, not shape {tuple(A.shape)}")
    if n < 0:
        return matrix_power(inv(A), -n)
    out, base = None, A
    while n:
        if n & 1:
            out = base if out is None else out.matmul(base)
        base, n = base.matmul(base) if n > 1 else base, n >> 1
    return _eye(A.shape[-1], A).expand(*A.shape) if out is None else out


def matrix_exp(A):
    """The exponential series of a matrix, scaled and squared."""
    A = _matrix("matrix_exp", A)
    if math.prod(A.shape) == 0:
        return A
    most = float(A.detach().abs().sum(-1).max().item())
    halvings = max(0, math.ceil(math.log2(most)) + 1) if most > 0 and math.isfinite(most) else 0
    scaled = A * (0.5**halvings)
    out = _eye(A.shape[-1], A) + scaled
    term = scaled
    for k in range(2, 13 if A.dtype.itemsize == 4 else 19):
        term = (term.matmul(scaled) * (1 / k)).contiguous()
        out = out + term
    for _ in range(halvings):
        out = out.matmul(out).contiguous()
    return out


def norm(A, ord=None, dim=None, keepdim=False):
    """Of vectors (one axis) or matrices (two): ord 2, 1, inf, 0, another power, "fro" or "nuc"."""
    if A.is_floating_point() and A.dtype.itemsize < 4:  # sums leave the range of half
        return norm(_float(A), ord, dim, keepdim).cast(A.dtype)
    pair = dim if isinstance(dim, (tuple, list)) and len(dim) == 2 else (-2, -1) if dim is None and A.ndim == 2 and ord is not None else None
    if pair is None or ord in (None, "fro"):
        if ord == "nuc":
            raise UserError("lathe: norm: 'nuc' is of matrices: dim needs two axes")
        return vector_norm(A, 2.0 if ord in (None, "fro") else ord, dim, keepdim)
    rows, columns = (d % A.ndim for d in pair)
    if ord == "nuc" or ord in (2, -2):
        s = svdvals(A.movedim((rows, columns), (-2, -1)))
        out = s.sum(-1) if ord == "nuc" else s.max(-1) if ord == 2 else s.min(-1)
        if keepdim:
            for axis in sorted((rows, columns)):
                out = out.unsqueeze(axis)
        return out
    if ord not in (1, -1, math.inf, -math.inf):
        raise UserError(f"lathe: norm: {ord!r} is not a norm of matrices\n  help: 'fro', 'nuc', 1, -1, 2, -2, inf or -inf")
    summed, kept = (rows, columns) if abs(ord) == 1 else (columns, rows)
    sums = _float(A).abs().sum(summed, keepdim=True)
    out = sums.max(kept, keepdim=True) if ord > 0 else sums.min(kept, keepdim=True)
    return out if keepdim else out.squeeze(max(rows, columns)).squeeze(min(rows, columns))


def matrix_norm(A, ord="fro", dim=(-2, -1), keepdim=False):
    """Of the matrices on two axes: "fro", "nuc", 1, -1, 2, -2, inf or -inf."""
    return norm(A, ord, dim, keepdim)


def cond(A, p=None):
    """How much a solution may magnify an error: the norm (2 by default) of A times that of its inverse."""
    if p in (None, 2, -2):
        s = svdvals(A)
        most, least = s.max(-1), s.min(-1)
        return least / most if p == -2 else most / least
    return matrix_norm(A, p) * matrix_norm(inv(A), p)


def vector_norm(x, ord=2.0, dim=None, keepdim=False):
    """The p-norm over axes, of all elements by default."""
    if x.is_floating_point() and x.dtype.itemsize < 4:  # squares leave the range of half
        return vector_norm(x.cast("float32"), ord, dim, keepdim).cast(x.dtype)
    x = x if x.is_floating_point() else x.cast("float32")
    if ord in ("fro", None):
        ord = 2.0
    if ord == 2:
        square = x.square().sum(dim, keepdim)
        # At 0 the gradient is 0, as PyTorch's.
        return (square == 0).where(0, (square == 0).where(1, square).sqrt())
    if ord == 1:
        return x.abs().sum(dim, keepdim)
    if ord == math.inf:
        return x.abs().max(dim, keepdim)
    if ord == -math.inf:
        return x.abs().min(dim, keepdim)
    if ord == 0:
        return _op("not zero", _not_zero, lambda inputs, output, grad: [grad.zeros_like()], x).sum(dim, keepdim)
    if not isinstance(ord, (int, float)):
        raise UserError(f"lathe: norm: {ord!r} is not a norm\n  help: a number, inf, 'fro' or 'nuc'")
    # Where an element or the norm is 0 the slope may be infinite; the gradient there is 0, as PyTorch's.
    size = x.abs()
    total = _power(size, ord).sum(dim, keepdim)
    return _power(total, 1 / ord)


def _not_zero(x):
    return (x != 0).cast(x.dtype)


def _power(x, exponent):
    """x ** exponent of sizes, without a gradient at 0."""
    return (x == 0).where(0.0 if exponent > 0 else math.inf, (x == 0).where(1, x).pow(exponent))


def multi_dot(tensors):
    """The product of several matrices."""
    out = tensors[0]
    for t in tensors[1:]:
        out = out.matmul(t)
    return out


def solve_triangular(A, B, *, upper, left=True, unitriangular=False):
    """solve of a triangular matrix: the other triangle is not read."""
    A = A.triu() if upper else A.tril()
    if unitriangular:
        unit = _eye(A.shape[-1], A)
        A = A - A * unit + unit
    return solve(A, B, left=left)


def vecdot(x, y, *, dim=-1):
    """The sum of products along an axis."""
    return (x * y).sum(dim)


def matmul(a, b):
    """The product of matrices, batches before them."""
    return a.matmul(b)


def diagonal(A, *, offset=0, dim1=-2, dim2=-1):
    """The diagonals of matrices."""
    return A.diagonal(offset, dim1, dim2)


def cross(a, b, dim=-1):
    """The cross product of vectors with 3 elements."""
    if a.shape[dim] != 3 or b.shape[dim] != 3:
        raise UserError(f"lathe: cross: the vectors have {a.shape[dim]} and {b.shape[dim]} elements, not 3")
    return a.roll(-1, dim) * b.roll(-2, dim) - a.roll(-2, dim) * b.roll(-1, dim)


__all__ = ["cholesky", "cond", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "lstsq", "matmul", "matrix_exp", "matrix_norm", "matrix_power",
           "matrix_rank", "multi_dot", "norm", "pinv", "qr", "slogdet", "solve", "solve_triangular", "svd", "svdvals", "vecdot", "vector_norm"]  # fmt: skip
