#!/usr/bin/env python3
"""Runs random programs through every way that `iverson` has to run them; README.md says more."""

import argparse
import collections
import dataclasses
import multiprocessing
import os
import pathlib
import shutil
import sys
import tempfile
import time
import traceback

import judge
import minimise
import tool
from evaluate import OutOfBounds
from language import walk

HERE = pathlib.Path(__file__).resolve().parent
ALWAYS = [m for m in tool.MODES if m.raw or m.name == "interpreter simplified adjoint with value"]
IN_TURN = [m for m in tool.MODES if m not in ALWAYS]
LITTLE = ("--nodes", "60", "--rounds", "3", "--matches", "60")


def arguments():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--programs", type=int, default=1000, help="how many")
    p.add_argument("--seed", default="1", help="which")
    p.add_argument("--jobs", type=int, default=os.cpu_count(), help="how many at a time")
    p.add_argument("--bundle", type=int, default=10, help="how many programs are compiled as one")
    p.add_argument("--no-native", action="store_true", help="without compiling")
    p.add_argument("--every-mode", action="store_true", help="all modes for each program, not one of the slow ones in turn")
    p.add_argument("--only", type=int, help="the program of this number alone")
    p.add_argument("--binary", default=str(HERE.parent.parent / "target/release/iverson"), help="the tool")
    p.add_argument("--failures", default=str(HERE.parent.parent / "target/outside"), help="where to write what fails")
    p.add_argument("--minimise", type=int, default=3, help="how many of each kind of failure to make small")
    p.add_argument("--shares", type=int, default=0, help="of how many programs to say which passes over loops change them")
    p.add_argument("--quick", action="store_true", help="with little simplification, and without compiling")
    p.add_argument("--quiet", action="store_true", help="print the last lines alone")
    return p.parse_args()


