"""Running `iverson` on cases, and reading what it wrote."""

import os
import resource
import shutil
import signal
import subprocess
from dataclasses import dataclass

import files
from language import term_text

SECONDS = 20  # of processor time; no program here should take one


def limit():
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))




@dataclass(frozen=True)
class Mode:
    """A way to get results: of `value`, `adjoint` or `forward`; `options` are of the command line."""

    name: str
    what: str
    engine: str
    options: tuple = ()
    with_value: bool = False
    raw: bool = False

    @property
    def is_reference(self):
        return self.engine == "reference" and self.raw


RAW, STRICT = ("--no-simplify",), ("--strict",)
MODES = [
    Mode("reference value", "value", "reference", raw=True),
    Mode("reference raw adjoint with value", "adjoint", "reference", RAW, True, True),
    Mode("reference simplified adjoint with value", "adjoint", "reference", (), True),
    Mode("interpreter value", "value", "interpreter", raw=True),
    Mode("interpreter raw adjoint with value", "adjoint", "interpreter", RAW, True, True),
    Mode("interpreter simplified adjoint with value", "adjoint", "interpreter", (), True),
    Mode("interpreter simplified adjoint", "adjoint", "interpreter"),
    Mode("interpreter strict adjoint with value", "adjoint", "interpreter", STRICT, True, True),
    Mode("interpreter simplified forward", "forward", "interpreter", (), True),
    Mode("interpreter simplified value", "text", "interpreter"),
]
BUNDLED = [
    Mode("bundled simplified adjoint with value", "adjoint", "", (), True),
    Mode("bundled raw adjoint with value", "adjoint", "", RAW, True, True),
    Mode("bundled simplified adjoint", "adjoint", ""),
    Mode("bundled value", "value", "", raw=True),
]


class Failed(Exception):
    """The tool ended with an error."""


