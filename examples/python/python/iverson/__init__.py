"""Derivatives of tensor programs that are purely functional, and sparse by construction.

>>> import iverson
>>> f = iverson.Function("param x : [n] real\\nsum i < n - 1. (x[i + 1] - x[i])^2")
>>> f.value_and_gradient("x")([1.0, 2.0, 4.0])
Results(value=5.0, grad_x=array([-2., -2.,  4.]))
"""

from ._errors import (
    DataError,
    Error,
    LimitationError,
    LimitError,
    Problem,
    ProgramError,
    ReadingWarning,
    RequestError,
)
from ._function import Function
from ._native import Kernel
from ._objective import Objective

__all__ = [
    "DataError",
    "Error",
    "Function",
    "Kernel",
    "LimitError",
    "LimitationError",
    "Objective",
    "Problem",
    "ProgramError",
    "ReadingWarning",
    "RequestError",
]
