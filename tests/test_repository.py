"""Files at the root of the repository agree with each other."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import framejit

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_version_is_one():
    (of_cmake,) = re.findall(r"^project\(framejit .*VERSION ([\d.]+)\)", (ROOT / "CMakeLists.txt").read_text(), re.M)
    assert of_cmake == PROJECT["version"] == framejit.__version__


def test_hooks_have_the_versions_of_the_checks():
    """What pre-commit formats has to be what ./dev lint asks for."""
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    found = dict(re.findall(r"repo: https://\S+/(?:mirrors-)?([a-z-]+?)(?:-pre-commit)?\n +rev: v([\d.]+)", hooks))
    wanted = dict(requirement.split("==") for requirement in PROJECT["optional-dependencies"]["lint"])
    assert set(found) == {"ruff", "clang-format"}
    for tool, version in found.items():
        assert version.startswith(wanted[tool].removesuffix("*")), tool


def test_workflows_run_what_dev_has():
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    commands = re.findall(r"run: \./dev ([a-z-]+)", text)
    assert commands
    for command in commands:
        assert re.search(rf"^  {command}\) ", (ROOT / "dev").read_text(), re.M), command
