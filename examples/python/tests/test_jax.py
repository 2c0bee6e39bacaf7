"""The bridge to JAX, with JAX itself."""

import numpy as np
import pytest

import iverson

jax = pytest.importorskip("jax", reason="JAX is not installed")
jnp = jax.numpy
jax.config.update("jax_enable_x64", True)

import iverson.jax as bridge  # noqa: E402

sparse = pytest.importorskip("scipy.sparse")
CHAIN = "param x : [n] real\nparam c : real\nc * sum i < n - 1. (x[i + 1] - x[i])^4"


def reference(x, c):
    return c * jnp.sum((x[1:] - x[:-1]) ** 4)


def test_values_and_gradients():
    f = bridge.wrap(iverson.Function(CHAIN))
    x = jnp.array([1.0, 2.0, 4.0, 3.0])
    np.testing.assert_allclose(f(x, 2.0), reference(x, 2.0))
    np.testing.assert_allclose(jax.grad(f)(x, 2.0), jax.grad(reference)(x, 2.0))
    np.testing.assert_allclose(jax.grad(f, argnums=1)(x, 2.0), jax.grad(reference, argnums=1)(x, 2.0))


def test_compositions():
    f = bridge.wrap(iverson.Function(CHAIN))
    x = jnp.array([1.0, 2.0, 4.0, 3.0])
    ours = jax.jit(lambda x: jnp.sin(f(jnp.exp(x / 4), 2.0)) + x[0])
    theirs = jax.jit(lambda x: jnp.sin(reference(jnp.exp(x / 4), 2.0)) + x[0])
    np.testing.assert_allclose(jax.jit(jax.grad(ours))(x), jax.grad(theirs)(x), rtol=1e-10)
    batch = jnp.stack([x, 2 * x])
    np.testing.assert_allclose(jax.vmap(lambda x: f(x, 2.0))(batch), jax.vmap(lambda x: reference(x, 2.0))(batch))
    np.testing.assert_allclose(jax.vmap(jax.grad(f), (0, None))(batch, 2.0), jax.vmap(jax.grad(reference), (0, None))(batch, 2.0))


def test_derivatives_of_derivatives():
    f = bridge.wrap(iverson.Function(CHAIN))
    x = jnp.array([1.0, 2.0, 4.0, 3.0])
    np.testing.assert_allclose(jax.jacrev(jax.grad(f))(x, 2.0), jax.hessian(reference)(x, 2.0))


def test_constants_and_several_results():
    g = iverson.Function("param A : csr [m, n] real\nparam x : [n] real\n(gen i < m. sum j < n. A[i, j] * x[j], sum i < n. x[i]^2)")
    A = sparse.random(5, 4, 0.5, random_state=np.random.default_rng(0), format="csr")
    f = bridge.wrap(g, A=A)
    x = jnp.arange(4.0)
    product, norm = f(x)
    np.testing.assert_allclose(product, A @ x)
    np.testing.assert_allclose(jax.grad(lambda x: jnp.sum(f(x)[0] ** 2) + f(x)[1])(x), 2 * A.T @ (A @ x) + 2 * x)


def test_single_precision_is_that_of_the_arguments():
    f = bridge.wrap(iverson.Function(CHAIN))
    x = jnp.array([1.0, 2.0, 4.0], jnp.float32)
    assert f(x, jnp.float32(2.0)).dtype == jnp.float32
    assert jax.grad(f)(x, jnp.float32(2.0)).dtype == jnp.float32
