"""NumPy and SciPy: values and gradients derived by hand, as one writes them without automatic differentiation.

Transposed and permuted structures are built before the time is taken. Transposed matrices hold their numbers too, as SciPy wants them,
though our kernels, and those by hand, take the numbers of a sparse parameter anew with each call, but in workloads that name it as constant.
"""

import numpy as np
import scipy
from scipy.sparse import csr_array
from scipy.special import expit, gammaln, logsumexp, softmax

from workload import Array, Runs, Workload

VERSION = f"SciPy {scipy.__version__}, NumPy {np.__version__}"


def deconvolution(w: Workload) -> Runs:
    """`np.convolve` takes the direct way, which is faster than transforms for kernels as short as these."""
    x, kernel, z = w.all("x", "w", "z")

    def residual() -> Array:
        return np.convolve(x, kernel, mode="valid") - z

    def value() -> float:
        r = residual()
        return r @ r

    def gradient():
        r = residual()
        dx = np.convolve(r, kernel[::-1], mode="full")
        # One dot product for each element of the kernel.
        dw = np.correlate(x, r, mode="valid")[::-1]
        return r @ r, {"x": 2 * dx, "w": 2 * dw}

    return Runs(value, gradient)


def batched_deconvolution(w: Workload) -> Runs:
    x, kernel, z = w.all("x", "w", "z")

    def residual() -> Array:
        return np.stack([np.convolve(row, kernel, mode="valid") for row in x]) - z

    def value() -> float:
        r = residual()
        return np.vdot(r, r)

    def gradient():
        r = residual()
        dw = sum(np.correlate(row, s, mode="valid") for row, s in zip(x, r))
        return np.vdot(r, r), {"w": 2 * dw[::-1]}

    return Runs(value, gradient)


def logistic(w: Workload) -> Runs:
    X, y, weights = w.csr("X"), w["y"], w["w"]
    transposed = X.T.tocsr()

    def margins() -> Array:
        return -y * (X @ weights)

    def value() -> float:
        return np.logaddexp(0, margins()).mean()

    def gradient():
        m = margins()
        return np.logaddexp(0, m).mean(), {"w": transposed @ (-y * expit(m) / len(y))}

    return Runs(value, gradient)


def sparse_times_dense(w: Workload) -> Runs:
    S, D = w.csr("S"), w["D"]
    rows, columns = w.pattern("S?").axes

    def value() -> float:
        O = S @ D
        return np.vdot(O, O)

    def gradient():
        O = S @ D
        return np.vdot(O, O), {"S": 2 * np.einsum("eq,eq->e", O[rows], D[columns])}

    return Runs(value, gradient)


def matrix_factorisation(w: Workload) -> Runs:
    a, U, V = w.all("A", "U", "V")
    (m, n), (rows, columns) = w.pattern("A?")
    A = w.csr("A")
    # The places of the entries column by column.
    order = np.argsort(columns, kind="stable")
    starts = np.searchsorted(columns[order], np.arange(n + 1))

    def residual() -> Array:
        return a - np.einsum("ek,ek->e", U[rows], V[columns])

    def value() -> float:
        r = residual()
        return r @ r

    def gradient():
        r = residual()
        s = -2 * r
        dU = csr_array((s, A.indices, A.indptr), shape=(m, n)) @ V
        dV = csr_array((s[order], rows[order], starts), shape=(n, m)) @ U
        return r @ r, {"U": dU, "V": dV}

    return Runs(value, gradient)


def graph_convolution(w: Workload) -> Runs:
    S = w.csr("S")
    X, W1, W2, Y = w.all("X", "W1", "W2", "Y")
    transposed = S.T.tocsr()

    def forward() -> tuple[Array, Array]:
        H = np.maximum(S @ (X @ W1), 0)
        return H, S @ (H @ W2) - Y

    def value() -> float:
        _, R = forward()
        return np.vdot(R, R)

    def gradient():
        H, R = forward()
        G = transposed @ (2 * R)
        dH = transposed @ ((G @ W2.T) * (H > 0))
        return np.vdot(R, R), {"W1": X.T @ dH, "W2": H.T @ G}

    return Runs(value, gradient)


