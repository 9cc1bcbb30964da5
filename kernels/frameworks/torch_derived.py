"""Derivatives of PyTorch functions: of plain ones by torch.func, of TorchScript's by autograd around them."""

from __future__ import annotations

import functools
import operator
from typing import Any

from kernels.spec import Function, leaves


def objective(output: Any) -> Any:
    """Sum the floating outputs of a kernel.

    Args:
        output: what the kernel returned.

    Returns:
        The sum of all their elements, a tensor without dimensions in their own dtype.
    """
    floating = [leaf for leaf in leaves(output) if leaf.is_floating_point()]
    return functools.reduce(operator.add, [leaf.sum() if leaf.dim() else leaf for leaf in floating])


def derived(function: Function, positions: tuple[int, ...], order: int) -> Function:
    """Differentiate the sum of a function's floating outputs, in a form that torch.compile captures whole.

    Args:
        function: the kernel, neither compiled nor scripted.
        positions: of the arguments by which it is differentiated.
        order: 1 for the sum and its gradient; 2 for the product of its Hessian with a direction, whose tensors follow
            the function's own arguments.

    Returns:
        A function that returns ``(sum, gradients)`` for order 1, the products for order 2; a tensor for each position.
    """
    import torch

    def value(*args: Any) -> Any:
        return objective(function(*args))

    if order == 1:
        both = torch.func.grad_and_value(value, argnums=positions)

        def value_and_gradient(*args: Any) -> Any:
            gradients, total = both(*args)
            return total, gradients

        return value_and_gradient

    slope = torch.func.grad(value, argnums=positions)

    def product(*args: Any) -> Any:
        args, along = args[: -len(positions)], args[-len(positions) :]

        def gradient(*moved: Any) -> Any:
            replaced = list(args)
            for position, x in zip(positions, moved, strict=True):
                replaced[position] = x
            return slope(*replaced)

        # Reverse over reverse: forward over reverse is wrong where the two take an input differently, as that of
        # a Cholesky decomposition, which reverse mode takes for symmetric and forward mode for its lower half.
        _, pull = torch.func.vjp(gradient, *(args[position] for position in positions))
        return pull(along)

    return product


def recorded(function: Function, positions: tuple[int, ...], order: int) -> Function:
    """Differentiate by autograd around a function: TorchScript takes no torch.func, and differentiates itself.

    Args:
        function: the kernel, scripted or traced.
        positions: of the arguments by which it is differentiated.
        order: as for ``derived``.

    Returns:
        As ``derived``.
    """
    import torch

    count = len(positions) if order == 2 else 0

    def call(*given: Any) -> Any:
        args, along = list(given[: len(given) - count]), given[len(given) - count :]
        moved = [args[position].detach().requires_grad_() for position in positions]
        for position, x in zip(positions, moved, strict=True):
            args[position] = x
        total = objective(function(*args))
        gradients = torch.autograd.grad(total, moved, create_graph=order == 2, materialize_grads=True)
        if order == 1:
            return total.detach(), gradients
        # A gradient by what the objective is linear in hangs on nothing, and adds nothing.
        curved = [(gradient, v) for gradient, v in zip(gradients, along, strict=True) if gradient.requires_grad]
        slopes, directions = [gradient for gradient, _ in curved], [v for _, v in curved]
        return torch.autograd.grad(slopes, moved, directions, materialize_grads=True)

    return call
