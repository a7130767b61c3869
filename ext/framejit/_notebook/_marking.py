"""Mark the functions that a cell defines."""

from __future__ import annotations

import ast

# `type` makes these static or class methods, but only if they are plain functions.
_IMPLICIT = frozenset({"__new__", "__init_subclass__", "__class_getitem__"})
# Decorators that take any callable. Others, of other compilers for instance, may want a plain function.
_TAKE_ANY = frozenset(
    {"abstractmethod", "cache", "cached_property", "classmethod", "deleter", "final", "getter", "lru_cache"}
)
_TAKE_ANY |= {"override", "property", "setter", "staticmethod"}
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
    marked, left : list of str
        The names of the functions that were decorated, and of those that were not because of their other decorators.
    """

    def __init__(self, decorator: str) -> None:
        self._decorator = decorator
        self.marked: list[str] = []
        self.left: list[str] = []

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
        names = {_last_name(decorator) for decorator in node.decorator_list}
        if node.name in _IMPLICIT or names & _DECIDED:
            return node
        if names <= _TAKE_ANY:
            node.decorator_list.append(self._reference(node))
            self.marked.append(node.name)
        else:
            self.left.append(node.name)
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:  # noqa: N802
        """Mark ``name = lambda ...``."""
        if isinstance(node.value, ast.Lambda) and isinstance(node.targets[0], ast.Name):
            call = ast.Call(self._reference(node.value), [node.value], [])
            node.value = ast.copy_location(call, node.value)
            self.marked.append(node.targets[0].id)
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:  # noqa: N802
        """Leave other lambdas as they are."""
        return node


def _last_name(decorator: ast.expr) -> str:
    """`lru_cache` of ``@functools.lru_cache(None)``."""
    target = decorator.func if isinstance(decorator, ast.Call) else decorator
    return target.attr if isinstance(target, ast.Attribute) else target.id if isinstance(target, ast.Name) else ""