def tensor_factorisation(w: Workload) -> Runs:
    t = w["T"]
    factors = w.all("A", "B", "C")
    axes = w.pattern("T?").axes
    # Sums over the entries of a slice are products with a matrix of ones.
    slices = [csr_array((np.ones(len(t)), (at, np.arange(len(t)))), shape=(len(f), len(t))) for at, f in zip(axes, factors)]

    def gathered() -> tuple[list[Array], Array]:
        parts = [factor[at] for factor, at in zip(factors, axes)]
        return parts, t - np.einsum("ek,ek,ek->e", *parts)

    def value() -> float:
        _, r = gathered()
        return r @ r

    def gradient():
        (a, b, c), r = gathered()
        s = (-2 * r)[:, None]
        products = (b * c, a * c, a * b)
        return r @ r, {name: ones @ (s * p) for name, ones, p in zip("ABC", slices, products)}

    return Runs(value, gradient)


def gaussian_mixture(w: Workload) -> Runs:
    alpha, mu, q, L, x, gamma, m = w.all("alpha", "mu", "q", "L", "x", "gamma", "m")
    (n, d), k = x.shape, len(alpha)
    freedom = d + m + 1
    constants = (
        -0.9189385332046727 * n * d
        - k * (freedom * d * (np.log(gamma) - 0.34657359027997264) - 0.28618247146235004 * d * (d - 1))
        + k * gammaln(0.5 * (freedom - np.arange(d))).sum()
    )

    def forward():
        """The triangular factors; points around each centre, [K, N, D]; their images; logarithms of weights, [K, N]."""
        Q = np.tril(L, -1)
        Q[:, range(d), range(d)] = np.exp(q)
        centred = x - mu[:, None, :]
        images = centred @ Q.transpose(0, 2, 1)
        weights = (alpha + q.sum(1))[:, None] - 0.5 * np.einsum("knd,knd->kn", images, images)
        value = logsumexp(weights, axis=0).sum() - n * logsumexp(alpha)
        return Q, centred, images, weights, value + constants + 0.5 * gamma**2 * np.vdot(Q, Q) - m * q.sum()

    def gradient():
        Q, centred, images, weights, value = forward()
        p = softmax(weights, axis=0)
        mass = p.sum(1)
        s = -p[:, :, None] * images
        dQ = s.transpose(0, 2, 1) @ centred + gamma**2 * Q
        diagonal = np.einsum("kdd->kd", dQ) * np.exp(q)
        dmu = -(s.sum(1)[:, None, :] @ Q)[:, 0, :]
        dalpha = mass - n * softmax(alpha)
        return value, {"alpha": dalpha, "mu": dmu, "q": diagonal + mass[:, None] - m, "L": np.tril(dQ, -1)}

    return Runs(lambda: forward()[-1], gradient)


def perceptron(w: Workload) -> Runs:
    x, t, W1, b1, W2, b2 = w.all("x", "t", "W1", "b1", "W2", "b2")

    def forward() -> tuple[Array, Array, float]:
        H = np.tanh(x @ W1 + b1)
        O = H @ W2 + b2
        return H, O, logsumexp(O, axis=1).sum() - np.vdot(t, O)

    def gradient():
        H, O, value = forward()
        dO = softmax(O, axis=1) - t
        dH = (dO @ W2.T) * (1 - H * H)
        return value, {"W1": x.T @ dH, "b1": dH.sum(0), "W2": H.T @ dO, "b2": dO.sum(0)}

    return Runs(lambda: forward()[-1], gradient)


def rank_one(w: Workload) -> Runs:
    """With the square multiplied out by hand: as it stands it is dense."""
    X, u, v = w.csr("X"), w["u"], w["v"]
    transposed = X.T.tocsr()
    known = X.data @ X.data

    def square() -> float:
        return known if "X" in w.constants else X.data @ X.data

    def value() -> float:
        return square() - 2 * (u @ (X @ v)) + (u @ u) * (v @ v)

    def gradient():
        Xv, uu, vv = X @ v, u @ u, v @ v
        value = square() - 2 * (u @ Xv) + uu * vv
        return value, {"u": 2 * (vv * u - Xv), "v": 2 * (uu * v - transposed @ u)}

    return Runs(value, gradient)


def embedding(w: Workload) -> Runs:
    E, t = w.all("E", "t")
    _, tokens = w.pattern("tok").axes

    def value() -> float:
        r = E[tokens] - t
        return np.vdot(r, r)

    def gradient():
        r = E[tokens] - t
        dE = np.zeros_like(E)
        np.add.at(dE, tokens, 2 * r)
        return np.vdot(r, r), {"E": dE}

    return Runs(value, gradient)
