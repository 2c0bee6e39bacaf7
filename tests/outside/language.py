"""Programs as trees, and their text.

A term is a tuple whose head names its kind:

    ('num', float)                        a literal
    ('ixv', ix)                           an index expression as a number
    ('var', name)                         a parameter, or what `let` or a definition binds
    ('get', term, (ix, ..))               an element of a tensor
    ('val', name, (ix, ..))               a stored value of a sparse parameter, `A.value(..)`
    ('neg', e) ('add', e, e) ('sub', e, e) ('mul', e, e) ('div', e, e) ('powi', e, k)
    ('call', function, (e, ..))           a built-in scalar function
    ('fun', function, (e, ..))            a scalar function of the program
    ('def', definition, (term, ..))       a definition of the program or of the library
    ('cmp', op, e, e)                     a comparison as a number
    ('iv', p, e)                          a bracket
    ('select', p, e, e)
    ('sum', i, extent, e) ('sum', i, extent, ('iv', i < end, e), 'ends') ('max', ..) ('min', ..) ('gen', ..)
    ('place', 'argmax', i, extent, e)     a place as a number
    ('let', name, term, term) ('pair', term, term) ('fst', term) ('snd', term)

A predicate is one of

    ('lt', ix, ix) ('le', ix, ix) ('eq', ix, ix) ('ne', ix, ix)
    ('rel', name, (ix, ..)) ('pat', name, (ix, ..))
    ('and', p, p) ('or', p, p) ('not', p) ('ex', i, extent, p) ('rcmp', op, e, e)

An index expression, and an extent, is ('ix', constant, ((coefficient, atom), ..)); an atom is a name, ('map', name, (ix, ..)), or
('arg', 'argmax', i, extent, e).
"""

from dataclasses import dataclass, field

# ---- index expressions ----


def ix(constant, *parts):
    """An index expression; equal atoms are put together."""
    sums = {}
    for coefficient, atom in parts:
        sums[atom] = sums.get(atom, 0) + coefficient
    return ("ix", constant, tuple((c, a) for a, c in sums.items() if c != 0))


def name_ix(name):
    return ix(0, (1, name))


def ix_add(a, b, sign=1):
    return ix(a[1] + sign * b[1], *a[2], *((sign * c, x) for c, x in b[2]))


def ix_shift(a, by):
    return ix(a[1] + by, *a[2])


def counts_from_the_end(e, sizes):
    """Whether `x[e]` counts from the end of the axis: `-1`, `-k`, `-k - 1` for a size `k`."""
    return (e[1] < 0 or e[1] == 0 and e[2]) and all(c < 0 and a in sizes for c, a in e[2])


# ---- declarations ----


@dataclass(frozen=True)
class Param:
    """A parameter: `layout` is dense, csr, csc, coo, pair, or the name of the parameter whose pattern it has."""

    name: str
    layout: str
    dims: tuple
    parts: tuple = ()  # of a pair, the dimensions of its two sides
    shared: str = "coo"  # of one that has the pattern of another, a layout with its entries in the same order

    def text(self):
        if self.layout == "pair":
            sides = ", ".join(f"{tensor_type(d)}" for d in self.parts)
            return f"param {self.name} : {dims_text(self.dims)}({sides})"
        if self.layout == "dense":
            return f"param {self.name} : {tensor_type(self.dims)}"
        layout = self.layout if self.layout in ("csr", "csc", "coo") else f"{self.shared}({self.layout})"
        return f"param {self.name} : {layout} {tensor_type(self.dims)}"

    def sparse(self):
        return self.layout not in ("dense", "pair")

    def leaves(self):
        """The components: name in the program's data, name in names of files, dimensions."""
        if self.layout == "pair":
            return [(f"{self.name}.{k}", f"{self.name}_{k}", self.dims + d) for k, d in enumerate(self.parts)]
        return [(self.name, self.name, self.dims)]


