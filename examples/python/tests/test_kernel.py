"""Kernels: what they take and give."""

import threading
import time

import numpy as np
import pytest

import iverson

DISTANCE = "param A : [m, n] real\nparam x : [n] real\nparam b : [m] real\nsum i < m. ((sum j < n. A[i, j] * x[j]) - b[i])^2"


@pytest.fixture
def data():
    rng = np.random.default_rng(1)
    return {"A": rng.normal(size=(4, 3)), "x": rng.normal(size=3), "b": rng.normal(size=4)}


def test_kernels_are_called_by_position_and_by_name(data):
    kernel = iverson.Function(DISTANCE).value_and_gradient("x").kernel(data)
    A, x, b = data.values()
    r = A @ x - b
    for result in [kernel(A, x, b), kernel(A, b=b, x=x), kernel(**data)]:
        assert result._fields == ("value", "grad_x")
        assert isinstance(result.value, float)
        np.testing.assert_allclose(result.value, r @ r)
        np.testing.assert_allclose(result.grad_x, 2 * A.T @ r)


def test_inputs_may_be_keywords(data):
    f = iverson.Function(DISTANCE)
    assert f.kernel(**data)(**data) == f.kernel(data)(**data) == f(**data)


def test_constants_are_left_out_of_calls(data):
    kernel = iverson.Function(DISTANCE).kernel(data, constants=["A", "b"], engine="interpreter")
    assert (kernel.parameters, kernel.constants) == (("x",), ("A", "b"))
    A, x, b = data.values()
    np.testing.assert_allclose(kernel(x), np.sum((A @ x - b) ** 2))
    with pytest.raises(iverson.RequestError, match="z"):
        iverson.Function(DISTANCE).kernel(data, constants=["z"])


def test_arrays_of_any_layout_and_type(data):
    f = iverson.Function(DISTANCE)
    kernel = f.kernel(data)
    A, x, b = data.values()
    expected = kernel(A, x, b)
    assert kernel(np.asfortranarray(A), x, b) == expected
    assert kernel(np.repeat(A, 2, axis=1)[:, ::2], x[::-1].copy()[::-1], b) == expected
    assert kernel(A.tolist(), tuple(x), list(b)) == expected
    assert kernel(A.astype(">f8"), x, b) == expected
    integers = kernel(np.ones((4, 3), int), np.arange(3), np.zeros(4, bool))
    assert integers == 4 * 9.0
    # What is widened exactly is; what would be rounded is refused.
    single = A.astype(np.float32)
    assert kernel(single, x, b) == kernel(single.astype(float), x, b)
    narrow = f.kernel(A=single, x=x, b=b)
    assert narrow(single, x, b) == kernel(single, x, b)
    with pytest.raises(iverson.DataError, match="float32"):
        narrow(A, x, b)
    for wrong in ["abc", {"a": 1}, np.array(["a"]), np.zeros(3, complex), None]:
        with pytest.raises((TypeError, ValueError), match="x"):
            kernel(A, wrong, b)


def test_shapes_are_compared(data):
    kernel = iverson.Function(DISTANCE).kernel(data)
    A, x, b = data.values()
    with pytest.raises(iverson.DataError, match=r"x: .*\(3,\).*\(4,\)"):
        kernel(A, b, b)
    with pytest.raises(iverson.DataError, match="A"):
        kernel(A.T.copy(), x, b)
    with pytest.raises(TypeError, match="takes 3"):
        kernel(A, x, b, b)
    with pytest.raises(TypeError, match="`b` is missing"):
        kernel(A, x)
    with pytest.raises(TypeError, match="no parameter `c`"):
        kernel(A, x, b, c=1)
    with pytest.raises(TypeError, match="`x` is given twice"):
        kernel(A, x, b, x=x)
    with pytest.raises(iverson.DataError, match="n"):
        iverson.Function(DISTANCE).kernel(A=A, x=np.zeros(5), b=b)


def test_results_are_new_arrays_of_their_shape():
    f = iverson.Function("param x : [n] real\n(gen i < n, j < n. x[i] * x[j], gen i < n. x[i], sum i < n. x[i])")
    kernel = f.kernel(x=np.zeros(2))
    first = kernel([1.0, 2.0])
    second = kernel([3.0, 4.0])
    results = first if len(first) == 3 else first[0]
    np.testing.assert_array_equal(results[0], [[1, 2], [2, 4]])
    assert kernel([1.0, 2.0]) is not first and second is not first


def test_pairs_are_tuples():
    f = iverson.Function("param p : [n] (real, [2] real)\nsum i < n. fst (p[i]) * (snd (p[i]))[0]")
    a, b = np.array([1.0, 2.0]), np.array([[3.0, 0.0], [4.0, 0.0]])
    assert f.kernel(p=(a, b))((a, b)) == 11.0
    with pytest.raises(TypeError, match="p"):
        f.kernel(p=(a, b))(a)


