"""What a program means, by its definition: every sum is a loop over all its points, every bracket a select.

Tensors are computed element by element when they are asked for, so what a bracket hides is never looked at, and `read` says
afterwards which inputs the result depends on.
"""

import math

from arithmetic import ANNIHILATED, EMPTY, NONE, SOFT, STRUCTURAL, UNDECIDED, Arithmetic, Undecided, clear
from functions import FUNCTIONS
from language import counts_from_the_end

# What an environment has under this is no value: it is the names in it that are sizes, of the program or of a definition.
SIZES = None


class Tensor:
    """Elements by need. `at` takes a place as a tuple; elements may be tensors or pairs again."""

    def __init__(self, shape, at):
        self.shape, self.at, self.known = shape, at, {}

    def get(self, place):
        if place not in self.known:
            for k, n in zip(place, self.shape):
                if not 0 <= k < n:
                    raise OutOfBounds(f"place {place} of a tensor {self.shape}")
            self.known[place] = self.at(place)
        return self.known[place]


class OutOfBounds(Exception):
    """The program was accepted, and reads what is not there."""


class TooLong(Exception):
    """More steps than anyone waits for."""


class Evaluator:
    def __init__(self, program, data, steps=200_000, functions=None):
        self.data, self.steps = data, steps
        self.ops = Arithmetic()
        self.read = set()
        self.definitions = {d.name: d for d in program.definitions}
        self.functions = functions or {}
        self.maps = {r.name for r in program.relations if r.target is not None}
        self.shapes = {r.name: data.shape(r.dims) for r in program.relations}
        env = {**data.sizes, SIZES: frozenset(data.sizes)}
        for p in program.params:
            env[p.name] = self.parameter(p)
        self.program, self.env = program, env

    # -- parameters

    def parameter(self, p):
        if p.layout == "pair":
            sides = [self.dense(name, self.data.shape(p.dims + d)) for name, _, d in ((n, f, s) for (n, f, _), s in zip(p.leaves(), p.parts))]
            shape = self.data.shape(p.dims)
            if not shape:
                return tuple(sides)
            return Tensor(shape, lambda k: tuple(self.rest(s, k) for s in sides))
        shape = self.data.shape(p.dims)
        if p.sparse():
            entries = self.data.sparse[p.name]

            def stored(place):
                if place not in entries:
                    return self.ops.zero
                self.read.add((p.name, place))
                return self.ops.leaf(entries[place], (p.name, place))

            tensor = Tensor(shape, stored)
            tensor.entries = entries
            tensor.get_any = lambda place: tensor.get(place) if place in entries else self.ops.zero
            return tensor
        return self.dense(p.name, shape)

    def dense(self, name, shape):
        values = self.data.dense[name]

        def element(place):
            at = 0
            for k, n in zip(place, shape):
                at = at * n + k
            self.read.add((name, at))
            return self.ops.leaf(values[at], (name, at))

        return Tensor(shape, element) if shape else element(())

    def rest(self, tensor, place):
        """What is left of a tensor when its first axes are given."""
        if not isinstance(tensor, Tensor):
            return tensor
        if len(place) == len(tensor.shape):
            return tensor.get(place)
        for k, n in zip(place, tensor.shape):
            if not 0 <= k < n:
                raise OutOfBounds(f"place {place} of a tensor {tensor.shape}")
        return Tensor(tensor.shape[len(place) :], lambda k: tensor.get(place + k))

    # -- index expressions

    def extent(self, e, env):
        return max(0, self.index(e, env))

    def index(self, e, env):
        out = e[1]
        for c, atom in e[2]:
            if isinstance(atom, str):
                out += c * env[atom]
            else:
                place = self.place(atom, env)
                if place is None:
                    return None
                out += c * place
        return out

    def place(self, atom, env):
        if atom[0] == "map":
            source = self.indices(atom[2], env)
            if source is None:
                return None
            found = self.data.relations[atom[1]].get(source)
            if found is None:
                raise OutOfBounds(f"{atom[1]}{source}")
            return found
        k, _ = self.best(atom[1][3:], *atom[2:], env)
        return k

    def indices(self, exprs, env):
        out = tuple(self.index(a, env) for a in exprs)
        return None if None in out else out

    def best(self, which, i, extent, body, env, decide=True):
        """Place and value of an extremum: the first one; a number that is none stands before all others."""
        best, place, close, annihilated = None, None, False, 0
        for k in range(self.extent(extent, env)):
            v = self.term(body, {**env, i: k})
            annihilated |= v[3] & ANNIHILATED
            if best is None:
                best, place = v, k
                continue
            if best[0] != best[0]:
                # Sums in another order may be infinite instead.
                close |= best[2] < 0
                continue
            if not clear(best, v):
                close = True
            if v[0] != v[0] or (v[0] > best[0] if which == "max" else v[0] < best[0]):
                best, place = v, k
        if (close or annihilated) and decide:
            raise Undecided
        if close:
            best = (*best[:4], UNDECIDED)
        if annihilated:
            # One that is no number would stand before all others.
            best = (*best[:3], best[3] | annihilated, best[4])
        return place, best

    # -- predicates

    def holds(self, p, env):
        kind = p[0]
        if kind in ("lt", "le", "eq", "ne"):
            a, b = self.index(p[1], env), self.index(p[2], env)
            if a is None or b is None:
                raise Undecided
            return {"lt": a < b, "le": a <= b, "eq": a == b, "ne": a != b}[kind]
        if kind == "and":
            return self.holds(p[1], env) and self.holds(p[2], env)
        if kind == "or":
            return self.holds(p[1], env) or self.holds(p[2], env)
        if kind == "not":
            return not self.holds(p[1], env)
        if kind == "ex":
            return any(self.holds(p[3], {**env, p[1]: k}) for k in range(self.extent(p[2], env)))
        if kind == "rcmp":
            return self.compare(p[1], self.term(p[2], env), self.term(p[3], env))
        place = self.indices(p[2], env)
        if place is None:
            raise Undecided
        if kind == "pat":
            return place in env[p[1]].entries
        return place in self.data.relations[p[1]]

    def compare(self, op, a, b):
        if not clear(a, b):
            raise Undecided
        x, y = a[0], b[0]
        return {"<": x < y, "<=": x <= y, "=": x == y, "!=": x != y, ">": x > y, ">=": x >= y}[op]

    # -- terms

    def term(self, e, env):
        self.steps -= 1
        if self.steps < 0:
            raise TooLong
        return getattr(self, "_" + e[0])(e, env)

    def _num(self, e, env):
        return self.ops.number(e[1])

    def _ixv(self, e, env):
        k = self.index(e[1], env)
        if k is None:
            raise Undecided
        # What is 0 for the sizes alone annihilates.
        alone = all(isinstance(atom, str) and atom in env[SIZES] for _, atom in e[1][2])
        return self.ops.literal(k) if alone else self.ops.constant(k)

    def _var(self, e, env):
        v = env[e[1]]
        if callable(v):
            v = env[e[1]] = v()
        return v

    def _get(self, e, env):
        tensor = self.term(e[1], env)
        place = self.indices(e[2], env)
        if place is None:
            return self.ops.zero
        from_end = [counts_from_the_end(i, env[SIZES]) for i in e[2]]
        place = tuple(k + n if end else k for k, n, end in zip(place, tensor.shape, from_end))
        if hasattr(tensor, "get_any"):
            return tensor.get_any(place)
        return self.rest(tensor, place)

    def _val(self, e, env):
        place = self.indices(e[2], env)
        tensor = env[e[1]]
        if place not in tensor.entries:
            raise OutOfBounds(f"{e[1]}.value{place}")
        return tensor.get(place)

    def _neg(self, e, env):
        return self.ops.neg(self.term(e[1], env))

    def _add(self, e, env):
        return self.ops.add(self.term(e[1], env), self.term(e[2], env))

    def _sub(self, e, env):
        return self.ops.sub(self.term(e[1], env), self.term(e[2], env))

    def _mul(self, e, env):
        return self.ops.mul(self.term(e[1], env), self.term(e[2], env))

    def _div(self, e, env):
        return self.ops.div(self.term(e[1], env), self.term(e[2], env))

    def _powi(self, e, env):
        return self.ops.powi(self.term(e[1], env), e[2])

    def _call(self, e, env):
        return self.ops.apply(FUNCTIONS[e[1]], [self.term(a, env) for a in e[2]])

    def _fun(self, e, env):
        args = [self.term(a, env) for a in e[2]]
        # The products inside are of numbers.
        v = self.functions[e[1]](self.ops, [apart(a) for a in args])
        return self.ops.nothing if v[0] == 0.0 and args and all(a[3] & EMPTY for a in args) else v

    def _def(self, e, env):
        d = self.definitions[e[1]]
        args = [self.term(a, env) for a in e[2]]
        inner, sizes = {}, set()
        for (name, dims), value in zip(d.params, args):
            inner[name] = value
            if dims and not isinstance(value, Tensor):
                raise AssertionError(e)
            for dim, n in zip(dims, value.shape if dims else ()):
                ((_, size),) = dim[2]
                inner[size] = n - dim[1]
                sizes.add(size)
        inner[SIZES] = frozenset(sizes)
        return self.term(d.body, inner)

    def _cmp(self, e, env):
        a, b = self.term(e[2], env), self.term(e[3], env)
        v = self.compare(e[1], a, b)
        if v or not a[3] & b[3] & STRUCTURAL:
            return self.ops.constant(float(v))
        # A function that keeps zeros: of structural ones it is one.
        return self.ops.nothing if a[3] & b[3] & EMPTY else (0.0, 0.0, 0, STRUCTURAL | (a[3] | b[3]) & ANNIHILATED, NONE)

    def _iv(self, e, env):
        return self.term(e[2], env) if self.holds(e[1], env) else self.ops.zero

    def _select(self, e, env):
        return apart(self.term(e[2] if self.holds(e[1], env) else e[3], env))

    def _sum(self, e, env):
        out = self.ops.nothing
        for k in range(self.extent(e[2], env)):
            out = self.ops.add(out, self.term(e[3], {**env, e[1]: k}))
        return out

    def extremum(self, e, env):
        _, v = self.best(e[0], *e[1:], env, decide=False)
        if v is None:
            self.ops.tainted = True
            return (-math.inf if e[0] == "max" else math.inf, math.inf, -1, 0, NONE)
        # All elements may be zero for the sizes alone, and then it annihilates.
        # Its tangent is a sum of nothing, which is no number after an infinite slope.
        return (*v[:3], ANNIHILATED, v[4] or SOFT) if v[3] & STRUCTURAL else v

    _max = _min = extremum

    def _place(self, e, env):
        k, _ = self.best(e[1][3:], *e[2:], env)
        return self.ops.zero if k is None else self.ops.constant(k)

    def _gen(self, e, env):
        return Tensor((self.extent(e[2], env),), lambda k: self.term(e[3], {**env, e[1]: k[0]})) if e[3][0] != "gen" else self.nested(e, env)

    def nested(self, e, env):
        """`gen i < n. gen j < m. ..` as one tensor."""
        names, shape = [], []
        while e[0] == "gen":
            names.append(e[1])
            shape.append(self.extent(e[2], env))
            e = e[3]
        return Tensor(tuple(shape), lambda k: self.term(e, {**env, **dict(zip(names, k))}))

    def _let(self, e, env):
        known = []

        def value():
            if not known:
                known.append(self.term(e[2], env))
            return known[0]

        return self.term(e[3], {**env, e[1]: value})

    def _pair(self, e, env):
        return (self.term(e[1], env), self.term(e[2], env))

    def _fst(self, e, env):
        return self.term(e[1], env)[0]

    def _snd(self, e, env):
        return self.term(e[1], env)[1]

    # -- results

    def results(self):
        """The leaves of the result: a list of (path, shape, {place: number, or None where rounding decides})."""
        out = []
        self.collect("", lambda: self.term(self.program.body, self.env), out)
        return out

    def collect(self, path, make, out):
        value = make()
        if isinstance(value, tuple) and len(value) == 2:
            self.collect(path + ".0", lambda: value[0], out)
            self.collect(path + ".1", lambda: value[1], out)
        elif isinstance(value, Tensor):
            elements = {}
            for place in places(value.shape):
                try:
                    elements[place] = value.get(place)
                except Undecided:
                    elements[place] = None
            out.append((path, value.shape, elements))
        else:
            out.append((path, (), {(): value}))


def apart(v):
    """A number of one place: what annihilates here does so in no engine for sure, since other places may not be zero."""
    if isinstance(v, Tensor):
        return Tensor(v.shape, lambda place: apart(v.get(place)))
    return (*v[:3], v[3] & ~EMPTY, v[4]) if len(v) == 5 else tuple(apart(one) for one in v)


def places(shape):
    out = [()]
    for n in shape:
        out = [p + (k,) for p in out for k in range(n)]
    return out
