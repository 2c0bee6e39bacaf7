"""CasADi: matrix expressions (`MX`), gradients by `casadi.gradient`, functions called through their buffers.

CasADi stores matrices column by column, so each of ours, row by row, is given as its transpose: a matrix `A` here is `A'` of the formulas.
Functions are called as CasADi evaluates them, or as C that it generates, compiled with `-O3 -march=native`, whichever takes less time; C is left out
where it is long, since its patterns and index lists are spelt out. Scalar expressions (`SX`) are left out: they spell out each operation.
"""

import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import casadi
import numpy as np
from casadi import MX, Sparsity, mtimes, sumsqr
from scipy.special import gammaln

from workload import Runs, Workload, seconds

VERSION = f"CasADi {casadi.__version__}"


class Program:
    """The parameters of a workload as symbols."""

    def __init__(self, workload: Workload, *by: str) -> None:
        self.workload = workload
        self.by = by
        self.symbols: dict[str, MX] = {}

    def dense(self, name: str) -> MX:
        """All axes but the last are one."""
        shape = self.workload[name].shape
        columns = int(np.prod(shape[:-1]))
        return self.symbol(name, Sparsity.dense(shape[-1] if shape else 1, columns))

    def all(self, *names: str) -> list[MX]:
        return [self.dense(name) for name in names]

    def csr(self, name: str) -> MX:
        matrix = self.workload.csr(name)
        rows, columns = matrix.shape
        return self.symbol(name, Sparsity(columns, rows, matrix.indptr.tolist(), matrix.indices.tolist()))

    def symbol(self, name: str, sparsity: Sparsity) -> MX:
        self.symbols[name] = MX.sym(name, sparsity)
        return self.symbols[name]

    def runs(self, loss: MX) -> Runs:
        gradients = {name: casadi.gradient(loss, self.symbols[name]) for name in self.by}
        for name, found in gradients.items():
            gradients[name] = casadi.project(found, self.symbols[name].sparsity())
        value = self.function([loss])
        gradient = self.function([loss, *gradients.values()])

        def with_gradient():
            total, *found = gradient()
            return total, dict(zip(gradients, found))

        return Runs(lambda: value()[0], with_gradient)

    def function(self, results: list[MX]) -> Callable[[], list[np.ndarray]]:
        """The faster one of both ways to call."""
        function = casadi.Function("loss", list(self.symbols.values()), results)
        runs = [self.called(found, results) for found in (function, compiled(function)) if found is not None]
        return min(runs, key=seconds)

    def called(self, function: casadi.Function, results: list[MX]) -> Callable[[], list[np.ndarray]]:
        """Inputs are read, and results written, where they are."""
        inputs = [np.ascontiguousarray(self.workload[name]).reshape(-1) for name in self.symbols]
        outputs = [np.zeros(result.nnz()) for result in results]
        buffer, call = function.buffer()
        for at, array in enumerate(inputs):
            buffer.set_arg(at, memoryview(array))
        for at, array in enumerate(outputs):
            buffer.set_res(at, memoryview(array))

        def run() -> list[np.ndarray]:
            call()
            return outputs

        # What is called has addresses only.
        run.kept = function, buffer, inputs
        return run


# Characters of C beyond which no function is compiled.
LONGEST = 2_000_000


def compiled(function: casadi.Function) -> casadi.Function | None:
    """A function as C, if that is not too long and there is a compiler."""
    with tempfile.TemporaryDirectory() as folder:
        generator = casadi.CodeGenerator("loss.c")
        generator.add(function)
        text = generator.dump()
        if len(text) > LONGEST:
            return None
        source, library = Path(folder) / "loss.c", Path(folder) / "loss.so"
        source.write_text(text)
        command = ["cc", "-O3", "-march=native", "-fPIC", "-shared", str(source), "-o", str(library), "-lm"]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=100)
        except (OSError, subprocess.SubprocessError):
            return None
        # Loaded before the folder goes.
        return casadi.external("loss", str(library))


def blurred(x: MX, kernel: MX, n: int) -> MX:
    """The columns of x convolved with a kernel, where both overlap."""
    m = kernel.numel()
    return sum(x[m - 1 - j : m - 1 - j + n, :] * kernel[j] for j in range(m))


def logsumexp(columns: list[MX]) -> MX:
    """Element by element over some columns; CasADi's own takes one vector."""
    top = columns[0]
    for column in columns[1:]:
        top = casadi.fmax(top, column)
    return top + casadi.log(sum(casadi.exp(column - top) for column in columns))


def places(w: Workload, relation: str) -> list[list[int]]:
    return [axis.tolist() for axis in w.pattern(relation).axes]


def deconvolution(w: Workload) -> Runs:
    p = Program(w, "x", "w")
    x, kernel, z = p.dense("x"), p.dense("w"), p.dense("z")
    return p.runs(sumsqr(blurred(x, kernel, z.size1()) - z))


