"""What the bridges to other libraries share: functions of arrays alone, with kernels by shapes, and their adjoints."""

from __future__ import annotations

import numpy as np


class Bridge:
    """A function whose parameters are arrays, but for constants; its results are arrays too, one after the other."""

    def __init__(self, function, constants, seeds=()):
        function = function.dense()
        known = function.parameters + function.relations
        for name in constants:
            if name not in known:
                raise TypeError(f"the program has no parameter `{name}`")
        self.function, self.constants = function, constants
        #: The parameters of a call in order, each with how many arrays it takes.
        self.parameters = []
        for name, kind, count in function._declared:
            if name in constants:
                continue
            if kind != "dense" or (count > 1 and name not in seeds):
                raise TypeError(f"`{name}` is no array; give it as a constant")
            self.parameters.append((name, count))
        # Seeds come last, in the order of the results that they belong to.
        self.parameters.sort(key=lambda parameter: seeds.index(parameter[0]) + 1 if parameter[0] in seeds else 0)
        self._kernels, self._adjoints = {}, {}

    @property
    def names(self):
        return [name for name, _ in self.parameters]

    def check(self, args):
        """Refuses another number of arrays."""
        if len(args) != sum(count for _, count in self.parameters):
            raise TypeError(f"{len(self.parameters)} arrays are expected ({', '.join(self.names)}), {len(args)} were given")

    def _grouped(self, arrays):
        arrays = iter(arrays)
        groups = ([next(arrays) for _ in range(count)] for _, count in self.parameters)
        return {name: tuple(group) if count > 1 else group[0] for (name, count), group in zip(self.parameters, groups)}

    def _kernel(self, shapes):
        shapes = tuple(map(tuple, shapes))
        if shapes not in self._kernels:
            inputs = {**self.constants, **self._grouped([np.zeros(shape) for shape in shapes])}
            constants = [name for name in self.constants if name in self.function.parameters]
            kernel = self.function.kernel(inputs, constants=constants)
            self._kernels[shapes] = kernel, kernel.result_shapes
        return self._kernels[shapes]

    def shapes(self, shapes):
        """The shapes of the results for shapes of the parameters, a list for each result."""
        return self._kernel(shapes)[1]

    def call(self, arrays):
        """The results as arrays of float64, one after the other."""
        arrays = [np.asarray(array, np.float64) for array in arrays]
        kernel, _ = self._kernel([array.shape for array in arrays])
        results = kernel(**self._grouped(arrays))
        results = results if len(self.function.results) > 1 else [results]
        leaves = (leaf for result in results for leaf in (result if isinstance(result, tuple) else [result]))
        return [np.asarray(leaf, np.float64) for leaf in leaves]

    def adjoint(self, wrt):
        """The adjoint by some parameters, which takes the parameters and a seed for each result."""
        wrt = tuple(wrt)
        if wrt not in self._adjoints:
            derivative = self.function.adjoint(*wrt)
            self._adjoints[wrt] = Bridge(derivative, self.constants, derivative.added)
        return self._adjoints[wrt]
