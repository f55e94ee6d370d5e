"""Factors of matrices in the form of PyTorch's older functions; lathe.linalg has the newer."""

import collections

from lathe import linalg
from lathe.errors import UserError

SVD = collections.namedtuple("SVD", "U S V")


def svd(input, some=True, compute_uv=True):
    """U, S and V, not transposed, as many columns as singular values; with some=False square ones. lathe.linalg.svd gives V
    transposed, and so does the method x.svd(), which is tinygrad's.

    >>> lathe.svd(lathe.ones(3, 2)).V.shape
    (2, 2)
    """
    if not compute_uv:
        raise UserError("lathe: svd: compute_uv=False gives matrices of zeros\n  help: lathe.linalg.svdvals gives singular values alone")
    u, s, vt = linalg.svd(input, full_matrices=not some)
    return SVD(u, s, vt.transpose(-2, -1))


def qr(input, some=True):
    """Q and R, of the smaller size; with some=False Q is square. The method x.qr() gives the square Q, as tinygrad's.

    >>> lathe.qr(lathe.ones(3, 2)).Q.shape
    (3, 2)
    """
    return linalg.qr(input, "reduced" if some else "complete")
