"""PyTorch: eager and by `torch.compile`, whichever takes less time, with gradients by `torch.autograd.grad`.

Programs with sparse tensors run eagerly only, and so does what the compiler refuses.

A product with a CSR matrix takes the least time without a gradient, but its derivative by a dense vector, and more so that by its
entries, takes several times that of gathers from rows padded to one length; so values are computed with the one, and gradients with the
other.
"""

import sys
import warnings
from collections.abc import Callable, Iterable

import torch
from torch.nn.functional import conv1d, softplus
from torch.nn.functional import embedding as lookup

from workload import Array, Runs, Workload, seconds

torch.set_num_threads(1)

VERSION = f"PyTorch {torch.__version__}"


def tensor(x: Array) -> torch.Tensor:
    return torch.from_numpy(x)


def fastest(loss: Callable, by: dict[str, Array], *rest: Array) -> Runs:
    """As `eager`, or compiled."""
    plain = eager(loss, by, *rest)
    try:
        compiled = eager(torch.compile(loss, dynamic=False), by, *rest)
        return Runs(*(min(pair, key=seconds) for pair in zip(plain, compiled)))
    except Exception as error:
        print(f"torch.compile: {type(error).__name__}", file=sys.stderr)
        return plain


def eager(loss: Callable, by: dict[str, Array], *rest: Array) -> Runs:
    """A loss of a dictionary of parameters, and its gradient by these."""
    constants = [tensor(x) for x in rest]
    plain = {name: tensor(x) for name, x in by.items()}
    tracked = {name: x.clone().requires_grad_() for name, x in plain.items()}

    def value() -> torch.Tensor:
        with torch.no_grad():
            return loss(plain, *constants)

    def gradient():
        value = loss(tracked, *constants)
        found = torch.autograd.grad(value, list(tracked.values()))
        return value.detach(), dict(zip(tracked, found))

    return Runs(value, gradient)


def named(w: Workload, *names: str) -> dict[str, Array]:
    return {name: w[name] for name in names}


def integers(arrays: Iterable[Array]) -> list[Array]:
    """Gathers want 64 bits."""
    return [array.astype("int64") for array in arrays]


def csr(w: Workload, name: str) -> torch.Tensor:
    matrix = w.csr(name)
    starts, columns = integers((matrix.indptr, matrix.indices))
    with warnings.catch_warnings(action="ignore"):
        # CSR is called a beta.
        return torch.sparse_csr_tensor(tensor(starts), tensor(columns), tensor(matrix.data), size=matrix.shape)


