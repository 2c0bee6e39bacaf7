"""Functions in PyTorch: `wrap` makes a function of tensors that autograd differentiates, as often as one likes.

The kernel computes on the CPU in double precision; results have the type and the device of the tensors.
"""

from __future__ import annotations

import numpy as np
import torch

from ._bridge import Bridge

__all__ = ["wrap"]


def wrap(function, constants=None, /, **named):
    """A function of tensors: the parameters that are not constants, in order.

    Sparse matrices, relations and maps are constants. A function with several results returns a tuple.
    """
    bridge = Bridge(function, {**(constants or {}), **named})

    def wrapped(*args):
        bridge.check(args)
        tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
        like = tensors[0] if tensors else torch.zeros((), dtype=torch.float64)
        results = _Call.apply(bridge, *(torch.as_tensor(arg, dtype=like.dtype, device=like.device) for arg in args))
        return results if len(results) > 1 else results[0]

    wrapped.__doc__ = str(function)
    return wrapped


class _Call(torch.autograd.Function):
    """A call of a bridge; its backward pass is a call of the adjoint."""

    @staticmethod
    def forward(ctx, bridge, *args):
        ctx.bridge = bridge
        ctx.save_for_backward(*args)
        results = bridge.call([arg.detach().cpu().numpy() for arg in args])
        # A result may be memory that a later call does not touch, but never that of an argument.
        return tuple(torch.as_tensor(np.array(result), dtype=args[0].dtype, device=args[0].device) for result in results)

    @staticmethod
    def backward(ctx, *seeds):
        needed, args = ctx.needs_input_grad[1:], ctx.saved_tensors
        # Of an adjoint, seeds are parameters as others are; one of several arrays is differentiated whole.
        names = [name for name, count in ctx.bridge.parameters for _ in range(count)]
        wrt = [name for name in ctx.bridge.names if any(n for n, other in zip(needed, names) if other == name)]
        adjoint = ctx.bridge.adjoint(wrt)
        gradients = iter(_Call.apply(adjoint, *args, *seeds))
        given = [next(gradients) if name in wrt else None for name in names]
        return (None, *(gradient if is_needed else None for gradient, is_needed in zip(given, needed)))
