"""Cases: programs with data and what their results are, and whether what the tool says agrees."""

import math
import random
from dataclasses import dataclass, field

import generate
import library
from arithmetic import ANNIHILATED, HUGE, NO_INPUT, UNDECIDED, U, Undecided, times
from evaluate import Evaluator, TooLong, places
from functions import FUNCTIONS

SLACK = 16  # bounds are of one order of operations; others, and functions in lanes, are within some of them


@dataclass
class Case:
    index: int
    program: object
    data: object
    family: str
    values: list = field(default_factory=list)  # (path, shape, {place: number or None})
    tainted: bool = False  # something that is computed is not finite
    seeds: list = field(default_factory=list)  # for each leaf of the result, a list of numbers
    tangents: dict = field(default_factory=dict)  # component -> numbers, or {place: number}
    functions: dict = field(default_factory=dict)


def user_functions(functions):
    out = {}
    for name, kind in functions.items():
        meaning = library.FUNS[kind][2]
        out[name] = lambda ops, args, meaning=meaning: meaning(ops, lambda f, a: ops.apply(FUNCTIONS[f], a), args)
    return out


def make_case(index, seed, tag):
    """A case, or the reason why there is none."""
    generator = generate.Generator(f"{seed} {index}", tag)
    program = generator.program()
    data, family = generate.data_for(program, f"{seed} {index}")
    if data is None:
        return "no sizes that fit"
    r = random.Random(f"seeds {seed} {index}")
    case = Case(index, program, data, family, functions=dict(generator.functions))
    why = evaluate(case)
    if why:
        return why
    case.seeds = [[r.randrange(-8, 9) / 4 for _ in elements] for _, _, elements in case.values]
    for name, values in data.dense.items():
        case.tangents[name] = [r.randrange(-8, 9) / 4 for _ in values]
    for name, entries in data.sparse.items():
        case.tangents[name] = {k: r.randrange(-8, 9) / 4 for k in entries}
    if r.random() < 0.5:
        case.data = generate.poison(data, case.read, f"{seed} {index}")
        if not same_bits(case.data, data):
            case.family += " poisoned"
            tainted = case.tainted
            evaluate(case)
            assert case.tainted == tainted, "what was not read is read"
    return case


def same_bits(a, b):
    return repr(a.dense) == repr(b.dense) and repr(a.sparse) == repr(b.sparse)


def evaluate(case):
    evaluator = Evaluator(case.program, case.data, functions=user_functions(case.functions))
    try:
        case.values = evaluator.results()
    except Undecided:
        return "decided by rounding"
    except TooLong:
        return "too long"
    case.tainted, case.read = evaluator.ops.tainted, evaluator.read
    return None


# ---- what derivatives are ----


def adjoint(case):
    """The derivative of the seeded result by each input: {key: (value, error, sure)}, or None where a kink is decided by rounding."""
    out = {}
    for (_, _, elements), seeds in zip(case.values, case.seeds):
        for number, s in zip(elements.values(), seeds):
            if number is None or number[4] == UNDECIDED:
                return None
            for key, (d, e) in number[4].items():
                out[key] = plus(out.get(key, NOTHING), s * d, seeded(s, e))
    return out


def seeded(s, e):
    """The error of a seed times a derivative. What may be infinite in another order is no number where the seed is 0."""
    return e if e == math.inf else times(s, e)


def is_steep(case):
    """Whether a structural zero meets an infinite slope. By the rules for finite numbers it may cancel, and something else is left than 0."""
    tangents = [n[4] for _, _, elements in case.values for n in elements.values() if n is not None and n[4] != UNDECIDED]
    return any(t.get(NO_INPUT, (0.0, 0.0))[1] == math.inf for t in tangents)


NOTHING = (0.0, 0.0, True)


def plus(total, term, error):
    """A sum and a term more. Of what is so large that another order may overflow nothing is sure."""
    v, w, sure = total
    return v + term, w + error + U * (abs(v) + abs(term)), sure and (v == 0 or max(abs(v), abs(term)) <= HUGE)


def forward(case):
    """The derivative of each leaf of the result along the tangents."""
    out = []
    for path, shape, elements in case.values:
        found = {}
        for place, number in elements.items():
            if number is None or number[4] == UNDECIDED:
                found[place] = None
                continue
            total = NOTHING
            for key, (d, ed) in number[4].items():
                name, k = key
                t = 0.0 if key == NO_INPUT else case.tangents[name][k]
                total = plus(total, t * d, seeded(t, ed))
            found[place] = total
        out.append((path, shape, found))
    return out


# ---- comparing ----


def kind_of(v):
    return "finite" if math.isfinite(v) else "nan" if v != v else "inf" if v > 0 else "-inf"


