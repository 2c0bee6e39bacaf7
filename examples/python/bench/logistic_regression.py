"""Logistic regression on a sparse matrix by L-BFGS, beside the same written by hand with NumPy and SciPy.

    python bench/logistic_regression.py [ROWS [COLUMNS [ENTRIES A ROW]]]
"""

import sys
import time

import numpy as np
import scipy.optimize as so
import scipy.sparse as sp
from scipy.special import expit

import iverson

n, d, per_row = (int(given) for given in [*sys.argv[1:], *"100000 2000 20".split()[len(sys.argv) - 1 :]])
rng = np.random.default_rng(0)
X = sp.csr_array((rng.normal(size=n * per_row), rng.integers(0, d, n * per_row), np.arange(0, n * per_row + 1, per_row)), (n, d))
X.sum_duplicates()
y = np.where(X @ rng.normal(size=d) + rng.normal(size=n) > 0, 1.0, -1.0)


def ours():
    loss = iverson.Function("""
    param X : csr [n, d] real
    param y : [n] real
    param w : [d] real
    (mean i < n. log(1 + exp(-y[i] * (sum j < d. X[i, j] * w[j])))) + 0.0005 * (sum j < d. w[j]^2)""")
    objective = loss.objective(X=X, y=y, w=np.zeros(d), wrt="w", engine="native")
    return objective, objective.x0


def by_hand():
    XT = X.T.tocsr()

    def value_and_gradient(w):
        margin = -y * (X @ w)
        return np.logaddexp(0, margin).mean() + 0.0005 * (w @ w), XT @ (-y * expit(margin) / n) + 0.001 * w

    return value_and_gradient, np.zeros(d)


def timed(run):
    start = time.perf_counter()
    result = run()
    return result, time.perf_counter() - start


print(f"{n} rows, {d} columns, {X.nnz} entries; times in milliseconds, the best of five, and of the first run with all preparation\n")
print(f"{'':10} {'prepare':>9} {'a call':>9} {'minimise':>9} {'steps':>6} {'loss':>12}")
for name, prepare in [("iverson", ours), ("by hand", by_hand)]:
    (objective, x0), preparation = timed(prepare)
    w = rng.normal(size=d) / 10
    objective(w)
    call = min(timed(lambda: objective(w))[1] for _ in range(20))
    solve = lambda: so.minimize(objective, x0, jac=True, method="L-BFGS-B", options={"maxiter": 100})
    runs = [timed(solve) for _ in range(5)]
    result, minimise = runs[0][0], min(time for _, time in runs)
    times = "".join(f" {1000 * time:9.2f}" for time in (preparation, call, minimise))
    print(f"{name:10}{times} {result.nit:6} {result.fun:12.9f}")
