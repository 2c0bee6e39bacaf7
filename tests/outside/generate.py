"""Random programs that are valid by construction, and data for them.

Every access is either in bounds by the ranges of its indices, or stands behind a bracket that says so. Names carry a tag, so that
several programs can be put into one.
"""

import random
from dataclasses import dataclass, replace

from language import Data, Definition, Param, Program, Relation, counts_from_the_end, ix, ix_add, ix_shift, name_ix, walk
from library import FUNS, LIBRARY, RESULTS
from shapes import Shapes

SMOOTH = ["exp", "sin", "cos", "tanh", "atan", "erf", "sigmoid", "softplus", "log1p", "expm1", "sqrt", "ln", "tan", "cosh", "sinh", "asin", "acos", "cbrt"]
RARE = ["lgamma", "digamma", "trigamma"]


@dataclass(frozen=True)
class Scope:
    """What may be mentioned: indices with their extents, scalars, tensors (term, dims, layout), pairs (term, first dims, second dims)."""

    indices: tuple = ()
    scalars: tuple = ()
    tensors: tuple = ()
    pairs: tuple = ()

    def index(self, name, extent):
        return replace(self, indices=(*self.indices, (name, extent)))


class Generator(Shapes):
    def __init__(self, seed, tag=""):
        self.r = random.Random(seed)
        self.tag = tag
        self.count = 0
        self.functions = {}
        self.definitions = []
        self.budget = 0

    def fresh(self, stem):
        self.count += 1
        return f"{stem}{self.count}{self.tag}"

    def chance(self, p):
        return self.r.random() < p

    # -- declarations

    def program(self):
        r = self.r
        if self.chance(0.5):
            params, relations, body = self.shaped()
            return Program(params, relations, (), (), tuple(self.sizes), body, most=20)
        self.style = r.choice(["plain", "plain", "sparse", "sparse", "maps", "any", "any", "any"])
        self.sizes = [f"{n}{self.tag}" for n in "nmk"[: r.choice([1, 2, 2, 3])]]
        params, relations = [], []
        sparse = {"plain": 0.0, "sparse": 0.7, "maps": 0.1, "any": 0.3}[self.style]
        for _ in range(r.choice([1, 2, 2, 3, 3, 4])):
            params.append(self.param(sparse, params))
        for _ in range(r.choice({"plain": [0], "sparse": [0, 1], "maps": [1, 2], "any": [0, 0, 1, 2]}[self.style])):
            relations.append(self.relation())
        self.relations = relations
        self.extents = [name_ix(n) for n in self.sizes]
        scope = Scope()
        for p in params:
            if p.layout == "pair":
                if p.dims:
                    scope = replace(scope, pairs=(*scope.pairs, (("var", p.name), p.dims, p.parts)))
                else:
                    scope = replace(scope, pairs=(*scope.pairs, (("var", p.name), (), p.parts)))
            elif p.dims:
                scope = replace(scope, tensors=(*scope.tensors, (("var", p.name), p.dims, p.layout)))
            else:
                scope = replace(scope, scalars=(*scope.scalars, p.name))
        if self.chance(0.15):
            self.define()
        self.budget = r.choice([3, 4, 6, 8, 10, 16])
        body = self.result(scope)
        library = {e for e in self.called(body)}
        definitions = (*self.definitions, *(LIBRARY[n] for n in sorted(library)))
        return Program(
            tuple(params),
            tuple(relations),
            definitions,
            tuple(FUNS[kind][0].format(name) for name, kind in sorted(self.functions.items())),
            tuple(self.sizes),
            body,
        )

    def called(self, body):
        bodies = [body, *(d.body for d in self.definitions)]
        return {e[1] for b in bodies for e in walk(b) if e[0] == "def" and e[1] in LIBRARY}

    def dim(self):
        r = self.r
        n, m = name_ix(r.choice(self.sizes)), name_ix(r.choice(self.sizes))
        return r.choices(
            [n, ix_shift(n, 1), ix_add(n, n), ix_add(n, m), ix(r.choice([1, 2, 3])), ix_shift(ix_add(n, n), 1), ix_shift(ix_add(n, m), -1)],
            [12, 1, 1, 1, 1, 0.5, 0.6],
        )[0]

    def param(self, sparse, before):
        r = self.r
        name = self.fresh("x")
        if self.chance(sparse):
            other = [p for p in before if p.layout in ("csr", "csc", "coo")]
            if other and self.chance(0.1):
                p = r.choice(other)
                return Param(name, p.name, p.dims, shared="csc" if p.layout == "csc" else "coo")
            if self.chance(0.5):
                return Param(name, r.choice(["csr", "csc"]), (self.dim(), self.dim()))
            return Param(name, "coo", tuple(self.dim() for _ in range(r.choice([1, 2, 2, 3]))))
        if self.chance(0.07):
            dims = r.choice([(), (self.dim(),), (self.dim(),)])
            sides = tuple(r.choice([(), (), (self.dim(),)]) for _ in range(2))
            return Param(name, "pair", dims, sides)
        rank = r.choices([0, 1, 2, 3], [1, 4, 3, 0.4])[0]
        return Param(name, "dense", tuple(self.dim() for _ in range(rank)))

    def relation(self):
        r = self.r
        if self.chance(0.6 if self.style == "maps" else 0.4):
            sources = tuple(self.dim() for _ in range(r.choices([1, 2], [5, 1])[0]))
            return Relation(self.fresh("f"), sources, self.dim())
        return Relation(self.fresh("E"), tuple(self.dim() for _ in range(r.choices([1, 2, 3], [1, 4, 0.5])[0])))

    def define(self):
        """A definition with a body of its own."""
        r = self.r
        size = self.fresh("q")
        saved = self.sizes, self.extents, self.relations
        self.sizes, self.extents, self.relations = [size], [name_ix(size)], []
        a, b = self.fresh("a"), self.fresh("b")
        tensors = ((("var", a), (name_ix(size),), "dense"),)
        self.budget = 6
        scope = Scope(scalars=(b,), tensors=tensors)
        result = r.choice([(), (name_ix(size),)])
        body = self.scalar(scope, 3) if not result else self.gen(scope, result, 3)
        self.sizes, self.extents, self.relations = saved
        d = Definition(self.fresh("d"), ((a, (name_ix(size),)), (b, ())), body)
        self.definitions.append(d)
        self.defined = (d, size, result)

    # -- results

    def result(self, scope, depth=0):
        kind = self.r.choices(["scalar", "tensor", "pair", "let"], [5, 4, 0.8 if depth < 2 else 0, 2.5 if depth < 3 else 0])[0]
        if kind == "pair":
            return ("pair", self.result(scope, depth + 1), self.result(scope, depth + 1))
        if kind == "let":
            name, value, scope = self.bind(scope, 3)
            return ("let", name, value, self.result(scope, depth + 1))
        if kind == "tensor":
            return self.gen(scope, self.dims(scope), 4)
        return self.scalar(scope, 5)

    def dims(self, scope):
        count = self.r.choices([1, 2], [3, 2])[0]
        return tuple(self.range(scope) for _ in range(count))

    def range(self, _scope):
        """An extent to loop over."""
        e = self.r.choice(self.extents)
        p = self.r.random()
        if p < 0.82:
            return e
        if p < 0.88:
            return ix_shift(e, self.r.choice([-1, 1, -2]))
        if p < 0.94:
            return ix(self.r.choice([1, 2, 3]))
        return ix_add(e, self.r.choice(self.extents))

    def gen(self, scope, dims, depth):
        names = [self.fresh("i") for _ in dims]
        for name, d in zip(names, dims):
            scope = scope.index(name, d)
        body = self.scalar(scope, depth)
        for name, d in zip(reversed(names), reversed(dims)):
            body = ("gen", name, d, body)
        return body

    def bind(self, scope, depth):
        kind = self.r.choices(["scalar", "tensor", "pair"], [2, 5, 0.8])[0]
        name = self.fresh("t")
        if kind == "scalar":
            return name, self.scalar(scope, depth), replace(scope, scalars=(*scope.scalars, name))
        if kind == "tensor":
            dims = self.dims(scope)
            value = self.gen(scope, dims, depth)
            return name, value, replace(scope, tensors=(*scope.tensors, (("var", name), dims, "let")))
        dims = self.r.choice([(), (self.range(scope),)])
        value = ("pair", self.scalar(scope, depth), self.gen(scope, dims, depth) if dims else self.scalar(scope, depth))
        return name, value, replace(scope, pairs=(*scope.pairs, (("var", name), (), ((), dims))))

    # -- scalars

    def scalar(self, scope, depth):
        r = self.r
        self.budget -= 1
        if depth <= 0 or self.budget <= 0:
            return self.leaf(scope)
        makers = [
            (self.leaf, 3),
            (self.sum_, 4.5),
            (self.product, 5),
            (self.addition, 4),
            (self.bracket, 4),
            (self.function, 3),
            (self.power_, 1.5),
            (self.quotient, 1),
            (self.select_, 0.8),
            (self.extremum_, 0.9),
            (self.place_, 0.3),
            (self.let_, 0.9),
            (self.compare_, 0.3),
            (self.call_, 1.0),
            (self.inner_gen, 0.3),
            (self.negation, 0.5),
        ]
        make = r.choices([m for m, _ in makers], [w for _, w in makers])[0]
        return make(scope, depth - 1)

    def number(self):
        return ("num", self.r.choice([0.0, 0.5, 1.0, 1.0, 2.0, 2.0, 3.0, 0.25, 1.5, 4.0]))

    def leaf(self, scope, depth=0):
        guards, e = self.access(scope)
        return self.guarded(guards, e)

    def guarded(self, guards, e):
        for g in guards[1:]:
            guards = [("and", guards[0], g)]
        return ("iv", guards[0], e) if guards else e

    def access(self, scope):
        """An element of something that is in scope, and the guards that it needs."""
        r = self.r
        kinds = ["tensor"] * (6 if scope.tensors else 0) + ["scalar"] * (2 if scope.scalars else 0) + ["pair"] * (2 if scope.pairs else 0)
        kinds += ["number"] + (["index"] if self.chance(0.3) else [])
        kind = r.choice(kinds)
        if kind == "scalar":
            return [], ("var", r.choice(scope.scalars))
        if kind == "number":
            return [], self.number()
        if kind == "index":
            if scope.indices and self.chance(0.7):
                return [], ("ixv", name_ix(r.choice(scope.indices)[0]))
            return [], ("ixv", r.choice(self.extents))
        if kind == "pair":
            term, dims, parts = r.choice(scope.pairs)
            guards, indices = self.places(scope, dims)
            if dims:
                term = ("get", term, indices)
            k = r.randrange(2)
            side = ("fst" if k == 0 else "snd", term)
            more, inner = self.places(scope, parts[k])
            return guards + more, ("get", side, inner) if parts[k] else side
        # The newest tensors first, so that what is bound is used.
        at = len(scope.tensors) - 1 - min(int(r.expovariate(0.7)), len(scope.tensors) - 1)
        term, dims, layout = scope.tensors[at]
        if layout not in ("dense", "let"):
            if self.chance(0.25):
                # Nothing is stored out of bounds, so no bracket is needed.
                indices = tuple(self.any_index(scope) for _ in dims)
            else:
                _, indices = self.places(scope, dims)
                indices = tuple(indices)
                guards = _
                if any(self.has_map(i) for i in indices):
                    return self.sparse_read(term, indices, guards)
            return self.sparse_read(term, indices, [])
        guards, indices = self.places(scope, dims)
        return guards, ("get", term, indices)

    def has_map(self, e):
        return any(not isinstance(a, str) for _, a in e[2])

    def sparse_read(self, term, indices, guards):
        if self.chance(0.25) and not any(a[0] == "arg" for i in indices for _, a in i[2] if not isinstance(a, str)):
            return [*guards, ("pat", term[1], indices)], ("val", term[1], indices)
        return guards, ("get", term, indices)

    def places(self, scope, dims, deep=0):
        guards, indices = [], []
        for d in dims:
            g, e = self.place_in(scope, d, deep)
            guards += g
            indices.append(e)
        return guards, tuple(indices)

    def place_in(self, scope, d, deep=0):
        """An index expression for an axis of extent d, and the guards under which it is one."""
        r = self.r
        same = [n for n, e in scope.indices if e == d]
        smaller = [(n, ix_add(d, e, -1)) for n, e in scope.indices]
        smaller = [(n, c[1]) for n, c in smaller if not c[2] and c[1] > 0]
        p = r.random()
        if same and p < 0.62:
            return [], name_ix(r.choice(same))
        if same and p < 0.68:
            return [], ix_shift(ix_add(d, name_ix(r.choice(same)), -1), -1)
        if smaller and p < 0.72:
            n, c = r.choice(smaller)
            return [], ix_shift(name_ix(n), r.choice([0, c]))
        maps = [m for m in self.relations if m.target == d]
        if maps and p < 0.9 and deep < 2:
            m = r.choice(maps)
            guards, sources = self.places(scope, m.dims, deep + 1 if self.chance(0.7) else 9)
            return guards, ix(0, (1, ("map", m.name, sources)))
        if p < 0.93 and p > 0.905 and scope.tensors and self.budget > 0 and not deep:
            i = self.fresh("i")
            body = self.scalar(scope.index(i, d), 1)
            e = ix(0, (1, ("arg", r.choice(["argmax", "argmin"]), i, d, body)))
            return ([("lt", ix(0), d)] if self.chance(0.5) else []), e
        e = self.any_index(scope) if deep < 9 else self.plain_index(scope)
        if not deep and counts_from_the_end(e, self.sizes):
            return self.within(ix_add(d, e), d), e
        return self.within(e, d), e

    def within(self, e, d):
        """0 <= e < d, without what is plain."""
        r = self.r
        low = ("le", ix(0), e) if self.chance(0.7) else ("lt", ix(-1), e)
        high = ("lt", e, d) if self.chance(0.7) else ("le", ix_shift(e, 1), d)
        if all(c > 0 and isinstance(a, str) for c, a in e[2]) and e[1] >= 0 and not any(a in self.sizes for _, a in e[2]):
            return [high]
        return [low, high] if self.chance(0.8) else [high, low]

    def any_index(self, scope):
        r = self.r
        parts = []
        if scope.indices:
            for _ in range(r.choices([0, 1, 2], [1, 6, 3])[0]):
                parts.append((r.choice([1, 1, 1, 1, -1, 2, 2, 3, -2]), r.choice(scope.indices)[0]))
        if self.chance(0.2):
            ((c, n),) = r.choice(self.extents)[2]
            parts.append((r.choice([1, -1]), n))
        maps = [m for m in self.relations if m.target is not None and len(m.dims) == 1]
        if maps and self.chance(0.1):
            m = r.choice(maps)
            same = [n for n, e in scope.indices if e == m.dims[0]]
            if same:
                parts.append((r.choice([1, 1, 2, -1]), ("map", m.name, (name_ix(r.choice(same)),))))
        return ix(r.choice([0, 0, 0, 1, 1, -1, 2, -2, 3]), *parts)

    def sum_(self, scope, depth):
        r = self.r
        names = []
        for _ in range(r.choices([1, 2, 3], [6, 2, 0.3])[0]):
            names.append((self.fresh("j"), self.range(scope)))
        for n, e in names:
            scope = scope.index(n, e)
        body = self.scalar(scope, depth) if self.chance(0.4) else self.product(scope, depth)
        for n, e in reversed(names):
            body = ("sum", n, e, body)
        return body

    def product(self, scope, depth):
        """A product, whose factors may stand behind one bracket."""
        if self.chance(0.4):
            guards, factors = [], []
            for _ in range(self.r.choice([2, 2, 3])):
                g, e = self.access(scope)
                guards += g
                factors.append(e)
            if self.chance(0.4):
                guards.insert(0, self.predicate(scope, 1))
            e = factors[0]
            for f in factors[1:]:
                e = ("mul", e, f)
            if self.chance(0.2):
                e = ("call", "exp", (e,)) if self.chance(0.5) else ("powi", e, 2)
            return self.guarded(guards, e)
        return ("mul", self.scalar(scope, depth), self.scalar(scope, depth))

    def addition(self, scope, depth):
        return (self.r.choice(["add", "add", "sub"]), self.scalar(scope, depth), self.scalar(scope, depth))

    def negation(self, scope, depth):
        return ("neg", self.scalar(scope, depth))

    def bracket(self, scope, depth):
        # A guard that the body needs may come after another one.
        if self.chance(0.3):
            guards, e = self.access(scope)
            e = self.unary(e)
            return self.guarded([self.predicate(scope, 2), *guards] if self.chance(0.6) else [*guards, self.predicate(scope, 2)], e)
        return ("iv", self.predicate(scope, 2), self.scalar(scope, depth))

    def unary(self, e):
        f = self.r.choice(["exp", "ln", "sqrt", "recip", "square", "none", "none"])
        if f == "none":
            return e
        if f == "recip":
            return ("div", ("num", 1.0), e)
        return ("powi", e, 2) if f == "square" else ("call", f, (e,))

    def function(self, scope, depth):
        r = self.r
        e = self.scalar(scope, depth)
        p = r.random()
        if p < 0.15:
            return ("call", r.choice(["max", "min"]), (e, self.leaf(scope)))
        if p < 0.2:
            return ("call", "relu", (e,))
        if p < 0.25:
            return ("call", "abs", (e,))
        if p < 0.28:
            return ("call", "sign", (e,))
        if p < 0.31:
            return ("call", "atan2", (e, self.scalar(scope, depth)))
        if p < 0.34:
            return ("call", "pow", (self.positive(e), self.scalar(scope, depth)))
        if p < 0.37:
            return ("call", "xlogy", (e, self.positive(self.scalar(scope, depth))))
        if p < 0.41:
            return ("call", r.choice(RARE), (self.positive(e),))
        if p < 0.47:
            kind = r.choice(sorted(FUNS))
            name = f"{kind}{self.tag}" if self.tag else f"{kind}_"
            self.functions[name] = kind
            args = [e] + [self.scalar(scope, depth) for _ in range(FUNS[kind][1] - 1)]
            return ("fun", name, tuple(args))
        f = r.choice(SMOOTH)
        if f in ("ln", "sqrt", "log1p") and self.chance(0.85):
            e = self.positive(e)
        if f in ("asin", "acos") and self.chance(0.85):
            e = ("mul", ("num", self.r.choice([0.5, 0.75, 1.0])), ("call", self.r.choice(["sin", "cos", "tanh"]), (e,)))
        return ("call", f, (e,))

    def positive(self, e):
        p = self.r.random()
        if p < 0.4:
            return ("add", ("powi", e, 2), ("num", self.r.choice([0.5, 1.0])))
        if p < 0.7:
            return ("call", "softplus", (e,))
        return ("add", ("call", "abs", (e,)), ("num", 0.5))

    def power_(self, scope, depth):
        return ("powi", self.scalar(scope, depth), self.r.choice([2, 2, 2, 3, 3, 4, 1, 0, 5, -1, -2]))

    def quotient(self, scope, depth):
        a, b = self.scalar(scope, depth), self.scalar(scope, depth)
        return ("div", a, self.positive(b) if self.chance(0.8) else b)

    def select_(self, scope, depth):
        for _ in range(5):
            p = self.predicate(scope, 1)
            if not any(e[0] == "ex" for e in walk(p)):
                return ("select", p, self.scalar(scope, depth), self.scalar(scope, depth))
        return self.scalar(scope, depth)

    def extremum_(self, scope, depth):
        i, e = self.fresh("k"), self.range(scope)
        return (self.r.choice(["max", "min"]), i, e, self.scalar(scope.index(i, e), depth))

    def place_(self, scope, depth):
        i, e = self.fresh("k"), self.range(scope)
        return ("place", self.r.choice(["argmax", "argmin"]), i, e, self.scalar(scope.index(i, e), min(depth, 2)))

    def let_(self, scope, depth):
        name, value, scope = self.bind(scope, depth)
        return ("let", name, value, self.scalar(scope, depth))

    def compare_(self, scope, depth):
        return ("cmp", self.r.choice(["<", "<="]), self.leaf(scope), self.leaf(scope))

    def inner_gen(self, scope, depth):
        """An element of a tensor that has no name."""
        d = self.range(scope)
        guards, e = self.place_in(scope, d)
        return self.guarded(guards, ("get", self.gen(scope, (d,), depth), (e,)))

    def call_(self, scope, depth):
        r = self.r
        if self.definitions and self.chance(0.5) and self.extents != [name_ix(self.defined[1])]:
            d, size, result = self.defined
            vector, n = self.vector(scope, depth)
            e = ("def", d.name, (vector, self.scalar(scope, depth)))
            if not result:
                return e
            guards, k = self.place_in(scope, n)
            return self.guarded(guards, ("get", e, (k,)))
        name = r.choice(["dot", "squared_norm", "mean", "logsumexp", "softmax", "outer", "diag", "trace", "transpose", "matvec", "matmul"])
        sizes, args = {}, []
        for _, dims in LIBRARY[name].params:
            names = [d[2][0][1] for d in dims]
            known = [t for t in scope.tensors if len(t[1]) == len(dims) and t[2] in ("dense", "let")]
            known = [t for t in known if all(sizes.get(n, d) == d for n, d in zip(names, t[1]))]
            known = [t for t in known if len(set(names)) == len(names) or t[1][0] == t[1][1]]
            if known and self.chance(0.75):
                term, actual, _ = r.choice(known)
            else:
                chosen = dict(sizes)
                for n in names:
                    chosen.setdefault(n, r.choice(self.extents))
                actual = tuple(chosen[n] for n in names)
                term = self.gen(scope, actual, 1)
            sizes.update(zip(names, actual))
            args.append(term)
        e = ("def", name, tuple(args))
        dims = tuple(sizes[d[2][0][1]] for d in RESULTS[name])
        if not dims:
            return e
        guards, indices = self.places(scope, dims)
        return self.guarded(guards, ("get", e, indices))

    def vector(self, scope, depth):
        known = [t for t in scope.tensors if len(t[1]) == 1 and t[2] in ("dense", "let") and t[1][0] in self.extents]
        if known and self.chance(0.7):
            term, dims, _ = self.r.choice(known)
            return term, dims[0]
        n = self.r.choice(self.extents)
        return self.gen(scope, (n,), min(depth, 1)), n

    # -- predicates

    def predicate(self, scope, depth):
        r = self.r
        p = r.random()
        if depth > 0 and p < 0.15:
            return ("and", self.predicate(scope, depth - 1), self.predicate(scope, depth - 1))
        if depth > 0 and p < 0.27:
            return ("or", self.predicate(scope, depth - 1), self.predicate(scope, depth - 1))
        if depth > 0 and p < 0.35:
            return ("not", self.predicate(scope, depth - 1))
        if depth > 0 and p < 0.43:
            i, e = self.fresh("q"), self.range(scope)
            return ("ex", i, e, self.predicate(scope.index(i, e), depth - 1))
        if p < 0.6:
            guards, e = self.access(scope)
            c = ("rcmp", r.choice(["<", "<=", ">", ">=", "=", "!="]), e, self.leaf(scope) if self.chance(0.4) else self.number())
            for g in reversed(guards):
                c = ("and", g, c)
            return c
        sparse = [(t, d) for t, d, l in scope.tensors if l not in ("dense", "let")]
        plain = [x for x in self.relations if x.target is None]
        maps = [x for x in self.relations if x.target is not None]
        if sparse and p < 0.7:
            term, dims = r.choice(sparse)
            return ("pat", term[1], self.loose(scope, dims))
        if plain and p < 0.8:
            rel = r.choice(plain)
            return ("rel", rel.name, self.loose(scope, rel.dims))
        if maps and p < 0.87:
            m = r.choice(maps)
            guards, sources = self.places(scope, m.dims, 1)
            c = (r.choice(["eq", "eq", "lt", "le", "ne"]), ix(0, (1, ("map", m.name, sources))), self.any_index(scope))
            for g in reversed(guards):
                c = ("and", g, c)
            return c
        if len(scope.indices) > 1 and self.chance(0.6):
            a, b = r.sample(scope.indices, 2)
            left, right = name_ix(a[0]), ix_shift(name_ix(b[0]), r.choice([0, 0, 0, 1, -1]))
        else:
            left, right = self.any_index(scope), (self.any_index(scope) if self.chance(0.4) else ix(r.choice([0, 1, 1, 2])))
        return (r.choice(["lt", "le", "eq", "eq", "ne"]), left, right)

    def loose(self, scope, dims):
        """Places of a relation, which is false out of bounds."""
        out = []
        for d in dims:
            same = [n for n, e in scope.indices if e == d]
            out.append(name_ix(self.r.choice(same)) if same and self.chance(0.8) else self.plain_index(scope))
        return tuple(out)

    def plain_index(self, scope):
        for _ in range(9):
            e = self.any_index(scope)
            if not self.has_map(e):
                return e
        return ix(0)


