"""Random NumPy programs: marked and unmarked must do the same, whatever hypothesis makes of them."""

from __future__ import annotations

import linecache
import os

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import framejit
from exact.shapes import special_values

from exact.same import assert_same

NAMES = ["a", "b", "c", "d"]
UNARY = ["-{x}", "abs({x})", "np.sqrt({x})", "np.exp({x})", "np.sin({x})", "np.floor({x})", "{x}.T", "{x}.copy()",
         "{x}.astype('f4')", "{x}.astype('i4')", "np.isnan({x})", "{x}.reshape(-1)", "{x}[::-1]", "{x}[1:]", "{x}[..., ::2]",
         "{x}[None]", "{x}[0]", "{x}.ravel()", "{x}.sum()", "{x}.sum(axis=0)", "{x}.mean(axis=-1)", "{x}.max()", "{x}.min()",
         "{x} > 0", "np.roll({x}, 1)", "np.flip({x})", "np.cumsum({x})", "np.sort({x}, axis=None)", "np.diff({x})", "{x}.argmax()",
         "np.concatenate(({x}, {x}))", "np.stack([{x}, {x}])", "np.count_nonzero({x})", "np.var({x})", "{x}.std(axis=0)", "np.ptp({x})",
         "np.median({x})", "{x}[[0, -1]]", "np.repeat({x}, 2)", "np.tile({x}, 2)", "np.add.reduce({x})", "np.maximum.accumulate({x})",
         "np.array([{x}, {x}])", "np.expand_dims({x}, 0)", "np.atleast_2d({x})", "np.hstack(({x}, {x}))",
         "np.linspace(0, 1, 4) + {x}", "np.nan_to_num({x})", "np.average({x})", "np.squeeze({x})", "np.triu({x})", "np.isclose({x}, 1)",
         "np.moveaxis({x}, 0, -1)", "np.argsort({x}, axis=None, kind='stable')", "np.cbrt({x})", "int(np.argmin({x}))", "{x}[{x} > 0]",
         "{x} > 0", "{x}.any()", "np.zeros_like({x})", "np.square({x})", "~({x} > 1)", "np.clip({x}, -1, 1)", "{x} ** 2"]
BINARY = ["{x} + {y}", "{x} - {y}", "{x} * {y}", "{x} / {y}", "{x} // {y}", "{x} % {y}", "np.minimum({x}, {y})",
          "np.maximum({x}, {y})", "np.where({x} > {y}, {x}, {y})", "{x} < {y}", "({x} > 0) & ({y} > 0)", "np.arctan2({x}, {y})",
          "np.hypot({x}, {y})", "np.concatenate(({x}, {y}))", "np.vstack(({x}, {y}))", "np.outer({x}, {y})", "{x} @ {y}",
          "np.subtract.outer({x}, {y})", "np.dot({x}, {y})", "np.logaddexp({x}, {y})", "np.array([{x}, {y}])", "np.add({x}, {y}, dtype='f8')",
          "np.select([{x} > {y}], [{x}], default=0)", "np.allclose({x}, {y})", "np.interp({x}, [0.0, 1.0, 2.0], [1.0, 4.0, 9.0])", "{x} == {y}"]
SCALARS = ["2", "0.5", "-1", "k", "np.float32(1.5)", "1e300", "True", "n"]
STATEMENTS = ["{t} = {e}", "{t} = {e}", "{t} = {e}", "{t} = {e}", "{t} += {e}", "{t} *= {e}", "{t}[1:] = {e}", "{t}[...] = {e}",
              "{t}[{t} > 1] = 0", "{t}[{e} > 0] = 2", "np.divide({t}, {e}, out={t}, where={t} > 0)", "{t}[[0, 0]] = {e}",
              "np.copyto({t}, {e})", "np.copyto({t}, 1, where={t} < 0)", "{t}.fill(2)", "{t}.sort()", "{t}[{t} > 0] += 1",
              "{t}[::2] -= {e}", "{t}[0] = {e}", "box.append({e})", "box.append({t}.sum())", "box.append({t}.max(axis=0))", "box[0] = {e}",
              "for i in range(3):\n        {t} = {t} + i", "if len(box) > 1:\n        {t} = {e}", "print(end='')",
              "if np.any({t} > 1):\n        {t} = {e}", "{t} = helper({t}, {e})", "try:\n        {t} = {e}\n    except ValueError as error:\n        box.append(str(error))"]


@st.composite
def expressions(draw, depth=2):
    pick = draw(st.integers(0, 9))
    if depth == 0 or pick == 0:
        return draw(st.sampled_from(NAMES))
    if pick < 5:
        return draw(st.sampled_from(UNARY)).format(x="(" + draw(expressions(depth - 1)) + ")")
    other = draw(st.one_of(expressions(depth - 1), st.sampled_from(SCALARS)))
    return draw(st.sampled_from(BINARY)).format(x="(" + draw(expressions(depth - 1)) + ")", y="(" + other + ")")


@st.composite
def programs(draw):
    lines = ["def function(a, b, k, n, box):", "    c = a + 1", "    d = b"]
    for _ in range(draw(st.integers(1, 7))):
        lines.append("    " + draw(st.sampled_from(STATEMENTS)).format(t=draw(st.sampled_from(NAMES)), e=draw(expressions())))
    lines.append("    return a, b, c, d, box")
    return "\n".join(lines) + "\n"


def helper(x, y):
    z = x * 0.5
    return z + y


DTYPES = ["f8", "f8", "f4", "i8", "i4", "u1", "?"]
SHAPES = [(4, 3), (5,), (1,), (2, 1), (17,), (3, 3), (0,), (), (33,)]


@settings(max_examples=int(os.environ.get("FRAMEJIT_TEST_PROGRAMS", "150")), deadline=None, derandomize=True, database=None,
          suppress_health_check=list(HealthCheck))
@given(programs(), st.sampled_from(DTYPES), st.sampled_from(DTYPES), st.sampled_from(SHAPES), st.sampled_from(SHAPES),
       st.booleans(), st.integers(0, 2**31))
def test_random_program(text, dtype_a, dtype_b, shape_a, shape_b, special, seed):
    name = f"<random program {abs(hash(text))}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope = {"np": np, "helper": helper}
    exec(compile(text, name, "exec"), scope)

    def make():
        rng = np.random.default_rng(seed)
        arrays = []
        for dtype, shape in ((dtype_a, shape_a), (dtype_b, shape_b)):
            count = int(np.prod(shape))
            values = special_values(rng, dtype, count) if special else (np.arange(count) % 7 + 1).astype(dtype)
            arrays.append(np.array(values, dtype).reshape(shape))
        return (*arrays, 0.75, 3, [arrays[0]])

    try:
        assert_same(scope["function"], make, calls=2)
        assert_same(scope["function"], make, {"all": "ignore"}, calls=2)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{text}a: {dtype_a} {shape_a}, b: {dtype_b} {shape_b}, special={special}, seed={seed}") from error


def test_programs_are_captured():
    """The test above would pass if nothing were ever compiled."""
    before = framejit.stats()
    marked = framejit.jit(helper)
    marked(np.ones(3), np.ones(3))
    after = framejit.stats()
    assert after["frames_captured"] > before["frames_captured"] and after["kernel_calls"] > before["kernel_calls"]
