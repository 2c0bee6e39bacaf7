"""What users give, as the native half takes it.

A *slot* is how one leaf of a parameter is given to calls of a kernel: `leaf` describes it when the kernel is bound, `direct` are the index arrays of
a matrix whose values calls take where they are, and `numbers` converts what else a call is given.
"""

from __future__ import annotations

import numpy as np

from ._errors import DataError

SPARSE = ("csr", "csc", "coo")


def real(name, value):
    """An array of float64 or float32 with the same numbers."""
    array = np.asarray(value)
    if array.dtype.kind == "f" and array.dtype.itemsize <= 8:
        return array.astype(np.float32 if array.dtype.itemsize == 4 else np.float64, copy=False)
    if array.dtype.kind in "biu":
        return array.astype(np.float64)
    found = array.dtype if isinstance(value, np.ndarray) else f"`{type(value).__name__}`"
    raise TypeError(f"{name}: real numbers are expected, found {found}")


def is_sparse(value):
    """Whether a value is a sparse matrix of SciPy, without importing it."""
    return hasattr(value, "format") and hasattr(value, "nnz") and hasattr(value, "tocsr")


class Dense:
    """An array."""

    direct = None

    def __init__(self, name, value):
        array = np.asarray(real(name, value), order="C")
        self.name, self.shape, self.dtype = name, array.shape, array.dtype
        self.leaf = ("dense", array)

    def numbers(self, value):
        if is_sparse(value):
            raise DataError(f"{self.name}: an array is expected, found a sparse matrix")
        return fitted(self.name, real(self.name, value), self.shape, self.dtype)


def fitted(name, array, shape, dtype):
    """The array row by row, if it has a shape and its numbers are not rounded by a type."""
    if array.shape != shape:
        raise DataError(f"{name}: an array of the shape {shape} is expected, found one of {array.shape}")
    if array.dtype.itemsize > dtype.itemsize:
        message = f"{name}: it was bound to float32, found float64, which would be rounded; convert it, or bind again"
        raise DataError(message)
    return np.asarray(array, dtype, order="C")


class Compressed:
    """A matrix in CSR or CSC format."""

    def __init__(self, name, matrix):
        self.name, self.format, self.shape, self.class_ = name, matrix.format, matrix.shape, type(matrix)
        self.arrays = matrix.indptr, matrix.indices
        data = real(name, matrix.data)
        self.dtype, self.order = data.dtype, None
        indptr, indices = self.arrays
        if not matrix.has_sorted_indices:
            outer = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
            self.order = np.lexsort((indices, outer))
            indices, data = indices[self.order], data[self.order]
        both = np.int32 if indptr.dtype == indices.dtype == np.int32 else np.int64
        index = [np.ascontiguousarray(array, both) for array in (indptr, indices)]
        self.leaf = (self.format, tuple(map(int, matrix.shape)), *index, np.ascontiguousarray(data))
        self.length = len(data)

    @property
    def direct(self):
        """The index arrays with which the values of a matrix are read where they are."""
        return self.arrays if self.order is None else None

    def numbers(self, value):
        return ordered(self, value, self.same)

    def same(self, matrix):
        return all(a is b or np.array_equal(a, b) for a, b in zip((matrix.indptr, matrix.indices), self.arrays))



class Coordinates:
    """A sparse tensor in COO format, of any number of axes."""

    format = "coo"

    def __init__(self, name, tensor):
        self.name, self.shape, self.class_ = name, tensor.shape, type(tensor)
        self.arrays = coords(tensor)
        data = real(name, tensor.data)
        self.dtype = data.dtype
        index, self.order = sorted_coordinates(self.arrays)
        data = data if self.order is None else data[self.order]
        self.leaf = ("coo", tuple(map(int, tensor.shape)), index, np.ascontiguousarray(data))
        self.length, self.direct = len(data), None

    def numbers(self, value):
        return ordered(self, value, self.same)

    def same(self, tensor):
        return all(a is b or np.array_equal(a, b) for a, b in zip(coords(tensor), self.arrays))



def coords(tensor):
    return tuple(tensor.coords) if hasattr(tensor, "coords") else (tensor.row, tensor.col)


def sorted_coordinates(arrays):
    """The coordinates of tuples in lexicographic order, and the order, if it is another one than theirs."""
    arrays = tuple(np.ascontiguousarray(array, np.int64) for array in arrays)
    order = np.lexsort(arrays[::-1])
    if (order == np.arange(len(order))).all():
        return arrays, None
    return tuple(array[order] for array in arrays), order


def ordered(slot, value, same):
    """The values of the entries of a sparse tensor, or values that are given alone, in the order of the program."""
    if is_sparse(value):
        if value.format != slot.format:
            found = f"found `{value.format}`; convert it with `to{slot.format}()`"
            raise DataError(f"{slot.name}: a `{slot.format}` tensor is expected, {found}")
        if value.shape != slot.shape or value.nnz != slot.length or not same(value):
            message = "it has other entries than the one that the kernel was bound to; bind again"
            raise DataError(f"{slot.name}: {message}")
        value = value.data
    data = fitted(slot.name, real(slot.name, value), (slot.length,), slot.dtype)
    return data if slot.order is None else data[slot.order]


def slot(name, storage, value):
    """The slot of a leaf of a parameter that is stored so."""
    if is_sparse(value):
        if storage == "dense":
            message = f"it is dense in the program, found a sparse matrix; declare it `{value.format}`, or take `toarray()`"
            raise DataError(f"{name}: {message}")
        if value.format != storage:
            found = f"found `{value.format}`; convert it with `to{storage}()`, or declare it `{value.format}`"
            raise DataError(f"{name}: it is `{storage}` in the program, {found}")
        return Coordinates(name, value) if storage == "coo" else Compressed(name, value)
    if storage in SPARSE:
        message = f"it is `{storage}` in the program, found a dense array; take `scipy.sparse.{storage}_array`, or declare it dense"
        raise DataError(f"{name}: {message}")
    return Dense(name, value)


def relation(name, kind, value):
    """A relation, or a map by the targets of its sources."""
    if kind == "map":
        targets = np.asarray(value)
        if targets.dtype.kind not in "iu" and targets.size:
            raise TypeError(f"{name}: the targets of a map are integers, found {targets.dtype}")
        return ("map", targets.shape, np.ascontiguousarray(targets, np.int64).ravel())
    if is_sparse(value):
        shape, places = value.shape, coords(value.tocoo())
    else:
        array = np.asarray(value)
        if array.dtype != bool:
            raise TypeError(f"{name}: a relation is an array of bool, or a sparse matrix with its places, found {array.dtype}")
        shape, places = array.shape, np.nonzero(array)
    return ("rel", tuple(map(int, shape)), sorted_coordinates(places)[0])


def components(name, value, count):
    """The leaves of a parameter, which is a number or an array, or pairs of these as tuples in tuples."""
    if count == 1:
        return [value]
    leaves, open_ = [], [value]
    while open_:
        value = open_.pop()
        open_.extend(reversed(value)) if isinstance(value, tuple) else leaves.append(value)
    if len(leaves) != count:
        raise TypeError(f"{name}: a tuple of {count} components is expected")
    return leaves
