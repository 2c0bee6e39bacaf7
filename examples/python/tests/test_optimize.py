"""Optimisers of SciPy."""

import numpy as np
import pytest

import iverson

optimize = pytest.importorskip("scipy.optimize")
sparse = pytest.importorskip("scipy.sparse")

ROSENBROCK = "param x : [n] real\nsum i < n - 1. 100 * (x[i + 1] - x[i]^2)^2 + (1 - x[i])^2"
LOGISTIC = """
param X : csr [n, d] real
param y : [n] real
param w : [d] real
param b : real
(sum i < n. log(1 + exp(-y[i] * ((sum j < d. X[i, j] * w[j]) + b)))) / n + 0.0005 * (sum j < d. w[j]^2)
"""


def test_a_kernel_is_what_minimize_takes():
    x = np.zeros(10)
    kernel = iverson.Function(ROSENBROCK).value_and_gradient("x").kernel(x=x)
    result = optimize.minimize(kernel, x, jac=True, method="L-BFGS-B")
    assert result.success
    np.testing.assert_allclose(result.x, 1, atol=1e-4)
    assert optimize.check_grad(lambda x: kernel(x).value, lambda x: kernel(x).grad_x, x) < 1e-5


def test_second_derivatives():
    f, x = iverson.Function(ROSENBROCK), np.zeros(10)
    objective = f.objective(x=x)
    for method, how in [("Newton-CG", {"hessp": objective.hessp}), ("trust-constr", {"hess": objective.hess})]:
        result = optimize.minimize(objective, objective.x0, jac=True, method=method, **how)
        np.testing.assert_allclose(result.x, 1, atol=1e-4)


def test_least_squares_takes_a_sparse_jacobian():
    f = iverson.Function("param x : [n] real\ngen i < n, k < 2. [k = 0] * (1 - x[i]) + [k = 1 and i + 1 < n] * 10 * (x[i + 1] - x[i]^2)")
    flat = iverson.Function("param x : [n] real\ngen i < n - 1. 10 * (x[i + 1] - x[i]^2) + 0.1 * (x[i] - 1)")
    x = np.full(8, 0.5)
    residual, jacobian = flat.kernel(x=x), flat.jacobian("x").kernel(x=x)
    result = optimize.least_squares(residual, x, jac=jacobian, tr_solver="lsmr")
    assert result.cost < 1e-10
    assert f.jacobian("x")(x).shape == (8, 2, 8)


def test_an_objective_of_several_parameters():
    rng = np.random.default_rng(0)
    X = sparse.random(200, 20, 0.2, random_state=rng, format="csr")
    y = np.where(X @ rng.normal(size=20) > 0, 1.0, -1.0)
    f = iverson.Function(LOGISTIC)
    objective = f.objective({"X": X, "y": y, "w": np.zeros(20), "b": 0.0}, wrt=["w", "b"])
    assert objective.x0.shape == (21,)
    result = optimize.minimize(objective, objective.x0, jac=True, method="L-BFGS-B")
    found = objective.split(result.x)
    assert set(found) == {"w", "b"} and found["w"].shape == (20,) and isinstance(found["b"], float)
    np.testing.assert_allclose(f(X=X, y=y, **found), result.fun)
    value, gradient = objective(objective.x0)
    assert value == pytest.approx(np.log(2)) and gradient.shape == (21,)
    direction = rng.normal(size=21)
    step = 1e-6
    difference = (objective(step * direction)[1] - objective(-step * direction)[1]) / (2 * step)
    np.testing.assert_allclose(objective.hessp(objective.x0, direction), difference, atol=1e-7)
    np.testing.assert_allclose(objective.hess(objective.x0) @ direction, difference, atol=1e-7)
