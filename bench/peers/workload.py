"""What the kernel benchmark writes for a workload: its inputs, and what our kernel makes of them."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

Array = np.ndarray

# The functions of the peers, by the key of a workload.
PROGRAMS = {
    "K1": "deconvolution",
    "K2": "batched_deconvolution",
    "K3": "logistic",
    "K4": "sparse_times_dense",
    "K5": "matrix_factorisation",
    "K6": "graph_convolution",
    "K7": "tensor_factorisation",
    "K9": "gaussian_mixture",
    "K11": "perceptron",
    "K13": "rank_one",
    "K15": "embedding",
}


class Pattern(NamedTuple):
    """The places of the entries of a sparse tensor, sorted, as one array of integers for each axis."""

    shape: tuple[int, ...]
    axes: tuple[Array, ...]


@dataclass(frozen=True)
class Workload:
    """The arrays of an archive by name, as `bench/kernels/peers.rs` describes them."""

    name: str
    arrays: dict[str, Array]

    @staticmethod
    def read(path: str) -> "Workload":
        with np.load(path) as archive:
            return Workload(Path(path).stem, dict(archive))

    @property
    def program(self) -> str:
        """That of `K3`, for `K3 sparse logistic regression, 1000 x 500`."""
        return PROGRAMS[self.name.split()[0]]

    @property
    def constants(self) -> list[str]:
        """`X` and `y`, for `K3 sparse logistic regression, 1000 x 500, constant X, y`: parameters with the same numbers in all calls."""
        _, _, names = self.name.partition(", constant ")
        return names.split(", ") if names else []

    def __getitem__(self, name: str) -> Array:
        return self.arrays[name]

    def all(self, *names: str) -> list[Array]:
        return [self.arrays[name] for name in names]

    def pattern(self, name: str) -> Pattern:
        """The places where a relation holds; of a map, sources and targets."""
        shape = tuple(int(n) for n in self.arrays[f"{name}.shape"])
        axes = (self.arrays[f"{name}.{axis}"] for axis in range(len(shape)))
        return Pattern(shape, tuple(axis.astype(np.int32) for axis in axes))

    def csr(self, name: str) -> csr_array:
        """A sparse parameter as a matrix."""
        shape, (rows, columns) = self.pattern(f"{name}?")
        starts = np.searchsorted(rows, np.arange(shape[0] + 1)).astype(np.int32)
        return csr_array((self.arrays[name], columns, starts), shape=shape)

    def padded(self, name: str) -> tuple[Array, Array]:
        """The entries and the columns of a sparse parameter, each row as long as the longest, which suits rows of similar lengths.

        Where there is no entry, its place is that after the last, and its column is 0.
        """
        matrix = self.csr(name)
        rows = self.pattern(f"{name}?").axes[0]
        slots = np.arange(matrix.nnz) - matrix.indptr[rows]
        places = np.full((matrix.shape[0], np.diff(matrix.indptr).max()), matrix.nnz)
        columns = np.zeros_like(places)
        places[rows, slots] = np.arange(matrix.nnz)
        columns[rows, slots] = matrix.indices
        return places, columns

    @property
    def value(self) -> Array:
        return self.arrays["out value"]

    @property
    def gradient(self) -> dict[str, Array]:
        """What our kernel finds, by the names of the parameters."""
        start = "out grad_"
        return {name[len(start) :]: x for name, x in self.arrays.items() if name.startswith(start)}


class Runs(NamedTuple):
    """What is timed. Each call computes everything anew and returns when it is there: the value, and the value with the gradient."""

    value: Callable[[], object]
    gradient: Callable[[], tuple[object, dict[str, object]]]


class Wrong(Exception):
    """Results that differ from ours."""


TOLERANCE = 1e-9


def check(workload: Workload, runs: Runs) -> float:
    """The largest difference to our results, each relative to the largest number of a result."""
    value = runs.value()
    again, gradient = runs.gradient()
    if set(gradient) != set(workload.gradient):
        raise Wrong(f"gradients by {sorted(gradient)}, expected {sorted(workload.gradient)}")
    pairs = [("value", value, workload.value), ("value with the gradient", again, workload.value)]
    pairs += [(f"gradient by {name}", gradient[name], ours) for name, ours in workload.gradient.items()]
    errors = [difference(what, theirs, ours) for what, theirs, ours in pairs]
    return max(errors)


def difference(what: str, theirs: object, ours: Array) -> float:
    theirs = np.asarray(theirs)
    if theirs.dtype != np.float64 or theirs.size != ours.size:
        raise Wrong(f"{what}: {theirs.size} numbers of type {theirs.dtype}, expected {ours.size} of type float64")
    error = float(np.max(np.abs(theirs.reshape(ours.shape) - ours)) / np.max(np.abs(ours)))
    # Not a number is wrong too.
    if not error <= TOLERANCE:
        raise Wrong(f"{what}: off by {error:.1e}")
    return error


def seconds(run: Callable[[], object]) -> float:
    """The least processor time of some calls, after one that may compile: for choosing the faster of two forms."""
    run()
    times = []
    for _ in range(4):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)
