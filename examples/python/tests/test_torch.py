"""The bridge to PyTorch, with PyTorch itself."""

import numpy as np
import pytest

import iverson

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import iverson.torch as bridge  # noqa: E402

sparse = pytest.importorskip("scipy.sparse")
CHAIN = "param x : [n] real\nparam c : real\nc * sum i < n - 1. (x[i + 1] - x[i])^4"


def reference(x, c):
    return c * ((x[1:] - x[:-1]) ** 4).sum()


def test_values_and_gradients():
    f = bridge.wrap(iverson.Function(CHAIN))
    x = torch.tensor([1.0, 2.0, 4.0, 3.0], dtype=torch.float64, requires_grad=True)
    c = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    value = torch.sin(f(x.exp(), c))
    value.backward()
    found = x.grad.clone(), c.grad.clone()
    x.grad = c.grad = None
    torch.sin(reference(x.exp(), c)).backward()
    torch.testing.assert_close(found, (x.grad, c.grad))


def test_against_differences():
    f = bridge.wrap(iverson.Function(CHAIN))
    x = torch.tensor([1.0, 2.0, 4.0, 3.0], dtype=torch.float64, requires_grad=True)
    c = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(f, (x, c))
    assert torch.autograd.gradgradcheck(f, (x, c))


def test_constants_and_several_results():
    g = iverson.Function("param A : csr [m, n] real\nparam x : [n] real\n(gen i < m. sum j < n. A[i, j] * x[j], sum i < n. x[i]^2)")
    A = sparse.random(5, 4, 0.5, random_state=np.random.default_rng(0), format="csr")
    f = bridge.wrap(g, A=A)
    x = torch.arange(4.0, dtype=torch.float64, requires_grad=True)
    product, norm = f(x)
    ((product**2).sum() + norm).backward()
    v = x.detach().numpy()
    np.testing.assert_allclose(x.grad.numpy(), 2 * A.T @ (A @ v) + 2 * v)


def test_single_precision_is_that_of_the_arguments():
    f = bridge.wrap(iverson.Function(CHAIN))
    x = torch.tensor([1.0, 2.0, 4.0], requires_grad=True)
    value = f(x, torch.tensor(2.0))
    assert value.dtype == torch.float32
    value.backward()
    assert x.grad.dtype == torch.float32
