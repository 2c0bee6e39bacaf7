"""The scalar functions, from their definitions in mathematics and the table of special values."""

import math
from dataclasses import dataclass
from typing import Callable

from arithmetic import INF, NAN, U


@dataclass(frozen=True)
class Function:
    value: Callable
    partials: tuple
    units: float = 8.0  # of error of the value
    floor: float = 0.0  # of error, absolute
    edge: Callable | None = None  # (values, errors): whether rounding may decide what it does
    jumps: bool = False  # at its edge; else it has a kink there
    keeps: bool = False  # its value is one of its arguments, or their negation
    signed: bool = False  # at its edge it looks at the signs of zeros too
    arity: int = 1


def nan_first(a, b, pick):
    return a + b if a != a or b != b else pick


def minimum(a, b):
    return nan_first(a, b, a if a <= b else b)


def maximum(a, b):
    return nan_first(a, b, a if a >= b else b)


def close(values, errors):
    a, b = values
    return not abs(a - b) > 64 * sum(errors)


def near_zero(values, errors):
    return abs(values[0]) <= 64 * errors[0]


def sign(a):
    return a if a == 0 or a != a else math.copysign(1.0, a)


def logarithm(a):
    return -INF if a == 0 else math.log(a)


def exponential(a):
    try:
        return math.exp(a)
    except OverflowError:
        return INF


def divide(a, b):
    if b == 0:
        return NAN if a == 0 or a != a else math.copysign(INF, a) * math.copysign(1.0, b)
    return a / b


def square_root(a):
    return math.sqrt(a) if a >= 0 else NAN


def sigmoid(a):
    if a >= 0:
        return 1.0 / (1.0 + exponential(-a))
    e = exponential(a)
    return e / (1.0 + e)


def softplus(a):
    if a != a:
        return a
    return max(a, 0.0) + math.log1p(exponential(-abs(a)))


def digamma(a):
    if a == 0 or a != a or a == -INF:
        return NAN if a != 0 else math.copysign(INF, -math.copysign(1.0, a))
    if a < 0:
        return NAN if a == math.floor(a) else digamma(1.0 - a) - math.pi / math.tan(math.pi * a)
    if a == INF:
        return INF
    s = 0.0
    while a < 12.0:
        s -= 1.0 / a
        a += 1.0
    r = 1.0 / (a * a)
    tail = r * (1 / 12 - r * (1 / 120 - r * (1 / 252 - r * (1 / 240 - r * (1 / 132 - r * (691 / 32760 - r / 12))))))
    return s + math.log(a) - 0.5 / a - tail


def trigamma(a):
    if a <= 0 or a != a:
        if a != a or a == -INF:
            return NAN
        if a == math.floor(a):
            return INF
        return (math.pi / math.sin(math.pi * a)) ** 2 - trigamma(1.0 - a)
    if a == INF:
        return 0.0
    s = 0.0
    while a < 12.0:
        s += 1.0 / (a * a)
        a += 1.0
    r = 1.0 / (a * a)
    tail = r * (1 / 6 - r * (1 / 30 - r * (1 / 42 - r * (1 / 30 - r * (5 / 66 - r * (691 / 2730 - r * 7 / 6))))))
    return s + 1.0 / a + 0.5 * r + tail / a


def tetragamma(a):
    """The derivative of trigamma, by its recurrence and its asymptotic series; of positive arguments."""
    if not a > 0:
        return NAN
    s = 0.0
    while a < 14.0:
        s -= 2.0 / a**3
        a += 1.0
    r = 1.0 / (a * a)
    return s - r - r / a - r * r * (1 / 2 - r * (1 / 6 - r * (1 / 6 - r * (3 / 10 - r * 5 / 6))))


def log_gamma(a):
    if a == -INF or (a <= 0 and a == math.floor(a)):
        return INF
    return math.lgamma(a)


def real_power(a, b):
    if a == 1 or b == 0:
        return 1.0
    try:
        return math.pow(a, b)
    except OverflowError:
        return INF
    except ValueError:
        return INF if a == 0 else NAN


def power_by_base(a, b):
    return b * real_power(a, b - 1) if b != 0 else 0.0


def power_by_exponent(a, b):
    if a == 0 and b > 0:
        return 0.0
    return real_power(a, b) * logarithm(a) if a >= 0 else NAN


