"""Every form of Python in forms_*.py: the marked function does what the plain one does, and is compiled as far as its row
says."""

from __future__ import annotations

import pytest

import forms_classes  # noqa: F401
import forms_control  # noqa: F401
import forms_objects  # noqa: F401
import forms_values  # noqa: F401
import framejit as fj
from forms_support import FORMS, Form, check_same, run, structure

pytestmark = pytest.mark.capture


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_same(form: Form) -> None:
    errors = fj.stats()["internal_errors"]
    marked = fj.jit(form.function, capture_mode="bytecode")
    for call in range(3):
        check_same(run(form.function, form.arguments()), run(marked, form.arguments()), f"{form.name}, call {call}")
    assert fj.stats()["internal_errors"] == errors


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_structure(form: Form) -> None:
    found = structure(form.function, form.arguments())
    assert (" ".join(found.breaks), found.graphs) == (form.breaks, form.graphs), found.detail
    assert found.whole == (not form.breaks and not form.outside), found.detail
