"""Makes a program and its data smaller as long as they fail in the same way."""

import re
from dataclasses import replace

from evaluate import places as places_of
from judge import Case, Judge, evaluate
from language import PREDICATES, Data, walk
from tool import MODES, Bench, Failed

TERMS = {
    "num", "ixv", "var", "get", "val", "neg", "add", "sub", "mul", "div", "powi", "call", "fun", "def", "cmp", "iv", "select", "sum",
    "max", "min", "gen", "place", "let", "pair", "fst", "snd",
}  # fmt: skip


def fails(binary, folder, case, mode, engine, why):
    """Whether the case fails in this mode, for this reason: then what is said of it."""
    bench = Bench(binary, folder, [case])
    judge = Judge(case)
    try:
        if mode.what == "text":
            # What is not read at first says nothing of what is printed.
            bench.call("check", bench.file)
    except Failed:
        return None
    try:
        for m in MODES:
            if m.is_reference and m != mode and case.tainted:
                judge.complaints(m, bench.run(m)[0])
        found = judge.complaints(mode, bench.run(mode, engine)[0])
    except Failed as error:
        return [str(error)] if why == reason(str(error)) else None
    found = [c for c in found if c[-1] == why]
    return found or None


def reason(message):
    """What failures of the tool are told apart by: the first line of the message, without its numbers."""
    lines = [x for x in message.splitlines() if x.strip()]
    text = lines[0] if lines else "?"
    if "panicked" in message:
        text = next((x for x in lines if "panicked" in x), text)
    text = text if "bug" in text else text.split("`")[0]
    return re.sub(r"\d+", "_", text)[:90]


def minimise(binary, folder, case, mode, engine, why, attempts=300):
    """The smallest case that was found, and what is said of it."""
    best, said = case, fails(binary, folder, case, mode, engine, why)
    if said is None:
        return case, ["it did not happen again"]
    left = [attempts]

    def better(program, data):
        nonlocal best, said
        if left[0] <= 0:
            return False
        try:
            new = ones(case, program, data)
            if new is None:
                return False
            left[0] -= 1
            found = fails(binary, folder, new, mode, engine, why)
        except Exception:  # what was made is no program
            return False
        if found:
            best, said = new, found
        return bool(found)

    progress = True
    while progress and left[0] > 0:
        progress = False
        for new in smaller_bodies(best.program.body):
            if better(replace(best.program, body=new), best.data):
                progress = True
                break
        if progress:
            continue
        for program in smaller_programs(best.program):
            if better(program, best.data):
                progress = True
                break
        if progress:
            continue
        for data in smaller_data(best.program, best.data):
            if better(best.program, data):
                progress = True
                break
    return best, said


def ones(case, program, data):
    """A case of this program, whose seeds and tangents are ones."""
    new = Case(case.index, program, data, case.family, functions=case.functions)
    if evaluate(new):
        return None
    new.seeds = [[1.0] * len(elements) for _, _, elements in new.values]
    new.tangents = {n: [1.0] * len(v) for n, v in data.dense.items()} | {n: dict.fromkeys(v, 1.0) for n, v in data.sparse.items()}
    return new


def smaller_bodies(body):
    """Bodies with one part replaced by a part of it, the largest savings first."""
    places = sorted(paths(body), key=lambda p: -size(at(body, p)))
    for path in places:
        e = at(body, path)
        if e[0] in PREDICATES:
            for part in parts(e, PREDICATES):
                yield put(body, path, part)
            continue
        if e[0] in TERMS:
            if e[0] not in ("num", "var"):
                yield put(body, path, ("num", 1.0))
            found = parts(e, TERMS)
            for part in found:
                yield put(body, path, part)
            if e[0] == "powi" and e[2] != 1:
                yield put(body, path, ("powi", e[1], 1))
        if e[0] == "ix" and (e[2] or e[1]):
            yield put(body, path, ("ix", 0, ()))
            if e[1] and e[2]:
                yield put(body, path, ("ix", 0, e[2]))
            for k in range(len(e[2])):
                yield put(body, path, ("ix", e[1], e[2][:k] + e[2][k + 1 :]))


