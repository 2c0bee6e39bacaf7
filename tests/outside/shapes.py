"""Programs of the shapes that passes over loops look for: searches by rows and columns, histograms, windows, pairs of points, sums along columns.

A shape is a tensor. What it is made of are parameters or the shapes before it, so shapes are put together as the layers of a program.
"""

from language import Param, Relation, ix, ix_add, ix_shift, name_ix


def get(name, *places):
    return ("get", ("var", name), tuple(places)) if places else ("var", name)


def mul(*factors):
    out = factors[0]
    for f in factors[1:]:
        out = ("mul", out, f)
    return out


def both(p, q):
    return ("and", p, q)


def minus(a, b):
    return ("sub", a, b)


class Shapes:
    """What the generator makes of shapes: it has `fresh`, `chance` and the random numbers `r`."""

    # -- declarations

    def shaped(self):
        """Parameters, relations, the names of sizes, and the body."""
        self.sizes = [f"{n}{self.tag}" for n in "nmk"[: self.r.choice([1, 2, 2, 3, 3])]]
        self.extents = [name_ix(n) for n in self.sizes]
        self.params, self.relations, self.known = [], [], []
        lets = []
        for _ in range(self.r.choice([1, 1, 2, 2, 3])):
            dims, value = self.shape()
            name = self.fresh("t")
            lets.append((name, value))
            self.known.append((name, dims))
        body = self.ending([(name, dims) for name, dims in self.known if any(name == n for n, _ in lets)])
        for name, value in reversed(lets):
            body = ("let", name, value, body)
        if not self.params:
            # A program of maps alone has no derivative.
            self.params.append(Param(self.fresh("x"), "dense", ()))
        return tuple(self.params), tuple(self.relations), body

    def ending(self, tensors):
        """The last tensor, or several, or a loss."""
        (last, dims), others = tensors[-1], tensors[:-1]
        p = self.r.random()
        if p < 0.45 or not dims:
            value = get(last)
        elif p < 0.75:
            value = self.over("sum", dims, lambda at: self.each(get(last, *at)))
        else:
            target = self.tensor(*dims)
            value = self.over("sum", dims, lambda at: ("powi", minus(get(last, *at), get(target, *at)), 2))
        if others and self.chance(0.5):
            name, _ = self.r.choice(others)
            value = ("pair", value, get(name))
        return value

    def size(self):
        return self.r.choice(self.extents)

    def few(self, *counts):
        """A literal extent, mostly: loops over these are unrolled."""
        return ix(self.r.choice(counts or (2, 3, 3, 4, 5))) if self.chance(0.75) else self.size()

    def tensor(self, *dims):
        """A tensor that is known, or a parameter more."""
        same = [name for name, d in self.known if d == dims]
        if same and self.chance(0.6):
            return self.r.choice(same)
        name = self.fresh("x")
        self.params.append(Param(name, "dense", dims))
        self.known.append((name, dims))
        return name

    def sparse(self, *dims):
        name = self.fresh("x")
        self.params.append(Param(name, self.r.choice(["csr", "csr", "csc", "coo"]), dims))
        return name

    def map(self, source, target):
        same = [x.name for x in self.relations if x.dims == (source,) and x.target == target]
        if same and self.chance(0.4):
            return self.r.choice(same)
        name = self.fresh("f")
        self.relations.append(Relation(name, (source,), target))
        return name

    # -- terms

    def over(self, binder, dims, body):
        """`binder i < n. binder j < m. body`, of the places."""
        names = [self.fresh("j" if binder == "sum" else "i") for _ in dims]
        e = body(tuple(name_ix(n) for n in names))
        for name, d in zip(reversed(names), reversed(dims)):
            e = (binder, name, d, e)
        return e

    def each(self, e):
        """A function of an element."""
        r = self.r
        return r.choice(
            [
                lambda: e,
                lambda: e,
                lambda: ("powi", e, 2),
                lambda: ("call", r.choice(["sin", "tanh", "relu", "abs", "sigmoid", "softplus"]), (e,)),
                lambda: ("call", "exp", (("neg", ("powi", e, 2)),)),
                lambda: mul(("num", r.choice([0.5, 2.0, 3.0])), e),
                lambda: ("add", e, ("num", 1.0)),
            ]
        )()

    def positive_row(self, x, at, d):
        """A number of a row that is not zero for usual data, or a plain one."""
        r = self.r
        total = lambda f: self.over("sum", (d,), lambda j: f(get(x, *at, *j)))
        return r.choice(
            [
                lambda: ("add", total(lambda e: ("powi", e, 2)), ("num", 1.0)),
                lambda: ("call", "sqrt", (("add", total(lambda e: ("powi", e, 2)), ("num", 0.5)),)),
                lambda: total(lambda e: ("call", "exp", (e,))),
                lambda: total(lambda e: e),
                lambda: self.over("max", (d,), lambda j: get(x, *at, *j)),
            ]
        )()

    def distance(self, x, y, d):
        """How far a row of one is from a row of the other."""
        kind = self.r.choice(["square", "square", "dot", "one"])
        if kind == "dot":
            return lambda i, j: self.over("sum", (d,), lambda c: mul(get(x, i, *c), get(y, j, *c)))
        part = lambda i, j, c: minus(get(x, i, *c), get(y, j, *c))
        measure = (lambda e: ("powi", e, 2)) if kind == "square" else (lambda e: ("call", "abs", (e,)))
        return lambda i, j: self.over("sum", (d,), lambda c: measure(part(i, j, c)))

    def place(self, which, d, body):
        """The place of an extremum, as an index."""
        i = self.fresh("k")
        return ix(0, (1, ("arg", which, i, d, body(name_ix(i)))))

    def which(self):
        return self.r.choice(["argmax", "argmin"])

    # -- shapes: dimensions and value

    def shape(self):
        shapes = [
            self.nearest, self.nearest, self.places_of_rows, self.best_of_rows, self.counted_by_place, self.divided, self.divided, self.powers,
            self.union, self.union, self.joint, self.histogram, self.histogram, self.shifted, self.corners, self.windows, self.windows, self.pooled, self.stencil,
            self.columns, self.columns, self.normalised, self.pairs, self.pairs, self.growing, self.ends, self.matrices, self.triangle, self.gathered, self.exists,
            self.entries, self.alike, self.alike, self.softmax, self.few_columns, self.rotated, self.masked, self.joined,
        ]  # fmt: skip
        return self.r.choice(shapes)()

    def nearest(self):
        """The nearest of some points to each of others: its distance, its number, what belongs to it; or both ways."""
        n, k, d = self.size(), self.size(), self.few(1, 2, 3)
        x, y = self.tensor(n, d), self.tensor(k, d)
        kind, which = self.r.choice(["least", "place", "value", "both", "both"]), self.r.choice(["min", "max"])
        far, table = self.distance(x, y, d), None
        if self.chance(0.4):
            table, distances = self.fresh("t"), self.over("gen", (n, k), lambda at: far(*at))
        read = (lambda i, j: get(table, i, j)) if table else far
        found = lambda i: self.place("arg" + which, k, lambda j: read(i, j))
        dims = (n,)
        if kind == "both":
            rows = self.over("sum", (n,), lambda i: self.over(which, (k,), lambda j: read(*i, *j)))
            columns = self.over("sum", (k,), lambda j: self.over(which, (n,), lambda i: read(*i, *j)))
            dims, value = (), ("add", rows, columns)
        elif kind == "least":
            value = self.over("gen", (n,), lambda i: self.each(self.over(which, (k,), lambda j: read(*i, *j))))
        elif kind == "place":
            value = self.over("gen", (n,), lambda i: ("ixv", found(*i)))
        else:
            z = self.tensor(k)
            value = self.over("gen", (n,), lambda i: self.each(get(z, found(*i))))
        return dims, ("let", table, distances, value) if table else value

    def places_of_rows(self):
        """Places of extrema as numbers, along rows or columns."""
        n, m, which = self.size(), self.few() if self.chance(0.4) else self.size(), self.which()
        along = self.chance(0.5)
        x = self.tensor(n, m) if along else self.tensor(m, n)
        e = (lambda i, j: get(x, i, j)) if along else (lambda i, j: get(x, j, i))
        k = lambda i: ("ixv", self.place(which, m, lambda j: e(i, j)))
        scale = self.tensor(n)
        return (n,), self.over("gen", (n,), lambda i: mul(k(*i), get(scale, *i)) if self.chance(0.6) else self.each(k(*i)))

    def best_of_rows(self):
        n, m, binder = self.size(), self.few() if self.chance(0.5) else self.size(), self.r.choice(["max", "min"])
        x, w = (self.tensor(n, m), self.tensor(m)) if self.chance(0.5) else (None, None)
        if x is None:
            x = self.tensor(m, n)
            return (n,), self.over("gen", (n,), lambda i: self.over(binder, (m,), lambda j: self.each(get(x, *j, *i))))
        return (n,), self.over("gen", (n,), lambda i: self.over(binder, (m,), lambda j: mul(get(x, *i, *j), get(w, *j))))

    def counted_by_place(self):
        """Sums by the place of an extremum, `[argmax(..) = k]`, which may be kept as a number, alone or with another test."""
        n, m, which = self.size(), self.few() if self.chance(0.4) else self.size(), self.which()
        x, y = self.tensor(n, m), self.tensor(n)
        found = lambda i: self.place(which, m, lambda j: get(x, i, j))
        kind = self.r.choice(["place", "place", "number", "number", "two", "each"])
        if kind == "place":
            return (m,), self.over("gen", (m,), lambda k: self.over("sum", (n,), lambda i: ("iv", ("eq", found(*i), *k), self.each(get(y, *i)))))
        if kind == "each":
            return (n, m), self.over("gen", (n, m), lambda at: ("iv", (self.r.choice(["eq", "eq", "ne", "lt"]), found(at[0]), at[1]), get(x, *at)))
        number, shift = self.fresh("t"), self.r.choice([0, 0, 0, 1, -1])
        numbers = self.over("gen", (n,), lambda i: ("ixv", ix_shift(found(*i), shift)))
        told = lambda i, k: ("rcmp", "=", get(number, i), ("ixv", k))
        if kind == "number":
            value = self.over("gen", (m,), lambda k: self.over("sum", (n,), lambda i: ("iv", told(*i, *k), self.each(get(y, *i)))))
            return (m,), ("let", number, numbers, value)
        k = self.size()
        f = self.map(n, k)
        second = lambda i, b: ("eq", ix(0, (1, ("map", f, (i,)))), b)
        test = lambda i, a, b: both(told(i, a), second(i, b)) if self.chance(0.5) else both(second(i, b), told(i, a))
        value = self.over("gen", (m, k), lambda p: self.over("sum", (n,), lambda i: ("iv", test(*i, *p), self.each(get(y, *i)))))
        return (m, k), ("let", number, numbers, value)

    def divided(self):
        """Rows or columns by a number of each, or all by one."""
        n, m = self.size(), self.few() if self.chance(0.3) else self.size()
        x = self.tensor(n, m)
        kind = self.r.choice(["rows", "columns", "all", "own"])
        if kind == "all":
            s = self.tensor()
            return (n, m), self.over("gen", (n, m), lambda at: ("div", self.each(get(x, *at)), get(s)))
        if kind == "own":
            row = self.fresh("t")
            sums = self.over("gen", (n,), lambda i: self.positive_row(x, i, m))
            return (n, m), ("let", row, sums, self.over("gen", (n, m), lambda at: ("div", self.each(get(x, *at)), get(row, at[0]))))
        s = self.tensor(n if kind == "rows" else m)
        at_s = 0 if kind == "rows" else 1
        if self.chance(0.3):
            return (n,), self.over("gen", (n,), lambda i: self.over("sum", (m,), lambda j: ("div", self.each(get(x, *i, *j)), get(s, *(i, j)[at_s]))))
        return (n, m), self.over("gen", (n, m), lambda at: ("div", self.each(get(x, *at)), get(s, at[at_s])))

    def powers(self):
        """Quotients by powers of one number."""
        n, m = self.size(), self.size()
        x, y = self.tensor(n), self.tensor(m)
        root = lambda i, j: ("call", "sqrt", (("add", ("powi", minus(get(x, i), get(y, j)), 2), ("num", 0.25)),))
        near = lambda i, j: minus(("div", ("num", 1.0), ("powi", root(i, j), self.r.choice([6, 3, 4]))), ("div", get(x, i), root(i, j)))
        return (n,), self.over("gen", (n,), lambda i: self.over("sum", (m,), lambda j: near(*i, *j)))

    def union(self):
        """Sums over places that are told in one of two ways, of what is added there."""
        n, k = self.size(), self.size()
        f, g = self.map(n, k), self.map(n, k)
        x, a, b = self.tensor(n), self.tensor(n), self.tensor(n)
        at = lambda m, s: ix(0, (1, ("map", m, (s,))))
        by_place = self.chance(0.3)
        if by_place:
            table = self.tensor(n, k)
            places = [self.which(), self.which()]
            first = lambda s: self.place(places[0], k, lambda j: get(table, s, j))
        else:
            first = lambda s: at(f, s)
        p, q = (lambda s, j: ("eq", first(s), j)), (lambda s, j: ("eq", at(g, s), j))
        kind = self.r.choice(["bound", "inline", "plain"])
        if kind == "plain":
            return (k,), self.over("gen", (k,), lambda j: self.over("sum", (n,), lambda s: ("iv", ("or", p(*s, *j), q(*s, *j)), self.each(get(x, *s)))))
        added = lambda s, j: ("add", ("iv", p(s, j), get(a, s)), ("iv", q(s, j), get(b, s)))
        if kind == "inline":
            return (k,), self.over("gen", (k,), lambda j: self.over("sum", (n,), lambda s: mul(get(x, *s), added(*s, *j))))
        z = self.fresh("t")
        zs = self.over("gen", (n, k), lambda at: added(*at))
        guarded = lambda s, j: ("iv", ("or", p(s, j), q(s, j)), mul(get(x, s), get(z, s, j)))
        if self.chance(0.3):
            body = self.over("sum", (n, k), lambda at: self.each(guarded(*at)))
            return (), ("let", z, zs, body)
        return (k,), ("let", z, zs, self.over("gen", (k,), lambda j: self.over("sum", (n,), lambda s: guarded(*s, *j))))

    def joint(self):
        """Sums at places that two tests of indices tell together."""
        n, k, m = self.size(), self.size(), self.size()
        f = self.map(n, k)
        at = lambda i: ix(0, (1, ("map", f, (i,))))
        x = self.tensor(n)
        if self.chance(0.5):
            g = self.map(n, m)
            second = lambda i, b: ("eq", ix(0, (1, ("map", g, (i,)))), b)
        else:
            shift = self.r.choice([0, 0, 1, -1])
            second = lambda i, b: (self.r.choice(["eq", "le", "lt"]), ix_shift(i, shift), b)
        test = lambda i, a, b: both(("eq", at(i), a), second(i, b))
        return (k, m), self.over("gen", (k, m), lambda p: self.over("sum", (n,), lambda i: ("iv", test(*i, *p), self.each(get(x, *i)))))

    def histogram(self):
        """Sums by the target of a map, of numbers or of rows."""
        n, k = self.size(), self.size()
        f = self.map(n, k)
        shift = self.r.choice([0, 0, 0, 1, -1, 2])
        test = lambda i, j: ("eq", ix(shift, (1, ("map", f, (i,)))), j)
        if self.chance(0.5):
            x = self.tensor(n)
            body = lambda i: self.each(get(x, i))
            if self.chance(0.3):
                w = self.tensor(k)
                return (k,), self.over("gen", (k,), lambda j: self.over("sum", (n,), lambda i: ("iv", test(*i, *j), mul(body(*i), get(w, *j)))))
            return (k,), self.over("gen", (k,), lambda j: self.over("sum", (n,), lambda i: ("iv", test(*i, *j), body(*i))))
        m = self.few() if self.chance(0.5) else self.size()
        x = self.tensor(n, m)
        return (k, m), self.over("gen", (k, m), lambda p: self.over("sum", (n,), lambda i: ("iv", test(*i, p[0]), self.each(get(x, *i, p[1])))))

    def shifted(self):
        """What is read at a target and beside it, behind a bracket: its derivative adds at shifted targets."""
        n, k = self.size(), self.size()
        f, x, w = self.map(n, k), self.tensor(k), self.tensor(n)
        c = self.r.choice([1, -1, 2])
        at = lambda i, by: ix(by, (1, ("map", f, (i,))))
        inside = lambda i: ("lt", at(i, c), k) if c > 0 else ("le", ix(0), at(i, c))
        part = lambda i: mul(minus(("num", 1.0), get(w, i)), get(x, at(i, 0)))
        return (n,), self.over("gen", (n,), lambda i: ("add", part(*i), ("iv", inside(*i), mul(get(w, *i), get(x, at(*i, c))))))

    def corners(self):
        """A grid that is read at two coordinates of each point, and beside them: its derivative adds at each corner."""
        n, k, m = self.size(), self.size(), self.size()
        f, g, w = self.map(n, k), self.map(n, m), self.tensor(n)
        wide = self.chance(0.7)
        u = self.tensor(ix_shift(k, 1), ix_shift(m, 1)) if wide else self.tensor(k, m)
        at = lambda x, i, by: ix(by, (1, ("map", x, (i,))))
        read = lambda i, a, b: get(u, at(f, i, a), at(g, i, b))
        corner = (lambda i: read(i, *self.r.choice([(0, 1), (1, 0), (1, 1)]))) if wide else (lambda i: read(i, 0, 0))
        value = lambda i: ("add", mul(get(w, i), read(i, 0, 0)), mul(minus(("num", 1.0), get(w, i)), corner(i)))
        return (n,), self.over("gen", (n,), lambda i: self.each(value(*i)))

    def windows(self):
        """Sums, extrema and places in windows of a signal."""
        n, w = self.size(), self.few(2, 3, 4)
        step = self.r.choice([1, 1, 1, 2])
        binder = self.r.choice(["sum", "sum", "max", "min", "argmax", "argmin"])
        place = (lambda i, a: ix_add(ix(0, *((step * c, v) for c, v in i[2])), a)) if self.chance(0.7) else (lambda i, a: ix_add(i, ix(0, *((step * c, v) for c, v in a[2]))))
        rest = 1 if step == 1 else step
        # step * (n - 1) + (w - 1) + 1 or (n - 1) + step * (w - 1) + 1, at most.
        length = ix_shift(ix_add(ix(0, *((rest * c, v) for c, v in n[2])), ix(rest * w[1], *((rest * c, v) for c, v in w[2]))), 1 - rest)
        channels = self.few(2, 3) if self.chance(0.3) else None
        dims = (n,) if channels is None else (channels, n)
        x, f = (self.tensor(length), self.tensor(w)) if channels is None else (self.tensor(channels, length), self.tensor(channels, w))
        if length[1] < 0 or n[1] < 0:
            return self.best_of_rows()

        def one(*at):
            rows, i = at[:-1], at[-1]
            read = lambda a: get(x, *rows, place(i, a))
            if binder.startswith("arg"):
                return ("ixv", self.place(binder, w, lambda a: read(a)))
            body = lambda a: mul(read(*a), get(f, *rows, *a)) if self.chance(0.7) else self.each(read(*a))
            return self.over(binder, (w,), body)

        return dims, self.over("gen", dims, lambda at: one(*at))

    def pooled(self):
        """Extrema, sums or places of the cells of a picture."""
        n, m, s = self.size(), self.size(), self.r.choice([2, 2, 3])
        times = lambda d: ix(s * d[1], *((s * c, v) for c, v in d[2]))
        x = self.tensor(times(n), times(m))
        binder = self.r.choice(["max", "max", "min", "sum", "row"])
        read = lambda i, j, a, b: get(x, ix_add(times(i), a), ix_add(times(j), b))
        if binder == "row":
            return (n, m), self.over("gen", (n, m), lambda p: ("ixv", self.place("argmax", ix(s), lambda a: read(*p, a, ix(0)))))
        return (n, m), self.over("gen", (n, m), lambda p: self.each(self.over(binder, (ix(s), ix(s)), lambda q: read(*p, *q))))

    def stencil(self):
        """Neighbours behind brackets, and cells of a fixed border."""
        n, m = self.size(), self.size()
        x = self.tensor(n, m) if self.chance(0.5) else None
        y = self.tensor(n)
        reach = self.r.choice([1, 1, 2])
        inner = lambda e, d, by: ("le", ix(0), ix_shift(e, by)) if by < 0 else ("lt", ix_shift(e, by), d)
        if x is None:
            near = lambda i, by: ("iv", inner(i, n, by), get(y, ix_shift(i, by)))
            return (n,), self.over("gen", (n,), lambda i: self.each(minus(("add", near(*i, -reach), near(*i, reach)), mul(("num", 2.0), get(y, *i)))))
        down = lambda i, j, by: ("iv", inner(i, n, by), get(x, ix_shift(i, by), j))
        side = lambda i, j, by: ("iv", inner(j, m, by), get(x, i, ix_shift(j, by)))
        cross = lambda i, j: ("add", ("add", down(i, j, -1), down(i, j, 1)), ("add", side(i, j, -reach), side(i, j, reach)))
        return (n, m), self.over("gen", (n, m), lambda p: minus(self.each(cross(*p)), get(x, *p)))

    def columns(self):
        """Sums along columns, of a parameter or of rows that are computed before."""
        n, m = self.size(), self.few() if self.chance(0.3) else self.size()
        x = self.tensor(n, m)
        if self.chance(0.5):
            w = self.tensor(n)
            return (m,), self.over("gen", (m,), lambda j: self.over("sum", (n,), lambda i: mul(self.each(get(x, *i, *j)), get(w, *i))))
        rows, w = self.fresh("t"), self.tensor(m)
        made = self.over("gen", (n, m), lambda p: ("call", self.r.choice(["tanh", "exp", "sin", "relu"]), (mul(get(x, *p), get(w, p[1])),)))
        kind = self.r.choice(["sum", "both", "max"])
        if kind == "both":
            value = self.over("gen", (m,), lambda j: self.over("sum", (n,), lambda i: mul(get(rows, *i, *j), self.over("sum", (m,), lambda l: get(rows, *i, *l)))))
        else:
            value = self.over("gen", (m,), lambda j: self.over(kind, (n,), lambda i: get(rows, *i, *j)))
        return (m,), ("let", rows, made, value)

    def normalised(self):
        """Columns with mean 0, over their deviation."""
        n, m = self.size(), self.few() if self.chance(0.3) else self.size()
        x, mean, spread = self.tensor(n, m), self.fresh("t"), self.fresh("t")
        means = self.over("gen", (m,), lambda j: ("div", self.over("sum", (n,), lambda i: get(x, *i, *j)), ("ixv", n)))
        off = lambda i, j: minus(get(x, i, j), get(mean, j))
        spreads = self.over("gen", (m,), lambda j: ("add", ("div", self.over("sum", (n,), lambda i: ("powi", off(*i, *j), 2)), ("ixv", n)), ("num", 0.125)))
        root = (lambda j: ("call", "sqrt", (get(spread, j),))) if self.chance(0.6) else (lambda j: get(spread, j))
        value = self.over("gen", (n, m), lambda p: ("div", off(*p), root(p[1])))
        return (n, m), ("let", mean, means, ("let", spread, spreads, value))

    def pairs(self):
        """Sums over pairs of points, all of them or half."""
        n, d = self.size(), self.few(1, 2, 3)
        x = self.tensor(n, d)
        near = lambda i, j: self.r.choice(
            [
                lambda s: ("call", "exp", (("neg", s),)),
                lambda s: ("div", ("num", 1.0), ("add", ("num", 1.0), s)),
                lambda s: ("call", "relu", (minus(("num", 1.0), s),)),
                lambda s: ("div", ("num", 1.0), ("call", "sqrt", (("add", s, ("num", 0.5)),))),
            ]
        )(self.over("sum", (d,), lambda c: ("powi", minus(get(x, i, *c), get(x, j, *c)), 2)))
        guard = self.r.choice([None, "lt", "ne", "lt"])
        one = lambda i, j: near(i, j) if guard is None else ("iv", (guard, i, j), near(i, j))
        if self.chance(0.5):
            return (), self.over("sum", (n, n), lambda p: one(*p))
        w = self.tensor(n)
        weight = (lambda i, j: mul(get(w, i), get(w, j))) if self.chance(0.5) else (lambda i, j: get(w, j))
        return (n,), self.over("gen", (n,), lambda i: self.over("sum", (n,), lambda j: mul(weight(*i, *j), one(*i, *j))))

    def growing(self):
        """Sums up to an index, or from it on."""
        n, m = self.size(), self.few() if self.chance(0.3) else self.size()
        order = self.r.choice([lambda i, j: ("le", j, i), lambda i, j: ("lt", j, i), lambda i, j: ("le", i, j), lambda i, j: ("lt", i, j)])
        if self.chance(0.5):
            x = self.tensor(n)
            return (n,), self.over("gen", (n,), lambda i: self.each(self.over("sum", (n,), lambda j: ("iv", order(*i, *j), self.each(get(x, *j))))))
        x = self.tensor(n, m)
        return (n, m), self.over("gen", (n, m), lambda p: self.over("sum", (n,), lambda j: ("iv", order(p[0], *j), self.each(get(x, *j, p[1])))))

    def ends(self):
        """Sums over ranges that end at the target of a map, which depends on what is around or not."""
        n, m = self.size(), self.size()
        f, j, order = self.map(n, m), self.fresh("j"), self.r.choice(["lt", "le"])
        x, w = self.tensor(n, m), self.tensor(m)
        read = self.r.choice([lambda i: mul(get(x, i, name_ix(j)), get(w, name_ix(j))), lambda i: self.each(get(w, name_ix(j)))])
        one = lambda i: ("sum", j, m, ("iv", (order, name_ix(j), ix(0, (1, ("map", f, (i,))))), read(i)), "ends")
        return (n,), self.over("gen", (n,), lambda i: self.each(one(*i)))

    def matrices(self):
        n, m, k = self.size(), self.size(), self.few() if self.chance(0.3) else self.size()
        x = self.tensor(n, k)
        y, turned = (self.tensor(m, k), True) if self.chance(0.5) else (self.tensor(k, m), False)
        term = lambda i, j, l: mul(get(x, i, l), get(y, j, l) if turned else get(y, l, j))
        return (n, m), self.over("gen", (n, m), lambda p: self.each(self.over("sum", (k,), lambda l: term(*p, *l))))

    def triangle(self):
        """Products with a triangle of a matrix, and a diagonal of ones."""
        n = self.size()
        x, y = self.tensor(n, n), self.tensor(n)
        order = self.r.choice(["lt", "le"])
        flip = self.chance(0.5)
        entry = lambda i, j: get(x, j, i) if flip else get(x, i, j)
        one = lambda i, j: ("iv", (order, j, i), mul(entry(i, j), get(y, j)))
        whole = lambda i, j: ("add", one(i, j), ("iv", ("eq", i, j), get(y, j))) if order == "lt" else one(i, j)
        return (n,), self.over("gen", (n,), lambda i: self.over("sum", (n,), lambda j: whole(*i, *j)))

    def gathered(self):
        """Functions of rows that are read through a map."""
        n, k, m = self.size(), self.size(), self.few() if self.chance(0.5) else self.size()
        f, x, y = self.map(n, k), self.tensor(k, m), self.tensor(n, m)
        at = lambda i: ix(0, (1, ("map", f, (i,))))
        if self.chance(0.5):
            return (n, m), self.over("gen", (n, m), lambda p: self.each(minus(get(y, *p), get(x, at(p[0]), p[1]))))
        return (n,), self.over("gen", (n,), lambda i: self.each(self.over("sum", (m,), lambda j: mul(get(y, *i, *j), self.each(get(x, at(*i), *j))))))

    def exists(self):
        """Whether some number of a row or column is not zero, or large."""
        n, m = self.size(), self.size()
        x, y = self.tensor(n, m), self.tensor(m)
        q = self.fresh("q")
        test = lambda j: ("ex", q, n, ("rcmp", self.r.choice(["!=", ">", "<="]), get(x, name_ix(q), j), ("num", self.r.choice([0.0, 1.0]))))
        if self.chance(0.5):
            return (m,), self.over("gen", (m,), lambda j: ("iv", test(*j), self.each(get(y, *j))))
        z = self.tensor(n, m)
        return (n,), self.over("gen", (n,), lambda i: self.over("sum", (m,), lambda j: ("iv", test(*j), mul(get(z, *i, *j), get(y, *j)))))

    def entries(self):
        """A sparse matrix times a vector, its row maxima, or products on its entries."""
        n, m = self.size(), self.size()
        a, kind = self.sparse(n, m), self.r.choice(["product", "transposed", "sampled", "rows"])
        read = lambda i, j: ("get", ("var", a), (i, j))
        if kind == "product":
            x = self.tensor(m)
            return (n,), self.over("gen", (n,), lambda i: self.over("sum", (m,), lambda j: mul(self.each(read(*i, *j)), get(x, *j))))
        if kind == "transposed":
            x = self.tensor(n)
            return (m,), self.over("gen", (m,), lambda j: self.over("sum", (n,), lambda i: mul(read(*i, *j), get(x, *i))))
        if kind == "rows":
            row = self.fresh("t")
            inside = lambda i, j: ("iv", ("pat", a, (i, j)), ("call", "exp", (read(i, j),)))
            sums = self.over("gen", (n,), lambda i: self.over("sum", (m,), lambda j: inside(*i, *j)))
            x = self.tensor(m)
            quotient = lambda i, j: mul(("div", inside(i, j), get(row, i)), get(x, j))
            return (n,), ("let", row, sums, self.over("gen", (n,), lambda i: self.over("sum", (m,), lambda j: ("iv", ("pat", a, (*i, *j)), quotient(*i, *j)))))
        d = self.few(2, 3)
        x, y = self.tensor(n, d), self.tensor(m, d)
        sampled = lambda i, j: mul(read(i, j), self.over("sum", (d,), lambda c: mul(get(x, i, *c), get(y, j, *c))))
        return (n,), self.over("gen", (n,), lambda i: self.over("sum", (m,), lambda j: self.each(sampled(*i, *j)) if self.chance(0.2) else sampled(*i, *j)))

    def softmax(self):
        n, m = self.size(), self.few() if self.chance(0.4) else self.size()
        x, top, total = self.tensor(n, m), self.fresh("t"), self.fresh("t")
        tops = self.over("gen", (n,), lambda i: self.over("max", (m,), lambda j: get(x, *i, *j)))
        weight = lambda i, j: ("call", "exp", (minus(get(x, i, j), get(top, i)),))
        totals = self.over("gen", (n,), lambda i: self.over("sum", (m,), lambda j: weight(*i, *j)))
        if self.chance(0.5):
            y, f = self.tensor(n), self.map(n, m)
            picked = lambda i: get(x, i, ix(0, (1, ("map", f, (i,)))))
            loss = lambda i: mul(get(y, i), minus(("add", ("call", "ln", (get(total, i),)), get(top, i)), picked(i)))
            dims, value = (n,), self.over("gen", (n,), lambda i: loss(*i))
        else:
            dims, value = (n, m), self.over("gen", (n, m), lambda p: ("div", weight(*p), get(total, p[0])))
        return dims, ("let", top, tops, ("let", total, totals, value))

    def few_columns(self):
        """Searches among two or three numbers, and what depends on which of them is best."""
        n, d, which = self.size(), ix(self.r.choice([2, 2, 3])), self.which()
        x, y = self.tensor(n, d), self.tensor(n)
        found = lambda i: self.place(which, d, lambda j: get(x, i, j))
        if self.chance(0.5):
            return (n,), self.over("gen", (n,), lambda i: ("iv", (self.r.choice(["eq", "lt", "ne"]), found(*i), ix(self.r.choice([0, 1]))), self.each(get(y, *i))))
        w = self.tensor(d)
        return (n,), self.over("gen", (n,), lambda i: mul(get(w, found(*i)), get(y, *i)))

    def rotated(self):
        """Rows of a few numbers, with much arithmetic in each."""
        n, d, c = self.size(), ix(self.r.choice([2, 3])), ix(self.r.choice([2, 3]))
        x, a, b = self.tensor(n, d), self.tensor(n, c, d), self.tensor(c)
        turned = lambda i, j: self.over("sum", (d,), lambda l: mul(get(a, i, j, *l), get(x, i, *l)))
        if self.chance(0.5):
            return (n, c), self.over("gen", (n, c), lambda p: minus(turned(*p), get(b, p[1])))
        return (n,), self.over("gen", (n,), lambda i: self.over("sum", (c,), lambda j: ("powi", minus(turned(*i, *j), get(b, *j)), 2)))

    def alike(self):
        """Rows in which all places are alike but entries of a relation, or sources of a target: the best, its place, sums of a function."""
        n, m, r = self.size(), self.size(), self.r
        kind = r.choice(["relation", "relation", "sources", "targets", "sparse"])
        x = self.tensor(m)
        if kind == "sparse":
            a = self.sparse(n, m)
            row = lambda i, j: self.each(get(a, i, j))
        else:
            if kind == "relation":
                name = self.fresh("E")
                self.relations.append(Relation(name, (n, m)))
                inside = lambda i, j: ("rel", name, (i, j))
            else:
                source, target = (m, n) if kind == "sources" else (n, m)
                name = self.map(source, target)
                at = lambda s: ix(0, (1, ("map", name, (s,))))
                inside = lambda i, j: ("eq", at(j), i) if kind == "sources" else ("eq", at(i), j)
            y = self.tensor(n)
            other = r.choice([lambda i: ("num", r.choice([0.0, 1.0, 2.5])), lambda i: ("neg", ("num", 3.0)), lambda i: get(y, i)])
            row = lambda i, j: ("select", inside(i, j), self.each(get(x, j)), other(i))
        use = r.choice(["best", "best", "place", "sum", "sum", "columns", "weighted", "softmax"])
        which, dims = r.choice(["max", "min"]), (n,)
        if use == "best":
            return dims, self.over("gen", dims, lambda i: self.over(which, (m,), lambda j: row(*i, *j)))
        if use == "place":
            return dims, self.over("gen", dims, lambda i: ("ixv", self.place("arg" + which, m, lambda j: row(*i, j))))
        if use == "columns":
            return (m,), self.over("gen", (m,), lambda j: self.over("sum", dims, lambda i: self.each(row(*i, *j))))
        if use == "weighted":
            return dims, self.over("gen", dims, lambda i: self.over("sum", (m,), lambda j: mul(self.each(row(*i, *j)), get(x, *j))))
        if use == "sum":
            return dims, self.over("gen", dims, lambda i: self.over("sum", (m,), lambda j: self.each(row(*i, *j))))
        rows, top = self.fresh("t"), self.fresh("t")
        best = self.over("gen", dims, lambda i: self.over("max", (m,), lambda j: get(rows, *i, *j)))
        part = lambda i, j: ("call", "exp", (minus(get(rows, i, j), get(top, i)),))
        total = self.over("gen", dims, lambda i: ("call", "ln", (self.over("sum", (m,), lambda j: part(*i, *j)),)))
        return dims, ("let", rows, self.over("gen", (n, m), lambda at: row(*at)), ("let", top, best, total))

    def masked(self):
        """Products under tests of numbers, and alternatives."""
        n, m = self.size(), self.size()
        x, y = self.tensor(n, m), self.tensor(m)
        test = lambda i, j: ("rcmp", self.r.choice([">", "<", ">=", "!="]), get(x, i, j), self.r.choice([("num", 0.0), get(y, j)]))
        kind = self.r.choice(["sum", "select", "huber"])
        if kind == "sum":
            return (n,), self.over("gen", (n,), lambda i: self.over("sum", (m,), lambda j: ("iv", test(*i, *j), mul(get(x, *i, *j), get(y, *j)))))
        if kind == "select":
            arm = lambda i, j: self.each(get(x, i, j))
            return (n, m), self.over("gen", (n, m), lambda p: ("select", test(*p), arm(*p), mul(("num", 0.5), get(y, p[1]))))
        off = lambda i, j: minus(get(x, i, j), get(y, j))
        small = lambda e: ("select", ("rcmp", "<", ("call", "abs", (e,)), ("num", 1.0)), mul(("num", 0.5), ("powi", e, 2)), minus(("call", "abs", (e,)), ("num", 0.5)))
        return (n,), self.over("gen", (n,), lambda i: self.over("sum", (m,), lambda j: small(off(*i, *j))))

    def joined(self):
        """Two halves, one behind the other, or beside."""
        n, m = self.size(), self.size()
        x, y = self.tensor(n), self.tensor(m)
        long = ix_add(n, m)
        second = lambda i: ix_add(i, n, -1)
        one = lambda i: ("iv", ("lt", i, n), self.each(get(x, i)))
        two = lambda i: ("iv", both(("le", ix(0), second(i)), ("lt", second(i), m)), self.each(get(y, second(i))))
        return (long,), self.over("gen", (long,), lambda i: ("add", one(*i), two(*i)))
