"""Mark the functions that a cell defines."""

from __future__ import annotations

import ast

# `type` makes these static or class methods, but only if they are plain functions.
_IMPLICIT = frozenset({"__new__", "__init_subclass__", "__class_getitem__"})
# A function under one of these decorators of framejit has been decided about.
_DECIDED = frozenset({"jit", "ms_function", "disable", "custom_op"})


class MarkFunctions(ast.NodeTransformer):
    """Decorates the functions and methods of a cell, and lambdas that are assigned to a name, with the function `decorator`.

    Functions inside of functions stay as they are: they are captured with the function around them.

    Parameters
    ----------
    decorator : str
        The name of the function that marks.

    Attributes
    ----------
    marked : int
        The number of functions that were decorated.
    """

    def __init__(self, decorator: str) -> None:
        self._decorator = decorator
        self.marked = 0

    def _reference(self, at: ast.stmt | ast.expr) -> ast.expr:
        return ast.copy_location(ast.Name(self._decorator, ast.Load()), at)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:  # noqa: N802
        """Mark a function."""
        return self._decorated(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:  # noqa: N802
        """Mark a coroutine."""
        return self._decorated(node)

    def _decorated(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        """Decorate it below all other decorators, so that the plain function is marked."""
        if node.name not in _IMPLICIT and not any(map(_decides, node.decorator_list)):
            node.decorator_list.append(self._reference(node))
            self.marked += 1
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:  # noqa: N802
        """Mark ``name = lambda ...``."""
        if isinstance(node.value, ast.Lambda) and isinstance(node.targets[0], ast.Name):
            call = ast.Call(self._reference(node.value), [node.value], [])
            node.value = ast.copy_location(call, node.value)
            self.marked += 1
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:  # noqa: N802
        """Leave other lambdas as they are."""
        return node


def _decides(decorator: ast.expr) -> bool:
    target = decorator.func if isinstance(decorator, ast.Call) else decorator
    if isinstance(target, ast.Attribute):
        return target.attr in _DECIDED
    return isinstance(target, ast.Name) and target.id in _DECIDED
