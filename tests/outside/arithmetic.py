"""Numbers with what is needed to judge others: a bound of their error, and their derivatives.

A number is a tuple (v, e, x, f, t):

    v  the value, computed as IEEE arithmetic does
    e  how far another evaluation may be from it that computes the same function of inputs that are off by half a unit in the
       last place each; bounds of any order of the same operations are small multiples
    x  how many binary places after the point it has, where it is certain that every order of operations gives it exactly, else -1
    f  STRUCTURAL: a false bracket, a missing entry or an empty sum, which annihilates products here;
       EMPTY: it is one because ranges are empty or a literal is 0, so every engine has it annihilate products;
       ANNIHILATED: what another structural zero annihilated is not finite, or may not be in another order, so that an engine may give
           something else;
       LITERAL: it is made of literals alone; an engine may compute it before, and take what is 0 for the literal
       OVERFLOWED: it is not finite since a sum or product of finite numbers is too large, and may be finite where that is multiplied by
           what is small, or added to what is as large, before
    t  derivatives by the inputs that it depends on, {input: (derivative, error)}, or UNDECIDED at a kink that rounding decides
"""

import math

U = 2.0**-53
STRUCTURAL, ANNIHILATED, EMPTY, LITERAL, OVERFLOWED = 1, 2, 4, 8, 16
UNDECIDED = "undecided"
NONE = {}
NO_INPUT = ("", None)
SOFT = {NO_INPUT: (0.0, 0.0)}  # a tangent that is a sum of nothing, but would be one of something for other data
INF = math.inf
NAN = math.nan
TINY = 1e-290  # below this, numbers lose places
HUGE = 1e100  # above this, sums and products in another order may overflow, so nothing is known of what is made of them
PLACES, LEAF = 24, 1000  # so many places stay exact; a leaf is exact until something is computed of it


class Undecided(Exception):
    """Rounding decides what happens here, so different evaluations may differ."""