# ---- data ----

FAMILIES = ["plain", "plain", "ties", "special", "overflow", "empty"]


def data_for(program, seed):
    """Inputs, and the name of the family that they are of."""
    r = random.Random(f"data {seed}")
    family = r.choice(FAMILIES)
    low = 0 if family == "empty" or r.random() < 0.1 else 1
    for _ in range(50):
        sizes = sizes_for(r, program, low)
        data = Data(sizes)
        dims = [d for p in program.params for d in p.dims + tuple(x for s in p.parts for x in s)]
        dims += [d for x in program.relations for d in x.dims]
        targets = [x for x in program.relations if x.target is not None]
        if any(data.extent(d) < 0 for d in dims):
            continue
        if all(data.extent(m.target) > 0 or any(data.extent(d) == 0 for d in m.dims) for m in targets):
            break
    else:
        return None, family

    def value():
        p = r.random()
        if family == "ties":
            return float(r.choice([0, 0, 1, 1, 1, -1, -0.0, 2]))
        if family == "special" and p < 0.2:
            return r.choice([0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1e308, -1e308, 5e-324, 1000.0])
        if family == "overflow" and p < 0.25:
            return r.choice([1000.0, 1000.0, 1e200, -1e200, 1e160, -1000.0, 1e-200])
        if p < 0.03:
            return 0.0
        return r.randrange(-16, 17) / 8 if p < 0.9 else r.uniform(-2, 2)

    for p in program.params:
        if p.sparse():
            shape = data.shape(p.dims)
            if p.layout in ("csr", "csc", "coo"):
                places = pattern(r, shape, family)
            else:
                places = set(data.sparse[p.layout])
            data.sparse[p.name] = {k: value() for k in sorted(places)}
        else:
            for name, _, d in p.leaves():
                count = 1
                for n in data.shape(d):
                    count *= n
                data.dense[name] = [value() for _ in range(count)]
    for x in program.relations:
        shape = data.shape(x.dims)
        if x.target is None:
            data.relations[x.name] = pattern(r, shape, family)
        else:
            n = data.extent(x.target)
            data.relations[x.name] = {k: r.randrange(n) for k in all_places(shape)}
    return data, family