@dataclass(frozen=True)
class Expected:
    """A number, how far another may be from it, and what may be otherwise where it is not finite."""

    value: float
    error: float
    sure: bool  # nothing that is not finite was met on the way, or it is certain what comes of it
    steep: bool = False  # see `is_steep`

    def within(self, got):
        return abs(got - self.value) <= SLACK * self.error + 1e-300


def expected_value(number):
    if number is None:
        return None
    return Expected(number[0], number[1], not number[3] & ANNIHILATED)


def differs(expected, reference, got, raw, is_reference):
    """Why `got` is wrong, or None. `reference` is what the reference evaluator gives of the raw program, or None."""
    if expected is None:
        return None
    if expected.sure and math.isfinite(expected.value):
        if not math.isfinite(got):
            return "not finite" if math.isfinite(expected.error) else None
        return None if expected.within(got) else "value"
    if is_reference:
        if expected.sure:
            return None if kind_of(got) == kind_of(expected.value) else "class"
        if math.isfinite(got) and math.isfinite(expected.value) and math.isfinite(expected.error):
            return None if expected.within(got) else "value"
        return None
    if reference is None:
        return None
    if math.isfinite(reference):
        if not math.isfinite(expected.error) or expected.steep and not raw:
            return None
        if not math.isfinite(got):
            # What was met on the way and is not finite may come through where rules were applied.
            return "not finite" if raw else None
        if abs(got - reference) > 2 * SLACK * expected.error + 1e-300:
            return "value"
        return None
    if raw and expected.sure and math.isfinite(got):
        return "finite"
    return None


class Judge:
    """Compares all results of a case. What the reference gives of the raw program is kept, to judge others where the source is not finite."""

    def __init__(self, case):
        self.case = case
        self.adjoint = adjoint(case)
        self.steep = is_steep(case)
        self.forward = forward(case)
        self.reference_values = None
        self.reference_gradients = None
        self.compared = self.loose = self.skipped = 0

    def complaints(self, mode, result):
        values, gradients, tangents = result
        out = []
        if values is not None:
            expected = [(p, s, {k: expected_value(n) for k, n in e.items()}) for p, s, e in self.case.values]
            out += self.leaves("value", expected, values, self.reference_values, mode)
            if mode.is_reference and mode.what == "value":
                self.reference_values = values
        if tangents is not None:
            expected = [(p, s, {k: t and self.certain(t) for k, t in e.items()}) for p, s, e in self.forward]
            out += self.leaves("tangent", expected, tangents, None, mode)
        if gradients is not None:
            for p in self.case.program.params:
                for name, _, dims in p.leaves():
                    reference = self.reference_gradients and self.reference_gradients[name]
                    if p.sparse():
                        out += self.sparse(p, gradients[name], reference, mode)
                    else:
                        shape = self.case.data.shape(dims)
                        count = len(self.case.data.dense[name])
                        expected = {k: self.derivative((name, j)) for j, k in enumerate(places(shape))}
                        assert len(expected) == count
                        out += self.leaves(f"adjoint {name}", [("", shape, expected)], [gradients[name]], reference and [reference], mode)
            if mode.is_reference:
                self.reference_gradients = gradients
        return out

    def derivative(self, key):
        if self.adjoint is None:
            return None
        return self.certain(self.adjoint.get(key, NOTHING))

    def certain(self, total):
        value, error, sure = total
        return Expected(value, error, sure and not self.case.tainted, self.steep)

    def leaves(self, what, expected, got, reference, mode):
        out = []
        for n, ((path, shape, elements), (found_shape, numbers)) in enumerate(zip(expected, got, strict=True)):
            if tuple(shape) != tuple(found_shape) or len(numbers) != len(elements):
                out.append((what + path, None, f"shape {shape}", f"shape {found_shape}", "shape"))
                continue
            for j, (place, e) in enumerate(elements.items()):
                self.one(what + path, place, e, reference and reference[n][1][j], numbers[j], mode, out)
        return out

    def sparse(self, p, got, reference, mode):
        entries = self.case.data.sparse[p.name]
        shape, found = got
        if tuple(shape) != self.case.data.shape(p.dims) or set(found) != set(entries):
            return [(f"adjoint {p.name}", None, f"entries {sorted(entries)}", f"{shape} {sorted(found)}", "pattern")]
        out = []
        for k in sorted(entries):
            self.one(f"adjoint {p.name}", k, self.derivative((p.name, k)), reference and reference[1][k], found[k], mode, out)
        return out

    def one(self, what, place, expected, reference, got, mode, out):
        if expected is None:
            self.skipped += 1
            return
        if expected.sure and math.isfinite(expected.value):
            self.compared += 1
        else:
            self.loose += 1
        why = differs(expected, reference, got, mode.raw, mode.is_reference)
        if why:
            own = f"{expected.value!r} within {SLACK * expected.error:.2g}"
            if reference is not None and not (expected.sure and math.isfinite(expected.value)):
                own += f", reference {reference!r}"
            out.append((what, place, own, repr(got), why))
