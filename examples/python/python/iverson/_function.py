"""Functions: programs, their derivatives, and their kernels."""

from __future__ import annotations

import os
import pathlib
import warnings
from collections import namedtuple

import numpy as np

from . import _inputs
from ._errors import DataError, ReadingWarning
from ._native import Kernel, Program
from ._objective import Objective


class Function:
    """A program of the language of `iverson`, from its text or from a path.

    >>> import iverson
    >>> f = iverson.Function("param x : [n] real\\nsum i < n. x[i]^2")
    >>> print(f.gradient("x"))
    param x : [n] real
    gen i < n. 2 * x[i]
    <BLANKLINE>
    >>> f([3.0, 4.0])
    25.0

    Derivatives are functions as well. `kernel` binds a function to sizes and patterns, for many calls.
    """

    def __init__(self, text):
        load, file = None, "<string>"
        if isinstance(text, os.PathLike):
            path = pathlib.Path(text)
            text, file = path.read_text(encoding="utf-8"), str(path)
            load = _loader(path)
        program, problems, drawing = Program.parse(text, file, load)
        if problems:
            warnings.warn("\n" + drawing, ReadingWarning, stacklevel=2)
        # What a text imports is part of the printed program, but not of the text.
        self._set(program, text if load is None else program.print("text"), ())

    def _set(self, program, text, steps):
        self._program, self._text, self._steps = program, text, steps
        self._declared = program.declared()
        self._results, self._last = tuple(program.results()), None

    def _step(self, name, *arguments):
        """The function that a method of the program makes; pickles have the text and these steps."""
        function = object.__new__(Function)
        made = getattr(self._program, name)(*arguments)
        function._set(made, self._text, (*self._steps, (name, *arguments)))
        return function

    def __reduce__(self):
        return _again, (self._text, self._steps)

    @property
    def parameters(self):
        """The names of the parameters, in order."""
        return tuple(name for name, kind, _ in self._declared if kind not in ("rel", "map"))

    @property
    def relations(self):
        """The names of the relations and maps."""
        return tuple(name for name, kind, _ in self._declared if kind in ("rel", "map"))

    @property
    def results(self):
        """The names of the results, in order."""
        return self._results

    @property
    def added(self):
        """The parameters that a derivative has and its program has not: tangents `dx`, or seeds."""
        return tuple(self._program.added)

    def __str__(self):
        return self._program.print("text")

    def unicode(self):
        """The program as on paper, in unicode."""
        return self._program.print("unicode")

    def latex(self):
        """The program in LaTeX, for a formula."""
        return self._program.print("latex")

    def _repr_latex_(self):
        return f"$\\displaystyle {self.latex().strip()}$"

    def __repr__(self):
        return f"<iverson.Function ({', '.join(self.parameters + self.relations)}) -> ({', '.join(self.results)})>"

    # Derivatives. Each takes the names of parameters, one by one or as a list; all parameters where there are none.

    def _derive(self, mode, wrt, with_value=False, diagonal=False):
        names = [name for names in wrt for name in ([names] if isinstance(names, str) else names)]
        return self._step("derive", mode, names or list(self.parameters), with_value, diagonal)

    def gradient(self, *wrt):
        """The gradient of a program with one real result: a result `grad_x` for each parameter `x`."""
        return self._derive("gradient", wrt)

    def value_and_gradient(self, *wrt):
        """The value and the gradient, which share their work."""
        return self._derive("gradient", wrt, with_value=True)

    def forward(self, *wrt):
        """The forward derivative, `J dx`: takes a tangent `dx` of each parameter `x`."""
        return self._derive("forward", wrt)

    def adjoint(self, *wrt):
        """The adjoint derivative, `J' dy`: takes a seed for each result, and has a result `adjoint_x`."""
        return self._derive("adjoint", wrt)

    jvp, vjp = forward, adjoint

    def jacobian(self, *wrt):
        """The Jacobian, with the axes of the result and of the parameter; kernels store it sparse."""
        return self._derive("jacobian", wrt)

    def hessian(self, *wrt):
        """The Hessian of a program with one real result: a result `hessian_x_y` for each two parameters; kernels store it sparse."""
        return self._derive("hessian", wrt)

    def hessian_diagonal(self, *wrt):
        """The diagonal of the Hessian, of the shape of each parameter."""
        return self._derive("hessian", wrt, diagonal=True)

    def hessian_product(self, *wrt):
        """The Hessian times a vector: takes a tangent `dx` of each parameter `x`."""
        return self._derive("hessian_product", wrt)

    hvp = hessian_product

    def gauss_newton(self, *wrt):
        """The Gauss-Newton matrix `J' J`; kernels store it sparse."""
        return self._derive("gauss_newton", wrt)

    def gauss_newton_product(self, *wrt):
        """The Gauss-Newton matrix times a vector, `J' J dx`."""
        return self._derive("gauss_newton_product", wrt)

    def transpose(self, *wrt):
        """The transposed program of one that is linear in its parameters."""
        return self._derive("transpose", wrt)

    def dense(self):
        """The same function, of which kernels store all results as arrays, zeros and all."""
        return self._step("dense")

    def simplify(self):
        """The same function with no more work."""
        return self._step("simplify")

    # Numbers.

    def kernel(self, inputs=None, /, *, constants=(), sizes=None, sparse=(), engine="auto", threads=None, memory=None, as_written=False, **named):
        """The function for the sizes and patterns of inputs, by name: as a dictionary, as keywords, or both.

        Calls take the parameters that are not `constants`, whose numbers are bound; what depends on constants alone is computed once. Relations
        and maps are bound too. Of other parameters only shapes and patterns matter. Results that are named `sparse` are stored on the pattern that
        follows from those of the inputs. The engine `auto` interprets until compiled code is there; `native` waits for it.
        Calls run on `threads` threads, all there are where nothing is said, with the same bits on any number; what they take beside inputs and
        results stays within `memory` bytes, or is refused. They run the program simplified, or as it is written.
        """
        inputs = {**(inputs or {}), **named}
        given, slots = self._describe(inputs)
        constants = [constants] if isinstance(constants, str) else list(constants)
        sparse = [sparse] if isinstance(sparse, str) else list(sparse)
        bound = self._program.bind(given, dict(sizes or {}), constants, sparse, engine, threads, memory, as_written)
        called = {name: slots[name] for name in self.parameters if name not in constants}
        leaves = [slot for slots in called.values() for slot in slots]
        templates = [_template(output, leaves, shared) for output, shared in zip(bound.outputs(), bound.shared())]
        results = namedtuple("Results", self.results, rename=True) if len(self.results) > 1 else None
        parameters = [(name, len(slots)) for name, slots in called.items()]
        for slot in leaves:
            # The numbers were needed for binding only.
            slot.leaf = None
        arrays = [slot.direct for slot in leaves]
        return Kernel(bound, parameters, arrays, lambda k, value: leaves[k].numbers(value), templates, results)

    def _describe(self, inputs):
        given, slots = [], {}
        for name in inputs:
            if all(name != known for known, _, _ in self._declared):
                raise TypeError(f"the program has no parameter `{name}`")
        for name, kind, count in self._declared:
            if name not in inputs:
                raise TypeError(f"`{name}` is missing; the program takes {', '.join(self.parameters + self.relations)}")
            if kind in ("rel", "map"):
                given.append((name, [_inputs.relation(name, kind, inputs[name])]))
                continue
            slots[name] = [_inputs.slot(name, kind, leaf) for leaf in _inputs.components(name, inputs[name], count)]
            given.append((name, [slot.leaf for slot in slots[name]]))
        return given, slots

    def __call__(self, *args, sizes=None, **named):
        """The results for inputs, in order or by name. The first call interprets the program; more calls of the same shapes compile it."""
        names = self.parameters
        if len(args) > len(names):
            raise TypeError(f"this function takes {len(names)} parameters, {len(args)} were given")
        for name in names[: len(args)]:
            if name in named:
                raise TypeError(f"`{name}` is given twice")
        inputs = {**dict(zip(names, args)), **named}
        call = {name: inputs[name] for name in names if name in inputs}
        again = sizes is None and not self.relations and len(call) == len(inputs) == len(names)
        engine = "interpreter"
        if again and self._last is not None:
            kernel, calls = self._last
            try:
                result = kernel(**call)
                if calls == 0:
                    self._last = self.kernel(call), 1
                return result
            except DataError:
                pass
        kernel = self.kernel(inputs, sizes=sizes, engine=engine)
        self._last = (kernel, 0) if again else None
        return kernel(**call)

    def objective(self, inputs=None, /, *, wrt=(), engine="auto", threads=None, memory=None, **named):
        """The function for optimisers: of one vector, the elements of the parameters `wrt`, with its gradient; see `Objective`."""
        return Objective(self, {**(inputs or {}), **named}, wrt, engine=engine, threads=threads, memory=memory)


