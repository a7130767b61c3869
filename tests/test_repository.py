"""Files at the root of the repository agree with each other."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import framejit
import pytest
from framejit._api._platform import VERSIONS

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_version_stands_in_one_file():
    """Builds read it there."""
    assert "version" in PROJECT["dynamic"]
    files = [*ROOT.glob("*.*"), ROOT / "dev", *ROOT.glob("cmake/*"), *ROOT.glob("conda-recipe/*")]
    texts = {file.name: file.read_text() for file in files if file.is_file() and file.name != "CHANGELOG.md"}
    assert not [name for name, text in texts.items() if re.search(rf"\b{re.escape(framejit.__version__)}\b", text)]


def test_classifiers_name_the_versions_that_are_captured():
    named = {tuple(map(int, found)) for found in re.findall(r"Python :: (\d+)\.(\d+)\b", str(PROJECT["classifiers"]))}
    assert named == set(VERSIONS)


def test_hooks_have_the_versions_of_the_checks():
    """What pre-commit formats has to be what ./dev lint asks for."""
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    found = dict(re.findall(r"repo: https://\S+/(?:mirrors-)?([a-z-]+?)(?:-pre-commit)?\n +rev: v([\d.]+)", hooks))
    wanted = dict(requirement.split("==") for requirement in PROJECT["optional-dependencies"]["lint"])
    assert set(found) == {"ruff", "clang-format"}
    for tool, version in found.items():
        assert version.startswith(wanted[tool].removesuffix("*")), tool


def test_the_citation_is_that_of_the_project():
    yaml = pytest.importorskip("yaml")  # Dask needs it
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["cff-version"] == "1.2.0" and {"message", "title"} <= set(citation)
    assert citation["authors"] == PROJECT["authors"]
    assert citation["license"] == PROJECT["license"]


@pytest.mark.parametrize("name", ["CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "LICENSE"])
def test_files_that_people_look_for(name):
    linked_from = {
        "CODE_OF_CONDUCT.md": "CONTRIBUTING.md",
        "SECURITY.md": "CONTRIBUTING.md",
        "CHANGELOG.md": "CONTRIBUTING.md",
    }
    assert f"]({name})" in (ROOT / linked_from.get(name, "README.md")).read_text()
    assert (ROOT / name).read_text().strip()


def test_the_conda_recipe_needs_what_the_package_needs():
    recipe = (ROOT / "conda-recipe" / "meta.yaml").read_text()
    (numpy,) = PROJECT["dependencies"]
    (script,) = PROJECT["scripts"].items()
    for line in (f"python {PROJECT['requires-python']}", numpy.replace("numpy", "numpy "), " = ".join(script)):
        assert re.search(rf"^ +- {re.escape(line)}$", recipe, re.M), line
    assert re.findall(r"license: (.+)", recipe) == [PROJECT["license"]]


def test_workflows_run_what_dev_has():
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    assert "chromium" in text  # without a browser the tests of the report's page are skipped
    commands = re.findall(r"run: \./dev ([a-z-]+)", text)
    assert commands
    for command in commands:
        assert re.search(rf"^  {command}\) ", (ROOT / "dev").read_text(), re.M), command