class Arithmetic:
    """Arithmetic that remembers whether anything that was computed was not finite."""

    def __init__(self):
        self.tainted = False

    # -- leaves

    def constant(self, v):
        v = float(v)
        return (v, 0.0 if v == int(v) else U * abs(v), places(v), 0, NONE)

    def literal(self, v):
        return self.constant(v) if v else self.nothing

    def number(self, v):
        """A literal of the program."""
        v = self.literal(v)
        return (*v[:3], v[3] | LITERAL, v[4])

    def leaf(self, v, key):
        if not math.isfinite(v):
            self.tainted = True
        return (v, U * abs(v), places(v) if places(v) >= 0 else LEAF, 0, NONE if key is None else {key: (1.0, 0.0)})

    zero = (0.0, 0.0, 0, STRUCTURAL, NONE)
    nothing = (0.0, 0.0, 0, STRUCTURAL | EMPTY, NONE)

    # -- sums and products

    def add(self, a, b, sign=1.0):
        # A zero has an error where it may be no number in another order.
        e = a[1] + b[1]
        if a[3] & STRUCTURAL and b[3] & STRUCTURAL:
            return (0.0, e, 0, (a[3] | b[3]) & ~EMPTY | a[3] & b[3], steep(a, b))
        f = (a[3] | b[3]) & (ANNIHILATED | OVERFLOWED)
        if a[3] & STRUCTURAL:
            return (sign * b[0], e, b[2], f, steep(a) or scale(b[4], sign))
        if b[3] & STRUCTURAL:
            return (a[0], e, a[2], f, steep(b) or a[4])
        v = a[0] + sign * b[0]
        if math.isinf(v) and HUGE < min(abs(a[0]), abs(b[0])) < INF and (a[0] > 0) != (sign * b[0] > 0):
            # What is too large is not where the other is added before it is rounded, as to a product.
            f |= ANNIHILATED
        f |= overflows(v, a, b)
        if any(c[3] & OVERFLOWED and HUGE < abs(d) and not (c[0] > 0) == (d > 0) for c, d in ((a, sign * b[0]), ((sign * b[0], *b[1:]), a[0]))):
            # A factor of both that leaves the sum meets a difference.
            f |= ANNIHILATED
        x = exact(max(a[2], b[2]), v) if min(a[2], b[2]) >= 0 else -1
        e = a[1] + b[1] + U * (abs(a[0]) + abs(b[0])) if within(a[0], b[0]) else INF
        return self.made(v, e, x, f | a[3] & b[3] & LITERAL, self.chain(((1.0, 0.0, a[4]), (sign, 0.0, b[4]))))

    def sub(self, a, b):
        return self.add(a, b, -1.0)

    def neg(self, a):
        return (-a[0], a[1], a[2], a[3], scale(a[4], -1.0))

    def mul(self, a, b):
        if (a[3] | b[3]) & EMPTY:
            return self.nothing
        f = (a[3] | b[3]) & ANNIHILATED
        if (a[3] | b[3]) & STRUCTURAL:
            if not (math.isfinite(a[0]) and math.isfinite(b[0])):
                self.tainted = True
            if not within(a[0], b[0]):
                # The product of two such factors, with which an engine may multiply this zero last, may be infinite.
                return (0.0, INF, 0, f | STRUCTURAL, UNDECIDED) if f else (0.0, 0.0, 0, ANNIHILATED | STRUCTURAL, steep(a, b))
            return (0.0, INF if INF in (a[1], b[1]) else 0.0, 0, f | STRUCTURAL, steep(a, b))
        v = a[0] * b[0]
        f |= overflows(v, a, b) | small(a, b[0]) | small(b, a[0])
        x = exact(a[2] + b[2], v) if min(a[2], b[2]) >= 0 else -1
        e = times(a[0], b[1]) + times(b[0], a[1]) + a[1] * b[1] + U * abs(v)
        if abs(v) < TINY and a[0] != 0.0 and b[0] != 0.0:
            e += TINY
        if not within(a[0], b[0]):
            e, x = INF, -1
            if any(c[3] & LITERAL and c[0] == 0.0 for c in (a, b)):
                f |= ANNIHILATED
        return self.made(v, e, x, f | a[3] & b[3] & LITERAL, self.chain(((b[0], b[1], a[4]), (a[0], a[1], b[4]))))

    def div(self, a, b):
        if a[3] & EMPTY:
            return self.nothing
        f = (a[3] | b[3]) & ANNIHILATED
        if b[0] == 0.0:
            self.tainted = True
            if a[3] & STRUCTURAL:
                # 0 / 0 of an engine that reads the zero, 0 of one that leaves out what is not stored; so are the derivatives of the dividend
                # times the infinite slope.
                return (0.0, INF, 0, STRUCTURAL | ANNIHILATED, UNDECIDED)
            # The sign of the zero is that of the quotient: left open here.
            v = NAN if a[0] == 0.0 or math.isnan(a[0]) else math.copysign(INF, a[0])
            return (v, INF, -1, f | ANNIHILATED, UNDECIDED if a[4] or b[4] else NONE)
        v = a[0] / b[0]
        if a[3] & STRUCTURAL:
            # A product with the reciprocal, which may be no number.
            return (0.0, 0.0, 0, f | STRUCTURAL | (0 if math.isfinite(b[0]) else ANNIHILATED), steep(a, b))
        r = 1.0 / b[0]
        f |= overflows(v, a, b) | small(a, r)
        e = times(r, a[1]) + times(times(v, r), b[1]) + 2 * U * abs(v)
        if b[1] >= abs(b[0]) or not within(a[0], r):
            e = INF
        d = (r, times(times(r, r), b[1]) + U * abs(r), a[4])
        by = -v * r
        return self.made(v, e, -1, f, self.chain((d, (by, times(abs(r), e) + times(abs(v) * r * r, b[1]) + 2 * U * abs(by), b[4]))))

    def powi(self, a, k):
        if k == 0:
            return (1.0, 0.0, 0, 0, NONE)
        if k == 1:
            return a
        if a[3] & EMPTY and k > 0:
            return self.nothing
        f = a[3] & ANNIHILATED
        if a[3] & STRUCTURAL and k > 0:
            return (0.0, 0.0, 0, STRUCTURAL | f, steep(a))
        if k < 0 and a[0] == 0.0:
            self.tainted = True
            return (INF, INF, -1, ANNIHILATED, UNDECIDED)
        v, p = power(a[0], k), k * power(a[0], k - 1)
        f |= overflows(v, a)
        x = exact(a[2] * k, v) if a[2] >= 0 and k > 0 else -1
        low, high = (k * power(a[0] + s * a[1], k - 1) for s in (-1, 1))
        slope = max(abs(p), abs(low), abs(high))
        e = times(slope, a[1]) + abs(k) * U * abs(v)
        ep = spread(p, low, high) + (abs(k) + 2) * U * abs(p)
        if not within(a[0]):
            e, x = INF, -1
        return self.made(v, e, x, f, self.chain(((p, ep, a[4]),)))

    # -- functions

    def apply(self, function, args):
        """A function by its row: value, partial derivatives, steps of the value in units, whether it decides by comparing."""
        values = [a[0] for a in args]
        errors = [a[1] for a in args]
        certain = all(a[2] >= 0 for a in args)
        f = 0
        for a in args:
            f |= a[3] & ANNIHILATED
        open_zero = f and function.edge is not None
        # Of a number and NaN either may be selected.
        open_side = not function.jumps and any(v != v for v in values)
        asks = function.signed or not certain or open_side
        if open_zero or function.edge is not None and asks and function.edge(values, errors):
            if function.jumps:
                raise Undecided
            kink = True
        else:
            kink = False
        v = total(function.value, values)
        if v == 0.0 and all(a[3] & EMPTY for a in args):
            return self.nothing
        if v == 0.0 and all(a[3] & STRUCTURAL for a in args):
            # The tangent is the product of a structural zero and the slope, which may be infinite: that of the root is.
            finite = all(math.isfinite(total(p, values)) for p in function.partials)
            return (0.0, 0.0, 0, f | STRUCTURAL, steep(*args) if finite else UNDECIDED)
        by = []
        e = function.units * U * abs(v) + function.floor
        for k, a in enumerate(args):
            p = total(function.partials[k], values)
            t = a[4] or (SOFT if a[3] & STRUCTURAL else NONE)
            if not a[1] and not t:
                continue
            near = []
            # Where it is steep, as far as this is known.
            steepest = [x for x in (-1.0, 0.0, 1.0) if abs(x - values[k]) < errors[k]]
            for x in (values[k] - errors[k], values[k] + errors[k], *steepest):
                near.append(total(function.partials[k], [*values[:k], x, *values[k + 1 :]]))
            slope = max(abs(p), *(abs(q) for q in near)) if not kink else max([abs(q) for q in near if q == q], default=1.0)
            e += times(slope, a[1])
            if t:
                by.append((p, spread(p, *near) + 2 * function.units * U * abs(p) + function.floor, UNDECIDED if kink else t))
        x = max(a[2] for a in args) if function.keeps and certain and math.isfinite(v) else -1
        if x >= 0 and len(args) == 2:
            x = max(x, places(v)) if places(v) >= 0 else LEAF
        return self.made(v, 0.0 if x >= 0 and x < LEAF and not any(errors) else e, x, f, self.chain(by))

    # -- helpers

    def made(self, v, e, x, f, t):
        if not math.isfinite(v):
            self.tainted = True
            e = INF
        elif e != e:
            e = INF
        return (v, e, x, f, t)

    def chain(self, parts):
        """The sum of partial derivatives times derivatives."""
        parts = [p for p in parts if p[2]]
        if not parts:
            return NONE
        if len(parts) == 1 and parts[0][0] == 1.0 and parts[0][1] == 0.0:
            return parts[0][2]
        out = {}
        for p, ep, t in parts:
            if t == UNDECIDED:
                return UNDECIDED
            if not math.isfinite(p):
                self.tainted = True
            for key, (d, ed) in t.items():
                v = p * d
                e = times(p, ed) + times(d, ep) + ep * ed + U * abs(v) if within(p, d) else INF
                if key in out:
                    w, ew = out[key]
                    e = e + ew + U * (abs(v) + abs(w))
                    v = v + w
                if not math.isfinite(v):
                    self.tainted = True
                    e = INF
                out[key] = (v, e if e == e else INF)
        return out