@dataclass(frozen=True)
class Relation:
    name: str
    dims: tuple
    target: tuple | None = None  # of a map

    def text(self):
        dims = ", ".join(ix_text(d) for d in self.dims)
        if self.target is None:
            return f"rel {self.name} : [{dims}]"
        return f"map {self.name} : [{dims}] -> [{ix_text(self.target)}]"


@dataclass(frozen=True)
class Definition:
    """`def name(a : type, ..) = body`; types are tuples of dimensions. The library has no text."""

    name: str
    params: tuple
    body: tuple
    library: bool = False

    def text(self):
        params = ", ".join(f"{n} : {tensor_type(d)}" for n, d in self.params)
        return f"def {self.name}({params}) = {term_text(self.body)}"


@dataclass(frozen=True)
class Program:
    params: tuple
    relations: tuple
    definitions: tuple
    functions: tuple  # texts of the scalar functions
    sizes: tuple  # names
    body: tuple
    most: int = 4  # how large sizes may be

    def declarations(self):
        # Parameters come last: a body that begins with `-`, `[` or `(` would go on with the expression before it.
        known = {n for x in (*self.params, *self.relations) for n in sizes_of(x)}
        lines = [f"assume {n} >= 0" for n in self.sizes if n not in known]
        lines += list(self.functions)
        lines += [d.text() for d in self.definitions if not d.library]
        lines += [r.text() for r in self.relations]
        lines += [p.text() for p in self.params]
        return lines

    def text(self):
        return "\n".join([*self.declarations(), term_text(self.body)]) + "\n"


@dataclass
class Data:
    """What a program runs on: dense components as flat lists, sparse ones and relations as sorted lists of places."""

    sizes: dict
    dense: dict = field(default_factory=dict)  # component -> [values]
    sparse: dict = field(default_factory=dict)  # parameter -> {place: value}
    relations: dict = field(default_factory=dict)  # name -> {place} or, of a map, {source: target}

    def extent(self, e):
        return e[1] + sum(c * self.sizes[n] for c, n in e[2])

    def shape(self, dims):
        return tuple(max(0, self.extent(d)) for d in dims)


def sizes_of(declaration):
    dims = list(declaration.dims)
    if isinstance(declaration, Param):
        dims += [d for side in declaration.parts for d in side]
    elif declaration.target is not None:
        dims.append(declaration.target)
    return {n for d in dims for _, n in d[2]}


# ---- text ----


def dims_text(dims):
    return f"[{', '.join(ix_text(d) for d in dims)}] " if dims else ""


def tensor_type(dims):
    return f"{dims_text(dims)}real"


def atom_text(atom):
    if isinstance(atom, str):
        return atom
    if atom[0] == "map":
        return f"{atom[1]}({', '.join(ix_text(a) for a in atom[2])})"
    _, which, index, extent, body = atom
    return f"({which} {index} < {ix_text(extent)}. {term_text(body)})"


def ix_text(e):
    out = ""
    for coefficient, atom in e[2]:
        sign, size = ("-" if coefficient < 0 else "+"), abs(coefficient)
        factor = atom_text(atom) if size == 1 else f"{size}*{atom_text(atom)}"
        out += f" {sign} {factor}" if out else (f"-{factor}" if sign == "-" else factor)
    if not out:
        return str(e[1])
    if e[1]:
        out += f" {'-' if e[1] < 0 else '+'} {abs(e[1])}"
    return out


def number_text(v):
    return repr(v) if v != int(v) or abs(v) >= 1e15 else str(int(v)) if v >= 0 else f"({int(v)})"


# Binding strength: 0 reaches to the right end, 1 sums, 2 products, 3 powers, 4 atoms.
OPEN, SUM, PRODUCT, POWER, ATOM = range(5)


def term_text(e, strength=OPEN):
    text, own = plain(e)
    return text if own >= strength else f"({text})"


