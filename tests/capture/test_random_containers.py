"""Random operations on lists, dicts, sets and ranges between array operations: results and containers as without framejit."""

import random

import framejit
import numpy as np
import pytest

COUNT, PER_TEST = 120, 20


def statement(rng):
    v, d = rng.choice("ab"), rng.choice("de")
    i, j, k = rng.randrange(-4, 14), rng.randrange(-4, 14), rng.randrange(25)
    lists = [
        f"{v}.append({k})", f"{v}.insert({i}, {k})", f"out.append({v}.pop())", f"out.append({v}.pop({i}))", f"{v}[{i}] = {k}",
        f"del {v}[{i}]", f"{v}[{i}:{j}] = [{k}, {k + 1}]", f"del {v}[{i}:{j}]", f"{v}[{i}:{j}:2] = {v}[{i}:{j}:2]",
        f"{v}.remove({k})", f"out.append({k} in {v})", f"out.append({v}.index({k}))", f"{v}.reverse()", f"{v}.sort()",
        f"out.append({v}.count({k}))", f"{v}.extend({v}[:2])",
    ]
    others = [
        f"{d}[{k}] = {j}", f"del {d}[{k}]", f"out.append({d}.get({k}, -1))", f"out.append({d}.pop({k}, None))",
        f"{d}.setdefault({k}, [])", f"out.append(list({d}.items()))", f"out.append({k} in {d})", f"out.append(len({d}))",
        f"{d}.update({{{k}: 1, {k + 1}: 2}})", f"s.add({k})", f"s.discard({k})", "out.append(sorted(s))",
        "for q in r: out.append(q)", "out.append(len(r)); out.append(r[0])", "out.append(x * K)", f"x = x + {k}",
    ]
    line = rng.choice(lists + others)
    if rng.random() < 0.5:
        return f"    {line}\n"
    return f"    try:\n        {line}\n    except (IndexError, KeyError, ValueError) as error: out.append(repr(error))\n"


def program(rng):
    size = rng.choice([3, 9, 20])
    head = f"def f(a, d, r, x, out):\n    b = list(a[:3]); e = {{i: i * 2 for i in range({size})}}; s = set()\n"
    return head + "".join(statement(rng) for _ in range(rng.randrange(5, 25))) + "    return x * K, b, e, sorted(s)\n"


def state(value):
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [state(item) for item in value]
    if isinstance(value, dict):
        return [(state(key), state(item)) for key, item in value.items()]
    return type(value).__name__, repr(value)


def outcome(f, *args):
    try:
        result = state(f(*args))
    except Exception as error:
        traceback = error.__traceback__
        while traceback.tb_next:
            traceback = traceback.tb_next
        result = type(error).__name__, str(error), traceback.tb_lineno
    return result, [state(arg) for arg in args if not isinstance(arg, range)]


@pytest.mark.filterwarnings("ignore::framejit.RecompileLimitWarning")
@pytest.mark.parametrize("first", range(0, COUNT, PER_TEST))
def test_containers(first):
    before = framejit.stats()
    for seed in range(first, first + PER_TEST):
        rng = random.Random(seed)
        source = program(rng)
        worlds = [{"np": np}, {"np": np}]
        for world in worlds:
            exec(compile(source, f"<containers {seed}>", "exec"), world)
        marked = framejit.jit(worlds[1]["f"])
        for call in range(4):
            factor = rng.choice([2.5, -0.0, float("nan"), 2, np.float64(2.5)]) if call else 2.5
            items = [rng.randrange(25) for _ in range(rng.choice([0, 3, 8, 12]))]
            table = {key: key for key in rng.sample(range(25), rng.choice([0, 2, 10, 20]))}
            numbers = rng.choice([range(4), range(9, 0, -3), range(2**61, 2**61 + 3), range(2**70, 2**70 + 2), range(0)])
            for world in worlds:
                world["K"] = factor
            x = np.arange(4.0)
            expected = outcome(worlds[0]["f"], list(items), dict(table), numbers, x, [])
            assert outcome(marked, list(items), dict(table), numbers, x, []) == expected, f"call {call} of\n{source}"
    after = framejit.stats()
    assert after["internal_errors"] == before["internal_errors"]
    assert after["frames_captured"] > before["frames_captured"]
