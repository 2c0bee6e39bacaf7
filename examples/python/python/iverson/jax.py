"""Functions in JAX: `wrap` makes a function of JAX arrays, which `jit`, `grad`, `vjp`, `vmap` and `jacrev` take, as often as one likes.

The kernel is called back on the host in double precision, on the CPU. Reverse mode only: `jvp`, `jacfwd` and `hessian` need a rule that
`jax.custom_vjp` does not have; `jacrev(grad(f))` is the Hessian, and `Function.jacobian` has it sparse.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from ._bridge import Bridge

__all__ = ["wrap"]


def wrap(function, constants=None, /, **named):
    """A function of JAX arrays: the parameters that are not constants, in order.

    Sparse matrices, relations and maps are constants. Results have the type of the arrays; a function with several results returns a tuple.
    """
    bridge = Bridge(function, {**(constants or {}), **named})
    call = _call(bridge)

    def wrapped(*args):
        bridge.check(args)
        dtype = jnp.result_type(float, *args)
        return call(*(jnp.asarray(arg, dtype) for arg in args))

    wrapped.__doc__ = str(function)
    return wrapped


def _call(bridge):
    @jax.custom_vjp
    def call(*args):
        dtype = args[0].dtype if args else jnp.result_type(float)
        shapes = [shape for shapes in bridge.shapes([arg.shape for arg in args]) for shape in shapes]
        expected = tuple(jax.ShapeDtypeStruct(shape, dtype) for shape in shapes)

        def run(*arrays):
            return tuple(np.asarray(result, dtype) for result in bridge.call(arrays))

        results = jax.pure_callback(run, expected, *args, vmap_method="sequential")
        return results if len(results) > 1 else results[0]

    adjoint = []

    def forward(*args):
        return call(*args), args

    def backward(args, seeds):
        if not adjoint:
            adjoint.append(_call(bridge.adjoint(bridge.names)))
        results = adjoint[0](*args, *(seeds if isinstance(seeds, tuple) else (seeds,)))
        return results if isinstance(results, tuple) else (results,)

    call.defvjp(forward, backward)
    return call