def places(v):
    """Binary places after the point, or -1 where there are too many of them."""
    if not math.isfinite(v) or abs(v) >= 2.0**24:
        return -1
    m, x = v, 0
    while m != int(m):
        m, x = m * 2.0, x + 1
        if x > PLACES:
            return -1
    return x


def overflows(v, *parts):
    """Whether what is made of these is not finite since something finite became too large, here or before."""
    here = math.isinf(v) and all(math.isfinite(p[0]) for p in parts)
    return OVERFLOWED if here or not math.isfinite(v) and any(p[3] & OVERFLOWED for p in parts) else 0


def small(a, factor):
    """A factor that may keep what became too large finite, where an engine multiplies by it before: products and sums have any order."""
    return ANNIHILATED if a[3] & OVERFLOWED and abs(factor) < 1.0 else 0


def within(*numbers):
    return all(abs(v) <= HUGE for v in numbers)  # and no NaN


def exact(x, v):
    return x if x <= PLACES and abs(v) < 2.0**24 else -1


def times(a, b):
    """|a b|, where nothing times anything is nothing: no error stays none."""
    return 0.0 if a == 0.0 or b == 0.0 else abs(a * b)


def spread(p, *near):
    if not math.isfinite(p):
        return INF
    s = max(abs(q - p) for q in near)
    return s if s == s else INF


def steep(*zeros):
    """What is known of the derivatives of what is made of structural zeros: nothing, where the slope of one was infinite."""
    return UNDECIDED if any(z[3] & STRUCTURAL and z[4] == UNDECIDED for z in zeros) else NONE


def scale(t, sign):
    if sign == 1.0 or not t or t == UNDECIDED:
        return t
    return {k: (-d, e) for k, (d, e) in t.items()}


def power(a, k):
    try:
        return a**k
    except OverflowError:
        return -INF if a < 0 and k % 2 else INF
    except ZeroDivisionError:
        return math.copysign(INF, a) if k % 2 else INF


def total(function, values):
    """The value of a function of floats, as IEEE arithmetic has it."""
    try:
        return function(*values)
    except OverflowError:
        return INF
    except (ValueError, ZeroDivisionError):
        return NAN


def clear(a, b):
    """Whether the comparison of a with b depends neither on rounding nor on the order of sums."""
    if (a[3] | b[3]) & ANNIHILATED:
        return False
    if a[2] >= 0 and b[2] >= 0:
        return True
    if not (math.isfinite(a[0]) and math.isfinite(b[0])):
        # Which of NaN and the infinities it is may depend on the order of sums.
        return False
    return abs(a[0] - b[0]) > 64 * (a[1] + b[1])