def _template(output, slots, shared):
    """Class and attributes of a sparse result."""
    _, format, shape, arrays = output
    if format == "dense":
        return None
    import scipy.sparse

    data = np.zeros(len(arrays[-1]))
    slot = slots[shared] if shared is not None else None
    if slot is not None and slot.order is None:
        class_, shape, arrays = slot.class_, slot.shape, slot.arrays
    else:
        class_ = getattr(scipy.sparse, f"{format}_array")
        for array in arrays:
            # All results share them.
            array.flags.writeable = False
    if format == "coo":
        matrix, own = class_((data, tuple(arrays)), shape=tuple(shape)), {"coords": tuple(arrays)}
        matrix.has_canonical_format = True
    else:
        matrix = class_((data, arrays[1], arrays[0]), shape=tuple(shape))
        matrix.has_sorted_indices = matrix.has_canonical_format = True
        own = {"indptr": arrays[0], "indices": arrays[1]}
    # Not the copies that a constructor may make.
    attributes = {name: value for name, value in {**vars(matrix), **own}.items() if name != "data"}
    return type(matrix), attributes


def _loader(path):
    """Finds what a program at a path imports: beside the text that imports it."""

    def load(name, written):
        found = (pathlib.Path(name).parent if name else path.parent) / written
        return str(found), found.read_text(encoding="utf-8")

    return load


def _again(text, steps):
    """A function from its pickle."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReadingWarning)
        function = Function(text)
    for name, *arguments in steps:
        function = function._step(name, *arguments)
    return function
