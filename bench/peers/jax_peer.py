"""JAX: losses compiled by `jax.jit`, gradients by `jax.value_and_grad`.

Structure is given as arguments, for XLA would spend its time on folding constants. Of `segment_sum` over gathered rows, told that they are
sorted, `BCOO` and rows padded to one length, each program has the one that took the least time with the gradient.
"""

from collections.abc import Callable

import jax

import jax.numpy as jnp
from jax.experimental.sparse import BCOO
from jax.nn import logsumexp, relu, softplus
from jax.ops import segment_sum
from jax.scipy.special import gammaln

from workload import Runs, Workload

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_platforms", "cpu")

VERSION = f"JAX {jax.__version__}"


def compiled(loss: Callable, by: dict, *rest) -> Runs:
    """A loss of a dictionary of parameters, and its gradient by these; the rest are constants as far as derivatives go."""
    by, rest = jax.device_put((by, rest))
    value, gradient = jax.jit(loss), jax.jit(jax.value_and_grad(loss))
    return Runs(lambda: jax.block_until_ready(value(by, *rest)), lambda: jax.block_until_ready(gradient(by, *rest)))


def named(w: Workload, *names: str) -> dict:
    return {name: w[name] for name in names}


def deconvolution(w: Workload) -> Runs:
    def loss(by, z):
        return jnp.sum((jnp.convolve(by["x"], by["w"], mode="valid") - z) ** 2)

    return compiled(loss, named(w, "x", "w"), w["z"])


def batched_deconvolution(w: Workload) -> Runs:
    def loss(by, x, z):
        return jnp.sum((jax.vmap(lambda row: jnp.convolve(row, by["w"], mode="valid"))(x) - z) ** 2)

    return compiled(loss, named(w, "w"), w["x"], w["z"])


def logistic(w: Workload) -> Runs:
    def loss(by, data, rows, columns, y):
        margins = segment_sum(data * by["w"][columns], rows, len(y), indices_are_sorted=True)
        return jnp.mean(softplus(-y * margins))

    return compiled(loss, named(w, "w"), w["X"], *w.pattern("X?").axes, w["y"])


def sparse_times_dense(w: Workload) -> Runs:
    """With padded rows."""

    def loss(by, D, places, columns):
        rows = by["S"].at[places].get(mode="fill", fill_value=0)
        return jnp.sum(jnp.einsum("is,isq->iq", rows, D[columns]) ** 2)

    return compiled(loss, named(w, "S"), w["D"], *w.padded("S"))


def matrix_factorisation(w: Workload) -> Runs:
    def loss(by, a, rows, columns):
        return jnp.sum((a - jnp.sum(by["U"][rows] * by["V"][columns], axis=1)) ** 2)

    return compiled(loss, named(w, "U", "V"), w["A"], *w.pattern("A?").axes)


def graph_convolution(w: Workload) -> Runs:
    """With `BCOO`."""
    shape, axes = w.pattern("S?")

    def loss(by, s, places, X, Y):
        S = BCOO((s, places), shape=shape, indices_sorted=True, unique_indices=True)
        return jnp.sum((S @ (relu(S @ (X @ by["W1"])) @ by["W2"]) - Y) ** 2)

    return compiled(loss, named(w, "W1", "W2"), w["S"], jnp.stack(axes, axis=1), w["X"], w["Y"])


def tensor_factorisation(w: Workload) -> Runs:
    def loss(by, t, *axes):
        a, b, c = (by[name][at] for name, at in zip("ABC", axes))
        return jnp.sum((t - jnp.sum(a * b * c, axis=1)) ** 2)

    return compiled(loss, named(w, "A", "B", "C"), w["T"], *w.pattern("T?").axes)


def gaussian_mixture(w: Workload) -> Runs:
    def loss(by, x, gamma, m):
        alpha, mu, q, L = by["alpha"], by["mu"], by["q"], by["L"]
        (n, d), k = x.shape, len(alpha)
        Q = jnp.tril(L, -1) + jax.vmap(jnp.diag)(jnp.exp(q))
        images = jnp.einsum("kde,kne->knd", Q, x - mu[:, None, :])
        weights = (alpha + q.sum(1))[:, None] - 0.5 * jnp.sum(images**2, axis=2)
        likelihood = logsumexp(weights, axis=0).sum() - n * logsumexp(alpha) - 0.9189385332046727 * n * d
        freedom = d + m + 1
        normaliser = freedom * d * (jnp.log(gamma) - 0.34657359027997264) - 0.28618247146235004 * d * (d - 1)
        normaliser -= gammaln(0.5 * (freedom - jnp.arange(d))).sum()
        return likelihood + 0.5 * gamma**2 * jnp.sum(Q**2) - m * q.sum() - k * normaliser

    return compiled(loss, named(w, "alpha", "mu", "q", "L"), *w.all("x", "gamma", "m"))


def perceptron(w: Workload) -> Runs:
    def loss(by, x, t):
        O = jnp.tanh(x @ by["W1"] + by["b1"]) @ by["W2"] + by["b2"]
        return jnp.sum(logsumexp(O, axis=1)) - jnp.sum(t * O)

    return compiled(loss, named(w, "W1", "b1", "W2", "b2"), *w.all("x", "t"))


def rank_one(w: Workload) -> Runs:
    """With the square multiplied out by hand: as it stands it is dense."""

    def loss(by, data, rows, columns):
        u, v = by["u"], by["v"]
        Xv = segment_sum(data * v[columns], rows, len(u), indices_are_sorted=True)
        return data @ data - 2 * (u @ Xv) + (u @ u) * (v @ v)

    return compiled(loss, named(w, "u", "v"), w["X"], *w.pattern("X?").axes)


def embedding(w: Workload) -> Runs:
    def loss(by, t, tokens):
        return jnp.sum((by["E"][tokens] - t) ** 2)

    return compiled(loss, named(w, "E"), w["t"], w.pattern("tok").axes[1])
