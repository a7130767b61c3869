"""Modules that have moved, under their former names: pickles name the module of a class or function."""

from __future__ import annotations

import sys
from functools import partial
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

# The former name of a module, and its name now, both within the package.
MOVED = {
    "_c_expression": "_mindspore._c_expression",
    "_checkpoint": "_files._checkpoint",
    "_config": "_api._config",
    "_control": "_api._control",
    "_custom": "_api._custom",
    "_dtypes": "_api._dtypes",
    "_errors": "_api._errors",
    "_explain": "_reporting._explain",
    "_export": "_files._export",
    "_grad": "_autodiff._grad",
    "_host": "_traced._library_functions",
    "_info": "_reporting._info",
    "_jit": "_api._jit",
    "_jit_config": "_api._jit_config",
    "_mark": "_api._mark",
    "_methods": "ops._methods",
    "_parameter": "_tensors._parameter",
    "_random": "_tensors._random",
    "_script": "_mindspore._script",
    "_sparse": "ops._sparse",
    "_specs": "_api._specs",
    "_stats": "_api._stats",
    "_tape": "_autodiff._hooks",
    "_tensor": "_tensors._tensor",
    "_trace": "_reporting._trace",
    "_vmap": "ops._vmap",
}


class _Finder:
    """Finds the former names; the modules with these names have the attributes of those that replaced them."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        package, _, module = name.partition(".")
        return ModuleSpec(name, _Finder) if package == "framejit" and module in MOVED else None  # type: ignore[arg-type]

    @staticmethod
    def create_module(spec: ModuleSpec) -> None:
        return None

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        moved = import_module("framejit." + MOVED[module.__name__.partition(".")[2]])
        module.__dict__["__getattr__"] = partial(getattr, moved)


def find_moved_modules() -> None:
    """Let the import system find modules under their former names, after all others."""
    sys.meta_path.append(_Finder)