def plain(e):
    kind = e[0]
    t = term_text
    match kind:
        case "num":
            return (number_text(e[1]), ATOM) if e[1] >= 0 else (f"({e[1]!r})", ATOM)
        case "ixv":
            return f"real({ix_text(e[1])})", ATOM
        case "var":
            return e[1], ATOM
        case "get":
            return f"{t(e[1], ATOM)}[{', '.join(ix_text(a) for a in e[2])}]", ATOM
        case "val":
            return f"{e[1]}.value({', '.join(ix_text(a) for a in e[2])})", ATOM
        case "neg":
            return f"-{t(e[1], POWER)}", PRODUCT
        case "add":
            return f"{t(e[1], SUM)} + {t(e[2], PRODUCT)}", SUM
        case "sub":
            return f"{t(e[1], SUM)} - {t(e[2], PRODUCT)}", SUM
        case "mul":
            return f"{t(e[1], POWER)} * {t(e[2], POWER)}", PRODUCT
        case "div":
            return f"{t(e[1], POWER)} / {t(e[2], POWER)}", PRODUCT
        case "powi":
            return f"{t(e[1], ATOM)}^{e[2]}", POWER
        case "call" | "fun" | "def":
            return f"{e[1]}({', '.join(t(a) for a in e[2])})", ATOM
        case "cmp":
            # Of two integers it would be a predicate.
            left = repr(float(e[2][1])) if e[2][0] == e[3][0] == "num" else t(e[2], SUM)
            return f"({left} {e[1]} {t(e[3], SUM)})", ATOM
        case "iv":
            return f"[{pred_text(e[1])}] * {t(e[2], POWER)}", PRODUCT
        case "select":
            return f"select({pred_text(e[1])}, {t(e[2])}, {t(e[3])})", ATOM
        case "sum" if e[4:] == ("ends",) and e[3][0] == "iv":
            # The same as a range that ends at what is found.
            (_, (order, _, end), body) = e[3]
            sign = {"lt": "<", "le": "<="}[order]
            return f"let end{e[1]} = {ix_text(end)} in sum {e[1]} {sign} end{e[1]}. {t(body)}", OPEN
        case "sum" | "max" | "min" | "gen":
            return f"{kind} {e[1]} < {ix_text(e[2])}. {t(e[3])}", OPEN
        case "place":
            return f"real({atom_text(('arg', *e[1:]))})", ATOM
        case "let":
            return f"let {e[1]} = {t(e[2])} in {t(e[3])}", OPEN
        case "pair":
            return f"({t(e[1])}, {t(e[2])})", ATOM
        case "fst" | "snd":
            return f"({kind} {t(e[1], ATOM)})", ATOM
    raise AssertionError(kind)


def pred_text(p, strength=0):
    """Strength: 0 or, 1 and, 2 one."""
    kind = p[0]
    signs = {"lt": "<", "le": "<=", "eq": "=", "ne": "!="}
    if kind in signs:
        return f"{ix_text(p[1])} {signs[kind]} {ix_text(p[2])}"
    if kind == "rcmp":
        return f"{term_text(p[2], SUM)} {p[1]} {term_text(p[3], SUM)}"
    if kind in ("rel", "pat"):
        mark = "?" if kind == "pat" else ""
        return f"{p[1]}{mark}({', '.join(ix_text(a) for a in p[2])})"
    if kind == "not":
        return f"not ({pred_text(p[1])})"
    if kind == "ex":
        return f"(exists {p[1]} < {ix_text(p[2])}. {pred_text(p[3])})"
    own = 0 if kind == "or" else 1
    text = f"{pred_text(p[1], own)} {kind} {pred_text(p[2], own + 1)}"
    return text if own >= strength else f"({text})"


# ---- walking ----

PREDICATES = {"lt", "le", "eq", "ne", "rel", "pat", "and", "or", "not", "ex", "rcmp"}
BINDERS = {"sum", "max", "min", "gen", "ex"}


def walk(e):
    """All terms, predicates, index expressions and atoms inside, itself first."""
    stack = [e]
    while stack:
        e = stack.pop()
        if isinstance(e, tuple):
            if e and isinstance(e[0], str):
                yield e
            stack.extend(x for x in e if isinstance(x, tuple))


def size_of_term(e):
    return sum(1 for _ in walk(e))