def parts(e, kinds):
    out = []
    for x in e[1:]:
        if isinstance(x, tuple) and x:
            if x[0] in kinds if isinstance(x[0], str) else False:
                out.append(x)
            elif isinstance(x[0], tuple):
                out += [y for y in x if y and isinstance(y[0], str) and y[0] in kinds]
    return out


def paths(e, path=()):
    found, stack = [], [(e, path)]
    while stack:
        e, path = stack.pop()
        if e and isinstance(e[0], str):
            found.append(path)
        for k, x in enumerate(e):
            if isinstance(x, tuple):
                stack.append((x, (*path, k)))
    return found


def at(e, path):
    for k in path:
        e = e[k]
    return e


def put(e, path, new):
    if not path:
        return new
    k, *rest = path
    return (*e[:k], put(e[k], tuple(rest), new), *e[k + 1 :])


def size(e):
    return sum(1 for _ in walk(e))


def smaller_programs(program):
    """Programs without a declaration; one that is in use is refused."""
    for k in range(len(program.params)):
        if len(program.params) > 1:
            yield replace(program, params=program.params[:k] + program.params[k + 1 :])
    for k in range(len(program.relations)):
        yield replace(program, relations=program.relations[:k] + program.relations[k + 1 :])
    for k in range(len(program.definitions)):
        if not program.definitions[k].library:
            yield replace(program, definitions=program.definitions[:k] + program.definitions[k + 1 :])
    for k in range(len(program.functions)):
        yield replace(program, functions=program.functions[:k] + program.functions[k + 1 :])
    for k in range(len(program.sizes)):
        yield replace(program, sizes=program.sizes[:k] + program.sizes[k + 1 :])


def smaller_data(program, data):
    """Data with a smaller size, fewer entries, or ones for numbers."""
    for n in data.sizes:
        if data.sizes[n] > 0:
            new = cut(program, data, {**data.sizes, n: data.sizes[n] - 1})
            if new is not None:
                yield new
    for name, values in data.dense.items():
        for k, v in enumerate(values):
            if v != 1.0:
                for simple in (1.0, 2.0) if v != 2.0 else (1.0,):
                    yield Data(data.sizes, {**data.dense, name: [*values[:k], simple, *values[k + 1 :]]}, data.sparse, data.relations)
    for name, entries in data.sparse.items():
        for k in entries:
            yield Data(data.sizes, data.dense, {**data.sparse, name: {p: v for p, v in entries.items() if p != k}}, data.relations)
            if entries[k] != 1.0:
                yield Data(data.sizes, data.dense, {**data.sparse, name: {**entries, k: 1.0}}, data.relations)
    for name, places in data.relations.items():
        if isinstance(places, set):
            for k in sorted(places):
                yield Data(data.sizes, data.dense, data.sparse, {**data.relations, name: places - {k}})


def cut(program, data, sizes):
    """The data within smaller sizes, or None where a map leads out of them."""
    new = Data(sizes)
    for p in program.params:
        if p.sparse():
            shape = new.shape(p.dims)
            new.sparse[p.name] = {k: v for k, v in data.sparse[p.name].items() if inside(k, shape)}
            continue
        for name, _, dims in p.leaves():
            if any(new.extent(d) < 0 for d in dims):
                return None
            old, shape = data.shape(dims), new.shape(dims)
            new.dense[name] = [v for k, v in zip(places_of(old), data.dense[name]) if inside(k, shape)]
    for x in program.relations:
        shape = new.shape(x.dims)
        if x.target is None:
            new.relations[x.name] = {k for k in data.relations[x.name] if inside(k, shape)}
        else:
            kept = {k: v for k, v in data.relations[x.name].items() if inside(k, shape)}
            if any(v >= new.extent(x.target) for v in kept.values()):
                return None
            new.relations[x.name] = kept
    return new


def inside(place, shape):
    return all(k < n for k, n in zip(place, shape))
