"""The parts of the package import only parts below them, and no modules import each other in a cycle."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import framejit

PACKAGE = Path(framejit.__file__).parent
# From the bottom up. A part is a package or module in the folder of framejit; those of one line do not import each other. "" is framejit itself.
LAYERS = [
    {"_core"},
    {"_api"},
    {"_traced", "_reporting", "_autodiff", "_tensors"},
    {"ops", "context"},
    {"_files", "_mindspore", "scipy", "numpy"},
    {"common", "dataset"},
    {"nn"},
    {"train", "mint"},
    {"_start"},
    {""},
    {"__main__"},
]
# Imports upward, which run when the function that needs them does, or last in the module.
UPWARD = {
    ("framejit._tensors._tensor", "framejit.ops._methods"),  # completes the type Tensor
    ("framejit._tensors._parameter", "framejit.common.initializer"),  # an initializer may be given by its name
    ("framejit.nn", "framejit.train._metrics"),  # measures of training are also names of nn
    ("framejit.nn", "framejit.train._measures"),
    ("framejit._reporting._info", "framejit"),  # its version
}


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


FILES = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}
MODULES = {*FILES, "framejit._core"}


def imports(name: str) -> set[str]:
    """The modules of framejit that a module imports, also inside of functions."""
    found = set()
    for node in ast.walk(ast.parse(FILES[name].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            each = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {one if one in MODULES else str(node.module) for one in each}
    return (found & MODULES) - {name}


IMPORTS = {name: imports(name) - {one for importer, one in UPWARD if importer == name} for name in FILES}


def part(name: str) -> str:
    return name.split(".")[1] if "." in name else ""


def layer(name: str) -> int:
    return next(i for i, parts in enumerate(LAYERS) if part(name) in parts)


def test_each_part_has_a_layer():
    assert {part(name) for name in MODULES} == set().union(*LAYERS)


def test_imports_go_downward():
    upward = [
        f"{name} imports {one}"
        for name, found in IMPORTS.items()
        for one in found
        if part(name) != part(one) and layer(one) >= layer(name)
    ]
    assert not upward


def test_no_cycles():
    # An import of a package's module runs the package first; that is no import by the module.
    list(TopologicalSorter(IMPORTS).static_order())


def test_each_exception_is_one():
    assert all(one in imports(name) for name, one in UPWARD)
