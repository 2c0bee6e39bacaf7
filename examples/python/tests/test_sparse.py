"""Sparse matrices, in and out."""

import numpy as np
import pytest

import iverson

sparse = pytest.importorskip("scipy.sparse")

FORMATS = ["csr", "csc", "coo"]
KINDS = {"csr": (sparse.csr_array, sparse.csr_matrix), "csc": (sparse.csc_array, sparse.csc_matrix), "coo": (sparse.coo_array, sparse.coo_matrix)}


def energy(format):
    return iverson.Function(f"param A : {format} [m, n] real\nparam x : [n] real\nsum i < m. (sum j < n. A[i, j] * x[j])^2")


def matrix(format, kind=0, index=np.int32):
    rng = np.random.default_rng(3)
    A = KINDS[format][kind](sparse.random(7, 5, 0.4, random_state=rng, format=format))
    A.sum_duplicates()
    if format == "coo":
        rows, cols = A.coords
        A.coords = (rows.astype(index), cols.astype(index))
    else:
        A.sort_indices()
        A.indices, A.indptr = A.indices.astype(index), A.indptr.astype(index)
    return A


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_formats_of_scipy(format, kind, index):
    A, x = matrix(format, kind, index), np.arange(5.0)
    kernel = energy(format).value_and_gradient("A", "x").kernel(A=A, x=x)
    value, by_A, by_x = kernel(A, x)
    dense = A.toarray()
    np.testing.assert_allclose(value, np.sum((dense @ x) ** 2))
    np.testing.assert_allclose(by_x, 2 * dense.T @ (dense @ x))
    assert by_A.format == format
    np.testing.assert_allclose(by_A.toarray(), np.where(dense != 0, 2 * np.outer(dense @ x, x), 0))


@pytest.mark.parametrize("format", ["csr", "csc"])
def test_results_share_the_index_arrays(format):
    A, x = matrix(format), np.arange(5.0)
    kernel = energy(format).gradient("A").kernel(A=A, x=x)
    first, second = kernel(A, x), kernel(A, 2 * x)
    assert first.indices is second.indices is A.indices
    assert first.indptr is second.indptr is A.indptr
    assert not np.shares_memory(first.data, second.data)
    hessian = iverson.Function("param x : [n] real\nsum i < n - 1. (x[i + 1] - x[i])^4").hessian("x").kernel(x=x)
    first, second = hessian(x), hessian(x + 1)
    assert first.indices is second.indices and first.indices.dtype == np.int32
    # What is shared cannot be changed from one of them.
    with pytest.raises(ValueError):
        first.indices[0] = 3


def test_results_are_ordinary_matrices():
    linalg = pytest.importorskip("scipy.sparse.linalg")
    x = np.linspace(0, 1, 20)
    f = iverson.Function("param x : [n] real\n(sum i < n. x[i]^2) + sum i < n - 1. (x[i + 1] - x[i])^2")
    H = f.hessian("x")(x)
    assert isinstance(H, sparse.csr_array) and H.shape == (20, 20) and H.nnz == 58
    assert H.has_sorted_indices and H.has_canonical_format
    H.check_format(full_check=True)
    D = H.toarray()
    np.testing.assert_allclose((H + H).toarray(), 2 * D)
    np.testing.assert_allclose((H @ H).toarray(), D @ D)
    np.testing.assert_allclose(H.T.toarray(), D.T)
    np.testing.assert_allclose(H[3:5].toarray(), D[3:5])
    np.testing.assert_allclose(linalg.spsolve(H.tocsc(), x), np.linalg.solve(D, x))
    np.testing.assert_allclose(linalg.splu(H.tocsc()).solve(x), np.linalg.solve(D, x))
    np.testing.assert_allclose(linalg.cg(H, x, rtol=1e-12)[0], np.linalg.solve(D, x))
    copy = H.copy()
    copy.data[:] = 0
    copy.eliminate_zeros()
    assert copy.nnz == 0 and H.nnz == 58


def test_entries_may_come_in_any_order():
    f = iverson.Function("param A : coo [m, n] real\ngen i < m, j < n. i * A[i, j] + j")
    rows, cols, data = np.array([2, 0, 1, 0]), np.array([0, 1, 1, 0]), np.array([4.0, 1.0, 3.0, 2.0])
    A = sparse.coo_array((data, (rows, cols)), shape=(3, 2))
    kernel = f.kernel(A=A)
    expected = np.arange(3)[:, None] * A.toarray() + np.arange(2)
    np.testing.assert_array_equal(kernel(A), expected)
    B = A.copy()
    B.data = B.data * 10
    np.testing.assert_array_equal(kernel(B), np.arange(3)[:, None] * B.toarray() + np.arange(2))
    g = iverson.Function("param A : csr [m, n] real\ngen i < m, j < n. i * A[i, j] + j")
    C = sparse.csr_array((np.array([1.0, 2.0, 3.0]), np.array([1, 0, 0]), np.array([0, 2, 2, 3])), shape=(3, 2))
    assert not C.has_sorted_indices
    order = C.indices.copy()
    np.testing.assert_array_equal(g(C), np.arange(3)[:, None] * C.toarray() + np.arange(2))
    # What is given is not changed.
    np.testing.assert_array_equal(C.indices, order)


