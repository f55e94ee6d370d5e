"""What a row of the op table is. Each op is written once as text in each language, `{x}` standing for an operand or a parameter.

`draw` picks operands and parameters for the op, or None where nothing fits; `dtype` is the dtype of the result as a function of what
was drawn. The flags say how rounding enters, and where the op may stand. In a text, `kept(value)` is a value inside the op that is
rounded to the dtype of its result, and `kept(value, size)` one whose error is of that size's.
"""

from dataclasses import dataclass
from typing import Callable, Optional

from fuzz import dtypes as _d

ROWS = {}


@dataclass(frozen=True)
class Op:
    name: str
    family: str
    draw: Callable
    dtype: Callable
    lathe: str
    numpy: str
    torch: Optional[str] = None
    exact: bool = False  # whole numbers stay whole
    moves: bool = False  # no value is computed
    sums: bool = False  # rounds in its steps, not only at the end
    steps: bool = False  # not continuous: rounding before it must not show
    ulps: float = 2.0  # of the result
    term_ulps: float = 2.0  # of each operand, where it sums
    symbolic: bool = False  # takes values with symbolic sizes
    lift: bool = False  # brings its operands to the result's dtype first
    weight: float = 1.0
    smooth: bool = True  # differences tell its gradient
    ties: bool = False  # but not where elements are equal
    single: bool = False  # no more precise than float32
    absolute: bool = False  # its error is of the size of 1's, where the result is smaller
    signs: bool = False  # shows the sign of a zero, which sums and products may give either of
    edge: Optional[str] = None  # where rounding does not show in the result, what has to be the same however operands are rounded
    then: str = ""  # the row of the positions of what this one finds, read after it

    @property
    def rounds(self):
        """Whether its result is a rounded number."""
        return not self.moves and (not self.steps or self.family == "cast")

    def error(self, dtype):
        """The relative error a result of the dtype may have."""
        unit = _d.unit("float32") if self.single and dtype == "float64" else _d.unit(dtype)
        return self.ulps * unit + (16 * _d.unit(_d.accumulator(dtype)) if self.sums else 0)

    def term_error(self, dtype):
        """That of each operand, where it sums."""
        return self.term_ulps * _d.unit(_d.accumulator(dtype))


def op(name, family, draw, dtype, lathe, numpy=None, torch=None, **flags):
    """Adds a row. Without numpy or with torch="=", the text is Lathe's."""
    assert name not in ROWS, name
    ROWS[name] = Op(name, family, draw, dtype, lathe, numpy or lathe, lathe if torch == "=" else torch, **flags)


# ---- dtypes of results


def same(d):
    return d["x"].dtype


def boolean(_):
    return "bool"


def index_dtype(_):
    return "int32"


def common(d):
    return _d.common(d["x"].dtype, d["y"].dtype)


def lifted(d):
    return _d.lifted(d["x"].dtype)


def lifted_common(d):
    return _d.lifted(common(d))


def summed(d):
    return _d.summed(d["x"].dtype)


def given(d):
    return d["dtype"].split(".")[-1].strip("'")
