"""PyTorch: eager, with gradients by `torch.autograd.grad`."""

from typing import Callable

import torch
from torch.nn.functional import conv1d, embedding as lookup, softplus

from workload import Array, Runs, Workload

torch.set_num_threads(1)

VERSION = f"PyTorch {torch.__version__}"


def tensor(x: Array) -> torch.Tensor:
    return torch.from_numpy(x)


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


def entries(w: Workload, relation: str) -> list[Array]:
    """Gathers and `index_add` want 64 bits."""
    return [axis.astype("int64") for axis in w.pattern(relation).axes]


def gathered_sum(terms: torch.Tensor, rows: torch.Tensor, count: int) -> torch.Tensor:
    """The sum of terms in each row."""
    return torch.zeros((count, *terms.shape[1:]), dtype=terms.dtype).index_add(0, rows, terms)


def deconvolution(w: Workload) -> Runs:
    def loss(by, z):
        y = conv1d(by["x"][None, None], by["w"].flip(0)[None, None])[0, 0]
        return ((y - z) ** 2).sum()

    return eager(loss, named(w, "x", "w"), w["z"])


def batched_deconvolution(w: Workload) -> Runs:
    def loss(by, x, z):
        y = conv1d(x[:, None], by["w"].flip(0)[None, None])[:, 0]
        return ((y - z) ** 2).sum()

    return eager(loss, named(w, "w"), w["x"], w["z"])


def logistic(w: Workload) -> Runs:
    def loss(by, data, rows, columns, y):
        margins = gathered_sum(data * by["w"][columns], rows, len(y))
        return softplus(-y * margins, threshold=1000).mean()

    return eager(loss, named(w, "w"), w["X"], *entries(w, "X?"), w["y"])


def sparse_times_dense(w: Workload) -> Runs:
    def loss(by, D, rows, columns):
        return (gathered_sum(by["S"][:, None] * D[columns], rows, len(D)) ** 2).sum()

    return eager(loss, named(w, "S"), w["D"], *entries(w, "S?"))


def matrix_factorisation(w: Workload) -> Runs:
    def loss(by, a, rows, columns):
        return ((a - (by["U"][rows] * by["V"][columns]).sum(1)) ** 2).sum()

    return eager(loss, named(w, "U", "V"), w["A"], *entries(w, "A?"))


def graph_convolution(w: Workload) -> Runs:
    def loss(by, s, rows, columns, X, Y):
        def spread(H):
            return gathered_sum(s[:, None] * H[columns], rows, len(H))

        return ((spread(torch.relu(spread(X @ by["W1"])) @ by["W2"]) - Y) ** 2).sum()

    return eager(loss, named(w, "W1", "W2"), w["S"], *entries(w, "S?"), w["X"], w["Y"])


def tensor_factorisation(w: Workload) -> Runs:
    def loss(by, t, *axes):
        a, b, c = (by[name][at] for name, at in zip("ABC", axes))
        return ((t - (a * b * c).sum(1)) ** 2).sum()

    return eager(loss, named(w, "A", "B", "C"), w["T"], *entries(w, "T?"))


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

    return eager(loss, named(w, "alpha", "mu", "q", "L"), *w.all("x", "gamma", "m"))


def perceptron(w: Workload) -> Runs:
    def loss(by, x, t):
        O = torch.tanh(x @ by["W1"] + by["b1"]) @ by["W2"] + by["b2"]
        return O.logsumexp(1).sum() - (t * O).sum()

    return eager(loss, named(w, "W1", "b1", "W2", "b2"), *w.all("x", "t"))


def rank_one(w: Workload) -> Runs:
    """With the square multiplied out by hand: as it stands it is dense."""

    def loss(by, data, rows, columns):
        u, v = by["u"], by["v"]
        return data @ data - 2 * (data * u[rows] * v[columns]).sum() + (u @ u) * (v @ v)

    return eager(loss, named(w, "u", "v"), w["X"], *entries(w, "X?"))


def embedding(w: Workload) -> Runs:
    """The gradient is dense, as ours; `sparse=True` would return the rows touched only."""

    def loss(by, t, tokens):
        return ((lookup(tokens, by["E"]) - t) ** 2).sum()

    return eager(loss, named(w, "E"), w["t"], entries(w, "tok")[1])


PROGRAMS: dict[str, Callable[[Workload], Runs]] = {
    "K1": deconvolution,
    "K2": batched_deconvolution,
    "K3": logistic,
    "K4": sparse_times_dense,
    "K5": matrix_factorisation,
    "K6": graph_convolution,
    "K7": tensor_factorisation,
    "K9": gaussian_mixture,
    "K11": perceptron,
    "K13": rank_one,
    "K15": embedding,
}