def gathered(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    """`x[at]`, whose derivative takes longer than that of `index_select`."""
    return x.index_select(0, at.reshape(-1)).reshape(*at.shape, *x.shape[1:])


def rows_of(data: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Padded rows of the entries of a sparse matrix."""
    return gathered(torch.cat([data, data.new_zeros(1)]), places)


def by_windows(x: torch.Tensor, kernel: torch.Tensor) -> torch.Tensor:
    return x.unfold(-1, len(kernel), 1) @ kernel.flip(0)


def by_shifts(x: torch.Tensor, kernel: torch.Tensor) -> torch.Tensor:
    m = len(kernel)
    n = x.shape[-1] - m + 1
    return sum(x[..., m - 1 - j : m - 1 - j + n] * kernel[j] for j in range(m))


def by_conv1d(x: torch.Tensor, kernel: torch.Tensor) -> torch.Tensor:
    return conv1d(x[None, None], kernel.flip(0)[None, None])[0, 0]


def deconvolution(w: Workload) -> Runs:
    """For doubles, `conv1d` is best for short kernels; for long ones a sum of shifted signals takes a third of its time."""
    blurred = by_conv1d if len(w["w"]) < 16 else by_shifts

    def loss(by, z):
        return ((blurred(by["x"], by["w"]) - z) ** 2).sum()

    return fastest(loss, named(w, "x", "w"), w["z"])


def batched_deconvolution(w: Workload) -> Runs:
    """The value by windows, which are quick without a gradient only."""

    def program(blurred: Callable) -> Runs:
        def loss(by, x, z):
            return ((blurred(x, by["w"]) - z) ** 2).sum()

        return fastest(loss, named(w, "w"), w["x"], w["z"])

    return Runs(program(by_windows).value, program(by_shifts).gradient)


def logistic(w: Workload) -> Runs:
    X = csr(w, "X")

    def mean(margins: torch.Tensor) -> torch.Tensor:
        # Beyond its threshold, softplus is rounded to its argument.
        return softplus(margins, threshold=1000).mean()

    def with_csr(by, y):
        return mean(-y * (X @ by["w"]))

    def with_rows(by, rows, columns, y):
        return mean(-y * (rows * gathered(by["w"], columns)).sum(1))

    places, columns = integers(w.padded("X"))
    rows = rows_of(tensor(w["X"]), tensor(places)).numpy()
    by = named(w, "w")
    return Runs(eager(with_csr, by, w["y"]).value, fastest(with_rows, by, rows, columns, w["y"]).gradient)


def sparse_times_dense(w: Workload) -> Runs:
    S = csr(w, "S")

    def with_csr(by, D):
        return ((S @ D) ** 2).sum()

    def with_rows(by, D, places, columns):
        return ((rows_of(by["S"], places)[:, None] @ gathered(D, columns)) ** 2).sum()

    by = named(w, "S")
    return Runs(eager(with_csr, by, w["D"]).value, fastest(with_rows, by, w["D"], *integers(w.padded("S"))).gradient)


def matrix_factorisation(w: Workload) -> Runs:
    def loss(by, a, rows, columns):
        return ((a - (gathered(by["U"], rows) * gathered(by["V"], columns)).sum(1)) ** 2).sum()

    return fastest(loss, named(w, "U", "V"), w["A"], *integers(w.pattern("A?").axes))


def graph_convolution(w: Workload) -> Runs:
    """With CSR: of matrices the derivative takes little longer than the product."""
    S = csr(w, "S")

    def loss(by, X, Y):
        return ((S @ (torch.relu(S @ (X @ by["W1"])) @ by["W2"]) - Y) ** 2).sum()

    return eager(loss, named(w, "W1", "W2"), w["X"], w["Y"])


def tensor_factorisation(w: Workload) -> Runs:
    def loss(by, t, *axes):
        a, b, c = (gathered(by[name], at) for name, at in zip("ABC", axes))
        return ((t - (a * b * c).sum(1)) ** 2).sum()

    return fastest(loss, named(w, "A", "B", "C"), w["T"], *integers(w.pattern("T?").axes))


def gaussian_mixture(w: Workload) -> Runs:
    def loss(by, x, gamma, m):
        alpha, mu, q, L = by["alpha"], by["mu"], by["q"], by["L"]
        (n, d), k = x.shape, len(alpha)
        Q = torch.tril(L, -1) + torch.diag_embed(q.exp())
        images = (x - mu[:, None]) @ Q.mT
        weights = (alpha + q.sum(1))[:, None] - 0.5 * (images**2).sum(2)
        likelihood = weights.logsumexp(0).sum() - n * alpha.logsumexp(0) - 0.9189385332046727 * n * d
        freedom = d + m + 1
        normaliser = freedom * d * (gamma.log() - 0.34657359027997264) - 0.28618247146235004 * d * (d - 1)
        normaliser = normaliser - torch.lgamma(0.5 * (freedom - torch.arange(d))).sum()
        return likelihood + 0.5 * gamma**2 * (Q**2).sum() - m * q.sum() - k * normaliser

    return fastest(loss, named(w, "alpha", "mu", "q", "L"), *w.all("x", "gamma", "m"))


def perceptron(w: Workload) -> Runs:
    def loss(by, x, t):
        O = torch.tanh(x @ by["W1"] + by["b1"]) @ by["W2"] + by["b2"]
        return O.logsumexp(1).sum() - (t * O).sum()

    return fastest(loss, named(w, "W1", "b1", "W2", "b2"), *w.all("x", "t"))


def rank_one(w: Workload) -> Runs:
    """With the square multiplied out by hand: as it stands it is dense."""
    X = csr(w, "X")

    def total(data, Xv, u, v):
        return data @ data - 2 * (u @ Xv) + (u @ u) * (v @ v)

    def with_csr(by, data):
        return total(data, X @ by["v"], by["u"], by["v"])

    def with_rows(by, data, rows, columns):
        return total(data, (rows * gathered(by["v"], columns)).sum(1), by["u"], by["v"])

    places, columns = integers(w.padded("X"))
    rows = rows_of(tensor(w["X"]), tensor(places)).numpy()
    by = named(w, "u", "v")
    return Runs(eager(with_csr, by, w["X"]).value, fastest(with_rows, by, w["X"], rows, columns).gradient)


def embedding(w: Workload) -> Runs:
    """The gradient is dense, as ours; `sparse=True` would return the rows touched only."""

    def loss(by, t, tokens):
        return ((lookup(tokens, by["E"]) - t) ** 2).sum()

    return fastest(loss, named(w, "E"), w["t"], *integers(w.pattern("tok").axes[1:]))