def test_sizes_maps_and_relations():
    f = iverson.Function("param x : [n] real\nmap to : [p] -> [n]\nsum o < p. x[to(o)]^2")
    assert f.gradient("x")(x=[1.0, 2.0, 3.0], to=[2, 0, 2]).tolist() == [2.0, 0.0, 12.0]
    kernel = f.kernel(x=np.zeros(3), to=[2, 0, 2])
    assert kernel.parameters == ("x",) and kernel([1.0, 2.0, 3.0]) == 19.0
    with pytest.raises(iverson.DataError, match="to"):
        f.kernel(x=np.zeros(3), to=[3, 0, 2])
    with pytest.raises((TypeError, ValueError), match="to"):
        f.kernel(x=np.zeros(3), to=[0.5, 0, 2])
    # Where no shape says how many targets there may be, a size does.
    g = iverson.Function("param y : [p] real\nmap to : [p] -> [n]\ngen i < n. sum o < p. [to(o) = i] * y[o]")
    with pytest.raises(iverson.DataError, match="n"):
        g.kernel(y=np.zeros(2), to=[1, 1])
    assert g.kernel(y=np.zeros(2), to=[1, 1], sizes={"n": 3})([1.0, 2.0]).tolist() == [0.0, 3.0, 0.0]
    h = iverson.Function("param x : [n] real\nrel E : [n, n]\nsum i < n, j < n. [E(i, j)] * x[i] * x[j]")
    adjacency = np.array([[0, 1, 0], [0, 0, 1], [1, 0, 0]])
    assert h.kernel(x=np.zeros(3), E=adjacency == 1)([1.0, 2.0, 3.0]) == 2 + 6 + 3
    sparse = pytest.importorskip("scipy.sparse")
    assert h.kernel(x=np.zeros(3), E=sparse.csr_array(adjacency))([1.0, 2.0, 3.0]) == 2 + 6 + 3


def test_empty_arrays():
    f = iverson.Function("param x : [n] real\nsum i < n. x[i]^2").value_and_gradient("x")
    value, gradient = f(np.zeros(0))
    assert value == 0.0 and gradient.shape == (0,)


def test_both_engines_give_the_same_bits(data):
    f = iverson.Function(DISTANCE).value_and_gradient("x")
    interpreted = f.kernel(data, engine="interpreter")
    assert interpreted.status == "interpreter"
    with pytest.raises(ValueError, match="engine"):
        f.kernel(data, engine="quick")
    try:
        native = f.kernel(data, engine="native")
    except iverson.LimitationError as error:
        pytest.skip(f"there is no compiler: {error}")
    assert native.status == "native"
    a, b = interpreted(**data), native(**data)
    assert a.value == b.value and a.grad_x.tobytes() == b.grad_x.tobytes()


def test_any_number_of_threads_gives_the_same_bits(data):
    f = iverson.Function(DISTANCE).value_and_gradient("x")
    one, three = (f.kernel(data, threads=count)(**data) for count in (1, 3))
    assert one.value == three.value and one.grad_x.tobytes() == three.grad_x.tobytes()
    with pytest.raises(iverson.Error, match="thread"):
        f.kernel(data, threads=0)


def test_memory_is_bounded():
    f = iverson.Function("param x : [n] real\nlet y = gen i < n. exp(x[i])\nsum i < n, j < n. y[i] * y[j] * exp(x[i] * x[j])")
    with pytest.raises(iverson.Error, match="memory|bytes"):
        f.kernel(x=np.ones(4000), memory=10)(np.ones(4000))


def test_loops_over_time_have_results_with_names():
    f = iverson.Function("param x : [n] real\nfold t < n, s = 0. s * 0.5 + x[t]")
    assert f.value_and_gradient("x").results == ("value", "grad_x")
    value, gradient = f.value_and_gradient("x")(np.array([1.0, 2.0]))
    assert value == 2.5 and gradient.tolist() == [0.5, 1.0]


def test_other_threads_run_while_a_kernel_does():
    f = iverson.Function("param x : [n] real\nsum i < n, j < n. exp(-abs(x[i] - x[j]))")
    x = np.linspace(0, 1, 3000)
    kernel = f.kernel(x=x, engine="interpreter")
    ticks, done = [], threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    start = time.perf_counter()
    kernel(x)
    end = time.perf_counter()
    done.set()
    thread.join()
    meanwhile = [t for t in ticks if start + 0.01 < t < end - 0.01]
    assert end - start > 0.1 and len(meanwhile) > 10


def test_kernels_are_called_from_many_threads(data):
    kernel = iverson.Function(DISTANCE).value_and_gradient("x").kernel(data, engine="interpreter")
    expected, found = kernel(**data), []
    threads = [threading.Thread(target=lambda: found.extend(kernel(**data) for _ in range(200))) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert len(found) == 800
    assert all(r.value == expected.value and (r.grad_x == expected.grad_x).all() for r in found)


def test_what_a_kernel_is_called():
    kernel = iverson.Function("param x : [n] real\nsum i < n. x[i]^2").kernel(x=np.zeros(3), engine="interpreter")
    assert repr(kernel) == "<iverson.Kernel (x) -> (value), interpreter>"