class Worker:
    """Judges one bundle of programs after another, in a folder of its own."""

    def __init__(self, options):
        self.options = options
        self.folder = tempfile.mkdtemp(prefix="iverson-outside-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        # Kernels are compiled here, not into the cache of the user.
        self.environment = {"XDG_CACHE_HOME": os.path.join(self.folder, "cache")}

    def bench(self, cases, name):
        return tool.Bench(self.options.binary, os.path.join(self.folder, name), cases, self.environment)

    def bundle(self, indices):
        self.stats, self.failures, good = collections.Counter(), [], []
        for index in indices:
            self.stats["programs"] += 1
            try:
                case = judge.make_case(index, self.options.seed, f"_{index}")
            except OutOfBounds as error:
                self.out_of_bounds(index, error)
                continue
            if isinstance(case, str):
                self.stats[f"left out: {case}"] += 1
                continue
            if self.alone(case):
                good.append(case)
            if index < self.options.shares:
                self.shares(case)
        if good and not self.options.no_native:
            self.compiled(good)
        shutil.rmtree(os.path.join(self.folder, "cache"), ignore_errors=True)
        return self.stats, self.failures

    def out_of_bounds(self, index, error):
        """The evaluator read what is not there: then the tool must refuse the program."""
        import generate

        program = generate.Generator(f"{self.options.seed} {index}", f"_{index}").program()
        file = os.path.join(self.folder, "check.iv")
        with open(file, "w") as f:
            f.write(program.text())
        bench = tool.Bench.__new__(tool.Bench)
        bench.binary, bench.environment = self.options.binary, self.environment
        try:
            bench.call("check", file)
        except tool.Failed:
            self.stats["refused, and out of bounds"] += 1
            return
        self.fail(index, "check", "accepted, and out of bounds", str(error), program.text(), "")

    def alone(self, case):
        """Judges a case in the modes that take no compiler; whether it ran and nothing was found."""
        bench, found = self.bench([case], "alone"), judge.Judge(case)
        modes = tool.MODES if self.options.every_mode else [*ALWAYS, IN_TURN[case.index % len(IN_TURN)]]
        if self.options.quick:
            modes = [m if m.raw else dataclasses.replace(m, options=LITTLE) for m in modes]
        good = True
        for mode in modes:
            try:
                complaints = found.complaints(mode, bench.run(mode)[0])
            except tool.Failed as error:
                if mode == modes[0] and "] Error" in str(error):
                    self.stats[f"refused: {minimise.reason(str(error).split(': ', 1)[1])}"] += 1
                    if not self.options.quiet:
                        print(f"refused: program {case.index}\n{error}\n{case.program.text()}", flush=True)
                    return False
                self.failed(case, mode, None, minimise.reason(str(error)), str(error))
                good = False
                if "no answer" in str(error) or mode == modes[0]:
                    break
                continue
            if complaints:
                self.failed(case, mode, None, complaints[0][-1], say(complaints))
                good = False
        self.count(case, found)
        case.judge = found
        return good

    def shares(self, case):
        """Counts the passes that change the program or its adjoint."""
        bench = self.bench([case], "shares")
        for what, derivative in (("value", ()), ("adjoint", ("--derivative", "adjoint"))):
            self.stats["pass", what] += 1
            before = bench.call("show", bench.file, "--stage", "simplify", *derivative)
            for name in bench.passes():
                try:
                    after = bench.call("show", bench.file, "--stage", "loops", *derivative, "--after", name)
                except tool.Failed:
                    # It is for sparse results alone.
                    continue
                if name != "lower":
                    self.stats["pass", what, name] += after != before
                before = after

    def compiled(self, cases):
        """Judges cases that are put together into one program: compiled, and interpreted, which gives the same bits."""
        bench = self.bench(cases, "bundle")
        turn = cases[0].index // self.options.bundle
        for mode in tool.BUNDLED if self.options.every_mode else [tool.BUNDLED[turn % len(tool.BUNDLED)]]:
            results = {}
            for engine in ("interpreter", "native"):
                try:
                    results[engine] = bench.run(mode, engine)
                except tool.Failed as error:
                    self.failed_bundle(cases, mode, engine, minimise.reason(str(error)), str(error))
                    break
            if len(results) < 2:
                continue
            for k, case in enumerate(cases):
                for engine, result in results.items():
                    complaints = case.judge.complaints(mode, result[k])
                    if complaints:
                        self.failed_bundle(cases, mode, engine, complaints[0][-1], say(complaints), k)
                if bits(results["interpreter"][k]) != bits(results["native"][k]):
                    self.failed_bundle(cases, mode, "native", "other bits than interpreted", "", k)
        self.stats["compiled together"] += len(cases)

    def count(self, case, found):
        self.stats["judged"] += 1
        self.stats[f"data: {case.family.split()[0]}"] += 1
        self.stats["data: poisoned"] += "poisoned" in case.family
        self.stats["data: a size is 0"] += 0 in case.data.sizes.values()
        self.stats["not finite on the way"] += case.tainted
        for word, n in (("compared", found.compared), ("not finite", found.loose), ("decided by rounding", found.skipped)):
            self.stats[f"numbers {word}"] += n
        layouts = {p.layout if p.layout in ("dense", "csr", "csc", "coo", "pair") else "shared" for p in case.program.params}
        layouts |= {"relation" if x.target is None else "map" for x in case.program.relations}
        kinds = set()
        for body in (case.program.body, *(d.body for d in case.program.definitions if not d.library)):
            for e in walk(body):
                kinds.add(f"{e[0]} {e[1]}" if e[0] in ("call", "def", "place") and (e[0] != "def" or e[1] in judge.library.LIBRARY) else e[0])
        for k in kinds:
            self.stats[("construct", k)] += 1
            for layout in layouts:
                self.stats[("with", k, layout)] += 1

    # -- failures

    def failed(self, case, mode, engine, why, said):
        text, data = case.program.text(), show_data(case)
        self.fail(case.index, f"{mode.name}{' ' + engine if engine else ''}", why, said, text, data, (case, mode, engine))

    def failed_bundle(self, cases, mode, engine, why, said, k=None):
        """Finds the program of a bundle that fails alone, or says that none does."""
        for case in cases if k is None else [cases[k]]:
            again = minimise.fails(self.options.binary, os.path.join(self.folder, "again"), case, mode, engine, why)
            if again:
                self.failed(case, mode, engine, why, said)
                return
        text = tool.bundle_text([c.program for c in cases])
        data = "\n".join(show_data(c) for c in cases)
        self.fail(cases[k or 0].index, f"{mode.name} {engine}, put together only", why, said, text, data)

    def fail(self, index, mode, why, said, text, data, again=None):
        self.stats["failures"] += 1
        self.failures.append((index, mode, why, said, text, data, again))


def bits(result):
    """The numbers as text: every place counts, and the sign of zero; one NaN is like another."""
    return repr(result)


def say(complaints):
    return "\n".join(f"{what}{list(place) if place else ''}: expected {own}, found {got} ({why})" for what, place, own, got, why in complaints[:8])


def show_data(case):
    d = case.data
    lines = [f"sizes {d.sizes}"]
    for p in case.program.params:
        lines += [f"{p.name} = {d.sparse[p.name]}"] if p.sparse() else [f"{name} = {d.dense[name]}" for name, _, _ in p.leaves()]
    for x in case.program.relations:
        places = d.relations[x.name]
        lines.append(f"{x.name} = {places if isinstance(places, dict) else sorted(places)}")
    lines += [f"seeds {case.seeds}"]
    return "\n".join(lines)


WORKER = None


def start(options):
    global WORKER
    WORKER = Worker(options)


def work(indices):
    try:
        stats, failures = WORKER.bundle(indices)
    except Exception:
        return collections.Counter({"failures": 1}), [(indices[0], "this test", "error", traceback.format_exc(), "", "", None)]
    return stats, failures


def report(options, failure, kinds, alike):
    """Writes a failure to a folder of its own, made small where there are few of its kind."""
    index, mode, why, said, text, data, again = failure
    kind = f"{mode}: {why}"
    kinds[kind] += 1
    alike[why, "simplified" in mode] += 1
    print(f"FAILED program {index} (seed {options.seed}), {kind}", flush=True)
    folder = pathlib.Path(options.failures) / f"{options.seed}-{index}-{mode.replace(' ', '-').replace(',', '')}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "original.iv").write_text(text)
    (folder / "original.txt").write_text(f"{kind}\n{said}\n{data}\n")
    if again and alike[why, "simplified" in mode] <= options.minimise:
        case, small_mode, engine = again
        small, found = minimise.minimise(options.binary, str(folder / "small"), case, small_mode, engine, why)
        bench = tool.Bench(options.binary, str(folder / "small"), [small])
        args = ["run", "program.iv", *bench.inputs, "--engine", engine or small_mode.engine, *small_mode.options]
        if small_mode.what == "adjoint":
            args += ["--derivative", "adjoint", *bench.seed_args()]
        elif small_mode.what == "forward":
            args += ["--derivative", "forward", *bench.tangent_args()]
        if small_mode.with_value:
            args.append("--with-value")
        if small_mode.what == "text":
            args = ["show", "program.iv", "--simplify", *small_mode.options]
        command = " ".join(["iverson", *args]).replace(f"{folder}/small/", "")
        found = say(found) if isinstance(found[0], tuple) else "\n".join(found)
        note = f"{kind}\n{found}\n{show_data(small)}\n{command}\n"
        (folder / "small" / "note.txt").write_text(note)
        print(f"made small:\n{small.program.text()}{note}", flush=True)
    elif kinds[kind] == 1:
        print(f"{said}\n{text}{data}\n", flush=True)


def main():
    options = arguments()
    options.binary = os.path.abspath(options.binary)
    options.no_native |= options.quick
    if not os.path.exists(options.binary):
        sys.exit(f"there is no {options.binary}: cargo build --release, or --binary FILE")
    indices = range(options.programs) if options.only is None else [options.only]
    bundles = [list(indices[k : k + options.bundle]) for k in range(0, len(indices), options.bundle)]
    stats, kinds, alike, started = collections.Counter(), collections.Counter(), collections.Counter(), time.time()
    with multiprocessing.Pool(options.jobs, start, (options,)) as pool:
        for done, (some, failures) in enumerate(pool.imap(work, bundles), 1):
            stats.update(some)
            for failure in failures:
                report(options, failure, kinds, alike)
            if not options.quiet and done % 50 == 0:
                print(f"{stats['programs']} programs, {stats['failures']} failures, {time.time() - started:.0f} s", flush=True)
    summary(options, stats, kinds, time.time() - started)
    sys.exit(1 if stats["failures"] or not stats["judged"] else 0)


def summary(options, stats, kinds, seconds):
    plain = {k: n for k, n in stats.items() if isinstance(k, str)}
    for k in sorted(plain):
        print(f"{plain[k]:10}  {k}")
    if not options.quiet:
        layouts = ["dense", "csr", "csc", "coo", "shared", "pair", "relation", "map"]
        print("programs with a construct, and a parameter or relation of a kind")
        print(f"{'':22}{'all':>8}" + "".join(f"{x:>9}" for x in layouts))
        for k in sorted(k[1] for k in stats if isinstance(k, tuple) and k[0] == "construct"):
            print(f"{k:22}{stats[('construct', k)]:8}" + "".join(f"{stats[('with', k, x)]:9}" for x in layouts))
    if options.shares:
        print("programs that a pass changes, of 100, and adjoints")
        for name in [k[2] for k in stats if isinstance(k, tuple) and k[:2] == ("pass", "value") and len(k) > 2]:
            shares = (100 * stats["pass", what, name] / stats["pass", what] for what in ("value", "adjoint"))
            print(f"{name:22}" + "".join(f"{share:8.1f}" for share in shares))
    accepted = stats["judged"] / max(1, stats["judged"] + sum(n for k, n in plain.items() if k.startswith("refused")))
    print(f"{100 * accepted:.1f} % of the programs are accepted")
    for k, n in sorted(kinds.items()):
        print(f"{n:10}  FAILED {k}")
    print(f"{stats['judged']} programs judged, {stats['failures']} failures, {seconds:.0f} s")


if __name__ == "__main__":
    main()
