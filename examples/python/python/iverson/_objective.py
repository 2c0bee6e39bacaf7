"""Functions as optimisers want them: of one vector."""

from __future__ import annotations

import numpy as np


class Objective:
    """A function of one vector: the elements of some parameters in row-major order, one parameter after the other.

    `objective(x)` is the value and the gradient, as `scipy.optimize.minimize(objective, objective.x0, jac=True)` takes them; `hess` and `hessp` are
    what it takes under these names. All other parameters are constant.
    """

    def __init__(self, function, inputs, wrt, **options):
        wrt = [wrt] if isinstance(wrt, str) else list(wrt)
        if not wrt:
            wrt = [name for name, kind, count in function._declared if kind == "dense" and count == 1]
        # In the order of the program.
        self.wrt = tuple(name for name in function.parameters if name in wrt) + tuple(
            name for name in wrt if name not in function.parameters
        )
        self._function, self._options, self._made = function, options, {}
        derivative = function.value_and_gradient(*self.wrt)
        self._inputs = dict(inputs)
        for name in self.wrt:
            if name in self._inputs:
                self._inputs[name] = np.asarray(self._inputs[name], np.float64)
        self._kernel = self._bind(derivative, self._inputs)
        self._shapes = [np.shape(self._inputs[name]) for name in self.wrt]
        sizes = [int(np.prod(shape)) for shape in self._shapes]
        self._starts = np.concatenate([[0], np.cumsum(sizes)]).astype(int)
        #: The numbers that the parameters were given, as a vector.
        self.x0 = np.concatenate([np.ravel(self._inputs[name]) for name in self.wrt])
        self._single = len(self.wrt) == 1 and len(self._shapes[0]) == 1

    def _bind(self, function, inputs):
        varying = set(self.wrt) | set(function.added)
        constants = [name for name in function.parameters if name not in varying]
        return function.kernel(inputs, constants=constants, **self._options)

    def _parts(self, x):
        x = np.asarray(x, np.float64)
        if x.shape != self.x0.shape:
            raise ValueError(f"a vector of {self.x0.size} numbers is expected, found an array of the shape {x.shape}")
        starts = zip(self._starts, self._starts[1:], self._shapes)
        return [x[start:end].reshape(shape) for start, end, shape in starts]

    def split(self, x):
        """The parameters by name, from a vector."""
        parts = zip(self.wrt, self._parts(x))
        return {name: part.copy() if part.ndim else float(part) for name, part in parts}

    def __call__(self, x):
        """The value and the gradient."""
        if self._single:
            return self._kernel(x)
        value, *gradient = self._kernel(*self._parts(x))
        return value, np.concatenate([np.ravel(part) for part in gradient])

    def hessp(self, x, p):
        """The Hessian at `x` times a vector `p`."""
        if "hessp" not in self._made:
            function = self._function.hessian_product(*self.wrt)
            tangents = dict(zip(function.added, (self._inputs[name] for name in self.wrt)))
            self._made["hessp"] = self._bind(function, {**self._inputs, **tangents}), function.added
        kernel, added = self._made["hessp"]
        named = dict(zip(self.wrt + added, self._parts(x) + self._parts(p)))
        product = kernel(**{name: named[name] for name in kernel.parameters})
        parts = product if len(self.wrt) > 1 else [product]
        return np.concatenate([np.ravel(part) for part in parts])

    def hess(self, x):
        """The Hessian at `x`, a sparse matrix."""
        import scipy.sparse

        if "hess" not in self._made:
            self._made["hess"] = self._bind(self._function.hessian(*self.wrt), self._inputs)
        kernel = self._made["hess"]
        blocks = kernel(**{name: part for name, part in zip(self.wrt, self._parts(x)) if name in kernel.parameters})
        if self._single:
            return blocks
        sizes = np.diff(self._starts)
        blocks = iter(blocks if len(self.wrt) > 1 else [blocks])
        rows = [[_matrix(next(blocks), (m, n)) for n in sizes] for m in sizes]
        return scipy.sparse.block_array(rows, format="csr")


def _matrix(block, shape):
    """A block of a Hessian as a matrix of two axes."""
    import scipy.sparse

    if not scipy.sparse.issparse(block):
        return scipy.sparse.csr_array(np.reshape(block, shape))
    return block if block.ndim == 2 else block.reshape(tuple(map(int, shape))).tocsr()
