"""Prints the coefficients of src/codegen/vector: `python3 bench/coefficients.py`, which needs mpmath.

Polynomials and rational functions interpolate at Chebyshev nodes, which is close to the best approximation, in 300 bits; then each
coefficient is rounded. After the coefficients, lowest first, stands the largest error, as the weight given here measures it.
"""

from mpmath import asin, atan, atanh, cbrt, cos, cosh, digamma, erf, erfc, exp, findroot, log, loggamma, lu_solve, matrix, mp, mpf, pi, psi
from mpmath import sin, sinh, sqrt

mp.prec = 300
TINY = mpf(2) ** -60


def fit(name, f, a, b, degrees, weight=lambda z: mpf(1)):
    """f(z) = P(z) / Q(z) for a <= z <= b, with degrees (p, q) and Q(0) = 1."""
    p, q = degrees
    n, a, b = p + q + 1, mpf(a), mpf(b)
    nodes = [(a + b) / 2 + (b - a) / 2 * cos(pi * (2 * k + 1) / (2 * n)) for k in range(n)]
    rows = [[z**j for j in range(p + 1)] + [-f(z) * z**j for j in range(1, q + 1)] for z in nodes]
    solution = [float(c) for c in lu_solve(matrix(rows), matrix([f(z) for z in nodes]))]
    top, bottom = solution[: p + 1], [1.0] + solution[p + 1 :]
    value = lambda cs, z: sum(mpf(c) * z**j for j, c in enumerate(cs))
    points = [a + (b - a) * k / 400 + TINY for k in range(401)]
    error = max(abs((f(z) - value(top, z) / value(bottom, z)) * weight(z)) for z in points)
    print(f"{name}: {top}" + (f" / {bottom}" if q else "") + f"\n    error 2^{float(log(error, 2)):.1f}")


def parts(name, x, count=2):
    """A constant as a sum of floats."""
    found = []
    for _ in range(count):
        found.append(float(x))
        x -= mpf(found[-1])
    print(f"{name}: {found}")


def pi_over_two():
    """pi / 2 in three parts of 33 bits and a rest."""
    rest, found = pi / 2, []
    for _ in range(3):
        unit = mpf(2) ** (int(mp.floor(log(rest, 2))) - 32)
        found.append(mp.floor(rest / unit) * unit)
        rest -= found[-1]
    print("pi / 2:", [float(x).hex() for x in [*found, rest]])


def two_over_pi(words=20):
    """The bits of 2 / pi."""
    with mp.workprec(64 * words + 64):
        bits = int(2 / pi * mpf(2) ** (64 * words))
    print("2 / pi:", [hex(bits >> 64 * (words - 1 - k) & 2**64 - 1) for k in range(words)])


def odd(f):
    """(f(x) / x - first) / x^2 as a function of z = x^2, where first is the derivative of f at 0."""
    return lambda z, first: (f(sqrt(z)) / sqrt(z) - first) / z


fit("exp_tail", lambda r: (exp(r) - 1 - r) / r**2, "-0.3476", "0.351076", (10, 0), lambda r: r)
tail = odd(lambda s: 2 * atanh(s))
fit("ln_tail", lambda z: tail(z, 2), TINY, 0.02946, (7, 0), lambda z: z)
fit("ln_parts", lambda z: (tail(z, 2) - mpf(2) / 3) / z, TINY, 0.02946, (7, 0), lambda z: z * z / 2)
fit("sin_tail", lambda z: odd(sin)(z, 1), TINY, 0.617, (6, 0), lambda z: z)
fit("cos_terms", lambda z: (cos(sqrt(z)) - 1 + z / 2) / z**2, TINY, 0.617, (5, 0), lambda z: z * z)
fit("atan", lambda z: odd(atan)(z, 1), TINY, 0.17165, (10, 0), lambda z: z)
fit("asin_tail", lambda z: odd(asin)(z, 1), TINY, 0.25, (12, 0), lambda z: z)
fit("sinh_tail", lambda z: odd(sinh)(z, 1), TINY, 0.1232, (4, 0), lambda z: z)
fit("cosh_tail", lambda z: (cosh(sqrt(z)) - 1 - z / 2) / z**2, TINY, 0.1232, (4, 0), lambda z: z * z)
fit("guess of cbrt", cbrt, "0.7071", "1.41422", (5, 0), lambda z: 1 / cbrt(z))
fit("erf below 1", lambda z: erf(sqrt(z)) / sqrt(z) - 1, TINY, 1, (12, 0))
unmap = lambda t: 3 * (1 + t) / (1 - t)
scaled = lambda t: exp(unmap(t) ** 2) * erfc(unmap(t))
fit("erf above 1", scaled, -mpf(1) / 2, mpf(1) / 3, (14, 0), lambda t: exp(-unmap(t) ** 2))
root = findroot(digamma, 1.46)
# Less a number in the middle of the values, so that what the quotient is off counts for less.
fit("lgamma", lambda v: loggamma(v + 1) / (v * (v - 1)) - mpf("0.4375"), 0, 2, (8, 7))
fit("digamma", lambda v: digamma(v + 1) / (v + 1 - root) - mpf("0.875"), 0, 2, (7, 6))
stirling = lambda x: (loggamma(x) - ((x - 0.5) * log(x) - x + log(2 * pi) / 2)) * x
fit("lgamma from 8", lambda z: stirling(1 / sqrt(z)), TINY, mpf(1) / 64, (6, 0), lambda z: sqrt(z) / 8)
fit("digamma from 8", lambda z: (log(1 / sqrt(z)) - sqrt(z) / 2 - digamma(1 / sqrt(z))) / z, TINY, mpf(1) / 64, (6, 0), lambda z: z)
scaled = lambda w: (psi(1, 1 / sqrt(w)) - sqrt(w) - w / 2) / sqrt(w) ** 3
fit("trigamma from 8", scaled, TINY, mpf(1) / 64, (6, 0), lambda z: z)
parts("zero of digamma - 1", root - 1)
parts("(ln(2 pi) - 1) / 2", (log(2 * pi) - 1) / 2)
parts("pi", pi)
parts("pi / 2", pi / 2)
parts("2 / 3", mpf(2) / 3)
parts("cube root of 2", cbrt(2), 1)
parts("cube root of 1 / 2", 1 / cbrt(2), 1)
pi_over_two()
two_over_pi()
