"""Functions: reading, printing, derivatives, errors, pickling."""

import copy
import pickle
import warnings

import numpy as np
import pytest

import iverson

CHAIN = "param x : [n] real\nsum i < n - 1. (x[i + 1] - x[i])^2"


def test_a_function_prints_as_its_program():
    f = iverson.Function("param x : [n] real\nsum i < n. x[i]^2")
    assert str(f) == "param x : [n] real\nsum i < n. x[i]^2\n"
    assert str(f.gradient("x")) == "param x : [n] real\ngen i < n. 2 * x[i]\n"
    assert "Σ i < n" in f.unicode()
    assert "\\sum_{i < n}" in f.latex()
    assert f._repr_latex_().startswith("$") and f._repr_latex_().endswith("$")
    assert repr(f) == "<iverson.Function (x) -> (value)>"
    assert repr(f.value_and_gradient("x")) == "<iverson.Function (x) -> (value, grad_x)>"
    assert (f.parameters, f.results) == (("x",), ("value",))


def test_all_derivatives_by_their_names():
    f = iverson.Function(CHAIN)
    x = np.array([1.0, 2.0, 4.0])
    assert f(x) == 5.0
    np.testing.assert_array_equal(f.gradient("x")(x), [-2, -2, 4])
    value, gradient = f.value_and_gradient("x")(x)
    assert value == 5.0
    np.testing.assert_array_equal(gradient, [-2, -2, 4])
    dx = np.array([1.0, 0.0, -1.0])
    assert f.forward("x")(x=x, dx=dx) == f.jvp("x")(x, dx) == gradient @ dx
    np.testing.assert_array_equal(f.adjoint("x")(x, 2.0), 2 * gradient)
    np.testing.assert_array_equal(f.vjp("x")(x, 2.0), 2 * gradient)
    hessian = np.array([[2.0, -2, 0], [-2, 4, -2], [0, -2, 2]])
    np.testing.assert_array_equal(f.hessian("x")(x).toarray(), hessian)
    np.testing.assert_array_equal(f.hessian_diagonal("x")(x), hessian.diagonal())
    np.testing.assert_array_equal(f.hessian_product("x")(x, dx), hessian @ dx)
    np.testing.assert_array_equal(f.hvp("x")(x, dx), hessian @ dx)
    steps = iverson.Function("param x : [n] real\ngen i < n - 1. x[i + 1] - x[i]")
    jacobian = np.array([[-1.0, 1, 0], [0, -1, 1]])
    np.testing.assert_array_equal(steps.jacobian("x")(x).toarray(), jacobian)
    np.testing.assert_array_equal(steps.gauss_newton("x")(x).toarray(), jacobian.T @ jacobian)
    np.testing.assert_array_equal(steps.gauss_newton_product("x")(x, dx), jacobian.T @ jacobian @ dx)
    np.testing.assert_array_equal(steps.transpose("x")(np.array([1.0, 2.0]), sizes={"n": 3}), [-1, -1, 2])


def test_derivatives_by_several_parameters_and_by_all():
    f = iverson.Function("param a : real\nparam b : real\na * b^2")
    by_name = f.gradient("b", "a")(2.0, 3.0)
    assert by_name._fields == f.gradient(["b", "a"]).results == f.gradient("b", "a").results
    assert by_name._asdict() == f.gradient()(2.0, 3.0)._asdict() == {"grad_a": 9.0, "grad_b": 12.0}


def test_a_derivative_has_derivatives():
    f = iverson.Function("param x : real\nx^4")
    assert f.gradient().gradient().gradient()(2.0) == 48.0


def test_errors_have_a_drawing_and_a_position():
    with pytest.raises(iverson.ProgramError) as caught:
        iverson.Function("param x : [n] real\nsum i < n. (x[i + 1] - x[i])^2")
    error = caught.value
    assert isinstance(error, iverson.Error)
    assert (error.line, error.column) == (2, 13)
    [problem] = error.problems
    assert (problem.code, problem.line, problem.column) == ("out-of-bounds", 2, 13)
    assert problem.message.startswith("`x[i + 1]` may be out of bounds")
    assert "put a guard before it" in problem.help
    assert "────┬───" in str(error) and "<string>:2:13" in str(error)


def test_errors_of_requests_and_data_are_value_errors():
    f = iverson.Function(CHAIN)
    with pytest.raises(iverson.RequestError, match="y") as caught:
        f.gradient("y")
    assert isinstance(caught.value, ValueError)
    with pytest.raises(iverson.DataError, match="x: expected a tensor of the shape"):
        f(np.zeros((2, 2)))
    with pytest.raises(TypeError, match="missing"):
        f()
    with pytest.raises(TypeError, match="no parameter `z`"):
        f(z=1.0)
    with pytest.raises(TypeError, match="`x` is given twice"):
        f(np.zeros(2), x=np.zeros(2))


def test_what_is_easily_misread_is_a_warning():
    text = "param x : [n] real\nparam b : real\n(sum i < n. x[i] + b)^2"
    with pytest.warns(iverson.ReadingWarning, match="`b` does not depend on `i`"):
        iverson.Function(text)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        iverson.Function("param x : [n] real\nparam b : real\n((sum i < n. x[i]) + b)^2")


def test_programs_from_files_and_what_they_import(tmp_path):
    (tmp_path / "squares.iv").write_text("def squares(a : [n] real) = sum(a^2)")
    path = tmp_path / "loss.iv"
    path.write_text('import "squares.iv"\nparam x : [n] real\nsquares(x)')
    f = iverson.Function(path)
    assert f([3.0, 4.0]) == 25.0
    assert pickle.loads(pickle.dumps(f))([3.0, 4.0]) == 25.0
    path.write_text("param x : [n] real\nsum i < n. x[j]")
    with pytest.raises(iverson.ProgramError, match="loss.iv:2"):
        iverson.Function(path)
    path.write_text('import "nowhere.iv"\nparam x : [n] real\nsum i < n. x[i]')
    with pytest.raises(iverson.ProgramError, match="nowhere.iv"):
        iverson.Function(path)
    with pytest.raises(FileNotFoundError):
        iverson.Function(tmp_path / "nothing.iv")


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda f: pickle.loads(pickle.dumps(f))])
def test_functions_are_pickled(again):
    f = iverson.Function(CHAIN)
    for function in [f, f.gradient("x"), f.hessian("x"), f.gradient("x").jvp("x"), f.hessian("x").dense()]:
        other = again(function)
        assert str(other) == str(function)
        x = np.array([1.0, 2.0, 4.0])
        inputs = {"x": x, "dx": x} if "dx" in function.parameters else {"x": x}
        a, b = function(**inputs), other(**inputs)
        assert type(a) is type(b)
        np.testing.assert_array_equal(getattr(a, "toarray", lambda: a)(), getattr(b, "toarray", lambda: b)())


def test_kernels_are_not_pickled():
    kernel = iverson.Function(CHAIN).kernel(x=np.zeros(3))
    with pytest.raises(TypeError, match="pickle the function"):
        pickle.dumps(kernel)