class Bench:
    """A folder with a program and its data, to be run in several ways."""

    def __init__(self, binary, folder, cases, environment=None):
        self.binary, self.folder, self.cases = binary, folder, cases
        self.environment = environment or {}
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        self.file = os.path.join(folder, "program.iv")
        with open(self.file, "w") as f:
            f.write(bundle_text([c.program for c in cases]))
        self.inputs = self.write_inputs()
        self.seeds = None
        self.tangents = None

    def path(self, name):
        return os.path.join(self.folder, name)

    def write_inputs(self):
        args, dense = [], {}
        for case in self.cases:
            data = case.data
            for p in case.program.params:
                if p.sparse():
                    files.write_tns(self.path(f"{p.name}.tns"), data.shape(p.dims), data.sparse[p.name])
                    args += ["--input", f"{p.name}={self.path(p.name)}.tns"]
                else:
                    for name, _, dims in p.leaves():
                        if dims:
                            dense[name] = (data.shape(dims), data.dense[name])
                        else:
                            args.append(f"--scalar={name}={data.dense[name][0]!r}")
            for x in case.program.relations:
                places = data.relations[x.name]
                dims = x.dims if x.target is None else (*x.dims, x.target)
                if x.target is not None:
                    places = {(*k, v) for k, v in places.items()}
                files.write_tns(self.path(f"{x.name}.tns"), data.shape(dims), set(places))
                args += ["--input", f"{x.name}={self.path(x.name)}.tns"]
            plain = set()
            for d in (*case.program.params, *case.program.relations):
                dims = list(d.dims) + [x for side in getattr(d, "parts", ()) for x in side] + ([d.target] if getattr(d, "target", None) else [])
                plain |= {d[2][0][1] for d in dims if d[1] == 0 and len(d[2]) == 1 and d[2][0][0] == 1}
            for n in case.program.sizes:
                if n not in plain:
                    args += ["--size", f"{n}={data.sizes[n]}"]
        if dense:
            files.write_npz(self.path("data.npz"), dense)
            args += ["--input", self.path("data.npz")]
        return args

    def seed_args(self):
        """The seeds of an adjoint; cases are put together as (first, (second, ..))."""
        if self.seeds is None:
            self.seeds = []
            for k, case in enumerate(self.cases):
                prefix = ".1" * k + (".0" if k + 1 < len(self.cases) else "")
                for (path, shape, _), values in zip(case.values, case.seeds):
                    self.seeds.append(self.seed(f"dy{prefix}{path}", shape, values))
        return self.seeds

    def seed(self, name, shape, values):
        if not shape:
            return f"--seed={name}={values[0]!r}"
        file = self.path(f"{name}.npy")
        with open(file, "wb") as f:
            f.write(files.npy_bytes(shape, values))
        return f"--seed={name}={file}"

    def tangent_args(self):
        if self.tangents is None:
            self.tangents = []
            for case in self.cases:
                for p in case.program.params:
                    if p.sparse():
                        file = self.path(f"d{p.name}.tns")
                        files.write_tns(file, case.data.shape(p.dims), case.tangents[p.name])
                        self.tangents.append(f"--seed=d{p.name}={file}")
                    else:
                        self.tangents += [
                            self.seed(f"d{name}", case.data.shape(dims), case.tangents[name]) for name, _, dims in p.leaves()
                        ]
        return self.tangents

    def run(self, mode, engine=None):
        """The results: for each case (values or None, gradients or None, tangents or None)."""
        out = self.path("out")
        shutil.rmtree(out, ignore_errors=True)
        file = self.file
        if mode.what == "text":
            file = self.path("simplified.iv")
            with open(file, "w") as f:
                f.write(self.call("show", self.file, "--simplify", *mode.options))
        args = ["run", file, *self.inputs, "--engine", engine or mode.engine, "--output", out]
        args += mode.options if mode.what in ("adjoint", "forward") else ()
        if mode.what == "adjoint":
            args += ["--derivative", "adjoint", *self.seed_args()]
        elif mode.what == "forward":
            args += ["--derivative", "forward", *self.tangent_args()]
        if mode.with_value:
            args.append("--with-value")
        self.call(*args)
        count = sum(len(c.values) for c in self.cases)
        values = self.read_leaves(out, "value", count) if mode.what in ("value", "text") or mode.with_value else None
        tangents = self.read_leaves(out, "tangent", count) if mode.what == "forward" else None
        results, at = [], 0
        for case in self.cases:
            n = len(case.values)
            gradients = self.read_gradients(out, case) if mode.what == "adjoint" else None
            results.append((values and values[at : at + n], gradients, tangents and tangents[at : at + n]))
            at += n
        return results

    def call(self, *args):
        env = {**os.environ, **self.environment}
        done = subprocess.run([self.binary, *args], capture_output=True, text=True, preexec_fn=limit, env=env, stdin=subprocess.DEVNULL)
        if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
            raise Failed(f"no answer in {SECONDS} seconds")
        if done.returncode != 0:
            raise Failed(f"exit {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def passes(self):
        """The names of the passes up to the loops, in their order."""
        try:
            self.call("show", self.file, "--stage", "loops", "--after", "?")
        except Failed as error:
            return str(error).split("there are ")[1].split(", ")
        raise AssertionError("there is no pass of this name")

    def read_leaves(self, out, name, count):
        if count == 1:
            return [files.read_npy(os.path.join(out, f"{name}.npy"))]
        return [files.read_npy(os.path.join(out, f"{name}_{k}.npy")) for k in range(count)]

    def read_gradients(self, out, case):
        found = {}
        for p in case.program.params:
            for name, file, _ in p.leaves():
                base = os.path.join(out, f"adjoint_{file}")
                if p.sparse():
                    found[name] = files.read_sparse(base + (".mtx" if os.path.exists(base + ".mtx") else ".tns"))
                else:
                    found[name] = files.read_npy(base + ".npy")
        return found


def bundle_text(programs):
    if len(programs) == 1:
        return programs[0].text()
    lines = [x for p in programs for x in p.declarations()]
    body = term_text(programs[-1].body)
    for p in reversed(programs[:-1]):
        body = f"({term_text(p.body)},\n {body})"
    return "\n".join([*lines, body]) + "\n"
