"""The stubs name what is there, and nothing else."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import framejit

FOLDER = Path(framejit.__file__).resolve().parent


def names(file: str) -> dict[str, ast.stmt]:
    found: dict[str, ast.stmt] = {}
    for node in ast.parse((FOLDER / file).read_text()).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found[node.name] = node
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found[node.target.id] = node
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = node
        elif isinstance(node, ast.ImportFrom):
            found.update({alias.asname: node for alias in node.names if alias.asname == alias.name})
    return {name: node for name, node in found.items() if not name.startswith("_")}


def test_package():
    assert set(names("__init__.pyi")) == set(framejit.__all__)
    assert set(framejit.__all__) <= set(dir(framejit))


def test_every_name_can_be_had():
    for name in framejit.__all__:
        if framejit.unsupported_reason() is None:
            assert getattr(framejit, name) is getattr(framejit, name)
            continue
        try:
            getattr(framejit, name)
        except AttributeError as error:
            assert "needs the compiled half" in str(error)
    with pytest.raises(AttributeError, match="nothing"):
        _ = framejit.nothing


@pytest.mark.capture
def test_compiled_half():
    from framejit import _core, _tensor  # noqa: F401  (which adds the methods written in Python)

    stub = names("_core.pyi")
    assert set(stub) == {name for name in dir(_core) if not name.startswith("_")}
    for class_name in ("Function", "Tensor"):
        for member in stub[class_name].body:
            if isinstance(member, ast.FunctionDef):
                assert hasattr(getattr(_core, class_name), member.name), f"{class_name}.{member.name}"


@pytest.mark.capture
def test_results_are_of_the_declared_types():
    """What mypy.stubtest does not see: results of compiled methods."""
    marked = framejit.jit(lambda x: x + 1)
    marked(1.0)
    function = names("_core.pyi")["Function"]
    declared = {
        node.name: node for node in function.body if isinstance(node, ast.FunctionDef) and len(node.args.args) == 1
    }
    for name in ("graphs", "asm", "cache_entries", "cache_clear"):
        result = getattr(marked, name)()
        assert ast.unparse(declared[name].returns).split("[")[0] == (
            "None" if result is None else type(result).__name__
        )