def batched_deconvolution(w: Workload) -> Runs:
    p = Program(w, "w")
    x, kernel, z = p.dense("x"), p.dense("w"), p.dense("z")
    return p.runs(sumsqr(blurred(x, kernel, z.size1()) - z))


def logistic(w: Workload) -> Runs:
    p = Program(w, "w")
    X, y, weights = p.csr("X"), p.dense("y"), p.dense("w")
    margins = -y * mtimes(weights.T, X).T
    softplus = casadi.fmax(margins, 0) + casadi.log1p(casadi.exp(-casadi.fabs(margins)))
    return p.runs(casadi.sum1(softplus) / y.numel())


def sparse_times_dense(w: Workload) -> Runs:
    """The gradient by gathered columns, summed by a product with a matrix of ones: that of a product by its sparse factor takes ten
    times as long."""
    p = Program(w, "S")
    S, D = p.csr("S"), p.dense("D")
    value = p.function([sumsqr(mtimes(D, S))])

    matrix = w.csr("S")
    p = Program(w, "S")
    s, D = p.symbol("S", Sparsity.dense(1, matrix.nnz)), p.dense("D")
    terms = D[:, matrix.indices.tolist()] * casadi.repmat(s, D.size1(), 1)
    rows = Sparsity(matrix.nnz, len(matrix.indptr) - 1, matrix.indptr.tolist(), list(range(matrix.nnz)))
    return Runs(lambda: value()[0], p.runs(sumsqr(mtimes(terms, casadi.DM(rows, 1)))).gradient)


def matrix_factorisation(w: Workload) -> Runs:
    p = Program(w, "U", "V")
    a, U, V = p.symbol("A", Sparsity.dense(1, len(w["A"]))), *p.all("U", "V")
    rows, columns = places(w, "A?")
    return p.runs(sumsqr(a - casadi.sum1(U[:, rows] * V[:, columns])))


def graph_convolution(w: Workload) -> Runs:
    p = Program(w, "W1", "W2")
    S = p.csr("S")
    X, W1, W2, Y = p.all("X", "W1", "W2", "Y")
    H = casadi.fmax(mtimes(mtimes(W1, X), S), 0)
    return p.runs(sumsqr(mtimes(mtimes(W2, H), S) - Y))


def tensor_factorisation(w: Workload) -> Runs:
    p = Program(w, "A", "B", "C")
    t = p.symbol("T", Sparsity.dense(1, len(w["T"])))
    a, b, c = (p.dense(name)[:, at] for name, at in zip("ABC", places(w, "T?")))
    return p.runs(sumsqr(t - casadi.sum1(a * b * c)))


def gaussian_mixture(w: Workload) -> Runs:
    """The prior's constant is computed beforehand: CasADi has no `lgamma`."""
    p = Program(w, "alpha", "mu", "q", "L")
    alpha, mu, q, L, x, gamma, m = p.all("alpha", "mu", "q", "L", "x", "gamma", "m")
    (d, n), k = x.shape, alpha.numel()
    weights, size = [], 0
    for c in range(k):
        Q = casadi.triu(L[:, c * d : (c + 1) * d], False) + casadi.diag(casadi.exp(q[:, c]))
        images = mtimes(Q.T, x - mu[:, c])
        weights.append(alpha[c] + casadi.sum1(q[:, c]) - 0.5 * casadi.sum1(images**2))
        size += sumsqr(Q)
    likelihood = casadi.sum2(logsumexp(weights)) - n * casadi.logsumexp(alpha) - 0.9189385332046727 * n * d
    freedom = d + float(w["m"]) + 1
    normaliser = freedom * d * (np.log(float(w["gamma"])) - 0.34657359027997264) - 0.28618247146235004 * d * (d - 1)
    normaliser -= gammaln(0.5 * (freedom - np.arange(d))).sum()
    return p.runs(likelihood + 0.5 * gamma**2 * size - m * casadi.sum1(casadi.sum2(q)) - k * normaliser)


def perceptron(w: Workload) -> Runs:
    p = Program(w, "W1", "b1", "W2", "b2")
    x, t, W1, b1, W2, b2 = p.all("x", "t", "W1", "b1", "W2", "b2")
    H = casadi.tanh(mtimes(W1, x) + b1)
    O = mtimes(W2, H) + b2
    return p.runs(casadi.sum2(logsumexp(casadi.vertsplit(O))) - casadi.dot(t, O))


def rank_one(w: Workload) -> Runs:
    """With the square multiplied out by hand: as it stands it is dense."""
    p = Program(w, "u", "v")
    X, u, v = p.csr("X"), p.dense("u"), p.dense("v")
    return p.runs(sumsqr(X) - 2 * mtimes(mtimes(v.T, X), u) + sumsqr(u) * sumsqr(v))


def embedding(w: Workload) -> Runs:
    p = Program(w, "E")
    E, t = p.all("E", "t")
    return p.runs(sumsqr(E[:, places(w, "tok")[1]] - t))