def root(a):
    return divide(0.5, square_root(a))


def hyperbolic(f, sign):
    """The hyperbolic sine or cosine, infinite where it is too large."""

    def value(a):
        try:
            return f(a)
        except OverflowError:
            return INF if a > 0 else sign * INF

    return value


def inside(f):
    """A function from -1 to 1, NaN elsewhere."""
    return lambda a: f(a) if -1 <= a <= 1 else NAN


def slope_of_arc(a):
    return divide(1.0, square_root((1.0 - a) * (1.0 + a)))


def cube_root(a):
    """By Newton's method from a power, since `math.cbrt` is not everywhere to the last place."""
    if a == 0 or not math.isfinite(a):
        return a
    y = math.copysign(math.pow(abs(a), 1 / 3), a)
    return y - (y - a / (y * y)) / 3


sinh, cosh = hyperbolic(math.sinh, -1), hyperbolic(math.cosh, 1)

FUNCTIONS = {
    "exp": Function(exponential, (exponential,)),
    "ln": Function(logarithm, (lambda a: divide(1.0, a),), floor=4 * U),
    "log1p": Function(lambda a: -INF if a == -1 else math.log1p(a), (lambda a: divide(1.0, 1.0 + a),)),
    "expm1": Function(lambda a: INF if a > 710 else math.expm1(a), (exponential,)),
    "sqrt": Function(square_root, (root,)),
    "sin": Function(math.sin, (math.cos,), floor=4 * U),
    "cos": Function(math.cos, (lambda a: -math.sin(a),), floor=4 * U),
    "tan": Function(math.tan, (lambda a: 1.0 + math.tan(a) ** 2,), units=16.0, floor=4 * U),
    "tanh": Function(math.tanh, (lambda a: 1.0 - math.tanh(a) ** 2,), floor=4 * U),
    "atan": Function(math.atan, (lambda a: 1.0 / (1.0 + a * a),)),
    "sinh": Function(sinh, (cosh,)),
    "cosh": Function(cosh, (sinh,)),
    "asin": Function(inside(math.asin), (slope_of_arc,)),
    "acos": Function(inside(math.acos), (lambda a: -slope_of_arc(a),), floor=4 * U),
    "cbrt": Function(cube_root, (lambda a: divide(1.0, 3.0 * cube_root(a) ** 2),)),
    "erf": Function(math.erf, (lambda a: 2.0 / math.sqrt(math.pi) * exponential(-a * a),), units=16.0),
    "sigmoid": Function(sigmoid, (lambda a: sigmoid(a) * (1.0 - sigmoid(a)),), units=16.0, floor=4 * U),
    "softplus": Function(softplus, (sigmoid,), units=16.0),
    "lgamma": Function(log_gamma, (digamma,), units=64.0, floor=64 * U),
    "digamma": Function(digamma, (trigamma,), units=256.0, floor=256 * U),
    "trigamma": Function(trigamma, (tetragamma,), units=256.0, floor=256 * U),
    "abs": Function(abs, (lambda a: sign(a),), edge=near_zero, keeps=True),
    "sign": Function(sign, (lambda a: 0.0,), edge=near_zero, jumps=True),
    "relu": Function(lambda a: maximum(0.0, a), (lambda a: 0.0 if a <= 0 or a != a else 1.0,), edge=near_zero, keeps=True),
    "min": Function(
        minimum, (lambda a, b: float(a <= b), lambda a, b: float(b < a)), edge=close, keeps=True, arity=2
    ),
    "max": Function(
        maximum, (lambda a, b: float(a >= b), lambda a, b: float(b > a)), edge=close, keeps=True, arity=2
    ),
    "atan2": Function(
        math.atan2,
        (lambda a, b: divide(b, a * a + b * b), lambda a, b: divide(-a, a * a + b * b)),
        edge=lambda v, e: abs(v[0]) <= 64 * e[0] and v[1] <= 64 * e[1],
        jumps=True,
        signed=True,
        arity=2,
    ),
    "pow": Function(real_power, (power_by_base, power_by_exponent), units=16.0, arity=2),
    "xlogy": Function(
        lambda a, b: 0.0 if a == 0 else a * logarithm(b), (lambda a, b: logarithm(b), lambda a, b: divide(a, b)), arity=2, floor=4 * U
    ),
}