def test_other_values_on_the_same_pattern():
    A, x = matrix("csr"), np.arange(5.0)
    kernel = energy("csr").kernel(A=A, x=x)
    B = A * 2.0
    np.testing.assert_allclose(kernel(B, x), 4 * kernel(A, x))
    longer = sparse.csr_array((B.data, B.indices.astype(np.int64), B.indptr.astype(np.int64)), shape=B.shape)
    np.testing.assert_allclose(kernel(longer, x), 4 * kernel(A, x))
    # Values alone, in the order of the entries.
    np.testing.assert_allclose(kernel(B.data, x), 4 * kernel(A, x))


def test_what_does_not_fit_is_refused():
    A, x = matrix("csr"), np.arange(5.0)
    kernel = energy("csr").kernel(A=A, x=x)
    other = A.copy()
    other.indices = other.indices.copy()
    row = np.flatnonzero(np.diff(A.indptr) == 1)[0]
    other.indices[A.indptr[row]] = (other.indices[A.indptr[row]] + 1) % 5
    with pytest.raises(iverson.DataError, match="A: .*other entries"):
        kernel(other, x)
    with pytest.raises(iverson.DataError, match="A: .*csc.*csr"):
        kernel(A.tocsc(), x)
    with pytest.raises(iverson.DataError, match="A: .*dense"):
        energy("csr").kernel(A=A.toarray(), x=x)
    with pytest.raises(iverson.DataError, match="A: .*csc.*tocsr"):
        energy("csr").kernel(A=A.tocsc(), x=x)
    with pytest.raises(iverson.DataError, match="A: .*sparse|A: .*csr"):
        iverson.Function("param A : [m, n] real\nsum i < m, j < n. A[i, j]").kernel(A=A)
    twice = sparse.csr_array((np.ones(2), np.array([1, 1]), np.array([0, 2])), shape=(1, 3))
    with pytest.raises(iverson.DataError, match="sum_duplicates"):
        energy("csr").kernel(A=twice, x=np.zeros(3))
    bad = sparse.csr_array((np.ones(1), np.array([1]), np.array([0, 1])), shape=(1, 3))
    bad.indices = np.array([7], np.int32)
    with pytest.raises(iverson.DataError, match="A"):
        energy("csr").kernel(A=bad, x=np.zeros(3))
    bad.indices = np.array([-1], np.int32)
    with pytest.raises(iverson.DataError, match="A"):
        energy("csr").kernel(A=bad, x=np.zeros(3))


def test_products_of_sparse_matrices_are_sparse_when_asked():
    f = iverson.Function("param A : csr [m, k] real\nparam B : csr [k, n] real\ngen i < m, j < n. sum l < k. A[i, l] * B[l, j]")
    A, B = matrix("csr"), sparse.csr_array(matrix("csr").T)
    B.sort_indices()
    product = f.kernel(A=A, B=B, sparse=["value"])(A, B)
    assert isinstance(product, sparse.csr_array)
    np.testing.assert_allclose(product.toarray(), (A @ B).toarray())
    assert isinstance(f(A, B), np.ndarray)


def test_tensors_of_more_axes():
    f = iverson.Function("param T : coo [l, m, n] real\nsum i < l, j < m, k < n. (i + 1) * T[i, j, k]^2")
    try:
        T = sparse.coo_array((np.array([1.0, 2.0]), (np.array([1, 0]), np.array([0, 1]), np.array([2, 2]))), shape=(2, 2, 3))
    except ValueError:
        pytest.skip("this scipy has no sparse tensors of three axes")
    value, gradient = f.value_and_gradient("T")(T)
    assert value == 2 * 1 + 4.0
    np.testing.assert_array_equal(gradient.toarray()[[1, 0], [0, 1], [2, 2]], [4.0, 4.0])


def test_single_precision():
    A, x = matrix("csr"), np.arange(5.0)
    narrow = A.astype(np.float32)
    kernel = energy("csr").kernel(A=narrow, x=x)
    np.testing.assert_allclose(kernel(narrow, x), np.sum((narrow.astype(float) @ x) ** 2))
