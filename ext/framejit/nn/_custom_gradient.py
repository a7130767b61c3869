"""Functions with gradients of their own: ``custom_vjp``, under the name of the module that MindSpore has it in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from framejit._autodiff._grad import GradOperation, get_grad, grad, jvp, stop_gradient, value_and_grad, vjp
from framejit.nn._cell import Cell
from framejit.ops._language import derivative, jacfwd, jacrev, jet, linearize

__all__ = [
    "GradOperation", "custom_vjp", "derivative", "get_grad", "grad", "jacfwd", "jacrev", "jet", "jvp", "linearize", "stop_gradient",
    "value_and_grad", "vjp",
]  # fmt: skip


class _CustomVjp(Cell):
    """A function, whose gradients another function computes."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.fwd = function
        self.bwd: Callable[..., Any] | None = None

    def construct(self, *args: Any) -> Any:
        """What the function gives."""
        return self.fwd(*args)

    def defbwd(self, bwd: Callable[..., Any]) -> None:
        """Take this function for the gradients: of the arguments, the result and its gradient."""
        self.bwd = bwd

    def bprop(self, *args: Any) -> Any:
        """The gradients of the arguments."""
        if self.bwd is None:
            raise RuntimeError(
                "For 'custom_vjp', the gradients are asked for, but defbwd() has not said how to compute them."
            )
        return self.bwd(*args)


def custom_vjp(fn: Any = None) -> Any:
    """Decorate a function, whose gradients ``defbwd`` says.

    Parameters
    ----------
    fn : callable, optional
        The function; without it, a decorator is returned.

    Examples
    --------
    >>> import framejit as fj
    >>> from framejit.nn._custom_gradient import custom_vjp
    >>> double = custom_vjp(lambda x: x * 2)
    >>> double.defbwd(lambda x, out, dout: (dout * 5,))
    >>> fj.grad(double)(fj.Tensor([1.0])).tolist()
    [5.0]
    """
    return _CustomVjp if fn is None else _CustomVjp(fn)