def sizes_for(r, program, low):
    """Small ones, or one beside the others that fills lanes and blocks of rows."""
    sizes = {n: r.choice([low, 1, 2, 2, 3, 3, 4]) for n in program.sizes}
    if program.most > 4 and r.random() < 0.8:
        long = r.choice(program.sizes)
        # Derivatives by all elements of a square would take too long.
        is_square = any(p.dims.count(name_ix(long)) > 1 for p in program.params)
        many = r.random() < 0.15 and not is_square
        sizes[long] = r.choice([64, 65, 70]) if many else r.randrange(4, program.most + 1)
        for n in program.sizes:
            if n != long:
                sizes[n] = min(sizes[n], 2) if many else r.randrange(1, 12) if r.random() < 0.4 else sizes[n]
    return sizes


def all_places(shape):
    out = [()]
    for n in shape:
        out = [p + (k,) for p in out for k in range(n)]
    return out


def pattern(r, shape, family):
    """Places of a relation, often with empty rows: the first, the last, one in the middle, all of them."""
    density = r.choice([0.0, 0.2, 0.5, 0.5, 0.8, 1.0] if family == "empty" else [0.3, 0.5, 0.5, 0.8, 1.0])
    places = {k for k in all_places(shape) if r.random() < density}
    for axis, n in enumerate(shape):
        if n and r.random() < (0.6 if family == "empty" else 0.3):
            empty = r.choice([0, n - 1, n // 2])
            places = {k for k in places if k[axis] != empty}
    return places


def poison(data, read, seed):
    """The same data with numbers that no result depends on replaced by what must not be looked at."""
    r = random.Random(f"poison {seed}")
    bad = [float("nan"), float("nan"), float("inf"), float("-inf"), 1e308]
    dense = {
        name: [v if (name, k) in read else r.choice(bad) for k, v in enumerate(values)] for name, values in data.dense.items()
    }
    sparse = {name: {k: v if (name, k) in read else r.choice(bad) for k, v in m.items()} for name, m in data.sparse.items()}
    return Data(data.sizes, dense, sparse, data.relations)
