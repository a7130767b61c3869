"""Error texts of operators that capture evaluates name the operator: `*=` for `x *= None`, `*` for `x * None`."""

import framejit as fj
import numpy as np
import pytest

pytestmark = pytest.mark.capture

OPERATORS = ["+", "&", "//", "<<", "@", "*", "%", "|", "**", ">>", "-", "/", "^"]


class Holder:
    pass


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("form", ["y = h.p {0} v", "y = h.p\n        y {0}= v", "h.p {0}= v"])
@pytest.mark.parametrize("values", [(0, None), (None, 1.5), ("a", 2.0), (1.5, "b"), ((1,), None), (True, b"c"), (1j, "d")], ids=repr)
def test_texts(operator, form, values):
    source = f"""
def f(x, h, v):
    text = None
    try:
        {form.format(operator)}
    except Exception as error:
        text = type(error).__name__ + str(error)
    return x + 1, text, h.p
"""
    scope = {}
    exec(source, scope)
    outcomes = []
    for function in (scope["f"], fj.jit(scope["f"])):
        for _ in range(2):
            holder = Holder()
            holder.p = values[0]
            outcomes.append(repr(function(np.ones(2), holder, values[1])))
    assert len(set(outcomes)) == 1
