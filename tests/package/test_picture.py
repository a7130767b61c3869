"""Pictures of graphs: what the text says is drawn, nothing overlaps, edges lead down."""

from __future__ import annotations

import random
import re
import xml.etree.ElementTree as ElementTree

import framejit as fj
import numpy as np
import pytest
from framejit._reporting._graph_text import parse, parse_loop, shown_type, walk
from framejit._reporting._highlight import _by_pygments, _by_tokenize, _join, highlighted
from framejit._reporting._layout import place
from framejit._reporting._picture import MOST_NODES, graph_picture, legend

TEXT = """\
graph @f(%x: f64[s0, 4] strides=[512, 8], %y: bf16[]) {
  %2 = constant {value=1.5} : f64[]
  %3 = multiply %x, %2 : f64[s0, 4]
  %4 = view %x : f64[32] strides=[8] root=%x offset=4
  write %4, %3
  %6 = reduce_sum %3 {axes=[0, 1]} : f64[]
  %7 = if %6 {
    %8 = negative %3 : f64[s0, 4]
    yield %8
  } else {
    yield %3
  }
  %9 = output %7 {index=0} : f64[s0, 4]
  %10 = loop %9, %2 with %11: f64[s0, 4], %12: f64[] {
    %13 = less %12, %2 : bool[]
    expect %13
    %15 = add %11, %12 : f64[s0, 4]
    yield %13, %15, %12
  }
  %16 = output %10 {index=0} : f64[s0, 4]
  %17 = library_call %16, %y {index=7} : f64[s0, 4]
  return %17, %2
}
"""


def test_the_text_is_read():
    block = parse(TEXT, lambda number: f"numpy.f{number}")
    assert block.inputs == [("%x", "f64[s0, 4] strides=[512, 8]"), ("%y", "bf16[]")]
    assert block.results == ["%17", "%2"]
    nodes = {node.name or node.op: node for node in walk(block)}
    assert nodes["%2"].value == "1.5" and nodes["%3"].value is None
    assert (nodes["%4"].operands, nodes["%4"].type) == (["%x"], "f64[32] strides=[8]")
    assert nodes["write"].operands == ["%4", "%3"]
    assert [[inner.results for inner in nodes[name].blocks] for name in ("%7", "%10")] == [
        [["%8"], ["%3"]],
        [["%13", "%15", "%12"]],
    ]
    assert nodes["%10"].blocks[0].inputs == [("%11", "f64[s0, 4]"), ("%12", "f64[]")]
    assert (nodes["%17"].op, nodes["%17"].function) == ("library_call", "numpy.f7")
    assert parse("") is None and parse("block0():\n  leave exit0\n") is None


def texts(picture: str) -> list[str]:
    """The labels of a picture, which is to be good XML."""
    return [element.text or "" for element in ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")]


def test_what_is_drawn():
    shown = texts(graph_picture(TEXT, lambda number: f"numpy.f{number}"))
    for label in (
        "x",
        "multiply(\N{MIDDLE DOT}, 1.5)",
        "sum over axes 0, 1",
        "if, else",
        "loop",
        "another round?",
        "numpy.f7",
    ):
        assert label in shown, label
    assert shown.count("float64 s0 \N{MULTIPLICATION SIGN} 4") > 3 and "bfloat16" in shown
    assert "result 1: 1.5" in shown  # a number among the results
    assert not {"constant", "output", "expect"} & set(shown)
    assert legend(TEXT) == ["input", "elementwise", "reduction", "call", "memory", "control", "result"]
    assert legend("graph @f() {\n  %1 = constant {value=1} : f64[]\n  return %1\n}\n") == ["result"]
    assert graph_picture("graph @f() {\n  return\n}\n") == ""


def test_names_are_escaped():
    graph = "graph @f(%x: f64[]) {\n  %1 = library_call %x {index=3} : f64[]\n  return %1\n}"
    assert "<i>.f" in texts(graph_picture(graph, lambda number: "<i>.f"))


@pytest.mark.parametrize("seed", range(8))
def test_layout_of_random_graphs(seed):
    generator = random.Random(seed)
    count = generator.choice((1, 5, 40, 300))
    sizes = [(generator.uniform(20, 200), generator.uniform(15, 60)) for _ in range(count)]
    edges = sorted(
        {(generator.randrange(max(0, target - 30), target), target) for target in range(1, count) for _ in range(2)}
    )
    layout = place(sizes, edges)
    assert place(sizes, edges) == layout
    boxes = [(x - w / 2, y - h / 2, x + w / 2, y + h / 2) for (x, y), (w, h) in zip(layout.centers, sizes)]
    for left, top, right, bottom in boxes:
        assert left >= -1e-6 and top >= -1e-6 and right <= layout.width + 1e-6 and bottom <= layout.height + 1e-6
    for i, a in enumerate(boxes):
        for b in boxes[:i]:
            assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
    for (source, target), route in zip(edges, layout.routes):
        assert route[0] == (layout.centers[source][0], boxes[source][3])
        assert route[-1] == (layout.centers[target][0], boxes[target][1])
        assert all(upper[1] <= lower[1] for upper, lower in zip(route, route[1:]))


def test_a_tree_is_drawn_without_crossings():
    """Children that are given in a bad order come to stand below their parents."""
    edges = [(0, 1), (0, 2), (1, 6), (2, 3), (1, 5), (2, 4)]
    layout = place([(30, 20)] * 7, sorted(edges))
    x = [at for at, _ in layout.centers]
    assert (x[1] < x[2]) == (max(x[5], x[6]) < min(x[3], x[4]))
    assert x[1] == pytest.approx((x[5] + x[6]) / 2)


def test_a_graph_that_is_too_large_says_so():
    nodes = "".join(f"  %{i} = add %{i - 1 if i > 1 else 'x'}, %x : f64[]\n" for i in range(1, MOST_NODES + 2))
    text = f"graph @f(%x: f64[]) {{\n{nodes}  return %{MOST_NODES + 1}\n}}"
    assert f"{MOST_NODES + 1} operations" in graph_picture(text)
    assert graph_picture(text).startswith("<p>")
    smaller = text.replace(f"  %{MOST_NODES + 1} = add %{MOST_NODES}, %x : f64[]\n", "").replace(
        f"return %{MOST_NODES + 1}", f"return %{MOST_NODES}"
    )
    assert texts(graph_picture(smaller)).count("add") == MOST_NODES


def test_types_in_words():
    assert [shown_type(text) for text in ("u8[2]", "c128[]", "bool[s0, 2*s0 + 1]", "other")] == [
        "uint8 2",
        "complex128",
        "bool s0 \N{MULTIPLICATION SIGN} 2*s0 + 1",
        "other",
    ]


@pytest.mark.capture
def test_graph_svg():
    def f(x, i):
        y = np.sort(x)[i] * 2
        fj.graph_break()
        return y + 1

    report = fj.explain(f)(np.ones(30), np.arange(2))
    assert len(report.entries) == 2
    assert "numpy.sort" in texts(report.graph_svg())
    assert "numpy.sort" not in texts(report.graph_svg(1))
    assert "prefers-color-scheme" in report.graph_svg()  # a file of its own has colours of its own
    with pytest.raises(IndexError, match=r"graph_svg\(\) got entry 2, but there are 2 entries"):
        report.graph_svg(2)
    with pytest.raises(IndexError, match="got entry -1"):
        report.graph_svg(-1)


@pytest.mark.capture
def test_graph_of_a_loop():
    def average(x, a):
        s = x[0]
        for i in range(len(x)):
            s = a * x[i] + (1 - a) * s
        return s

    call = fj.explain(average)
    for _ in range(3):
        report = call(np.arange(3000.0), 0.5)
    (entry,) = report.entries
    assert entry["kind"] == "loop"
    blocks = parse_loop(entry["graph"])
    assert blocks[0].name == "block0" and blocks[0].instructions and blocks[0].follow
    assert any(block.depth for block in blocks)
    picture = report.graph_svg()
    assert {block.name for block in blocks} <= set(texts(picture))
    assert 'class="back"' in picture  # the jump to the next round
    assert entry["graph"].count("block") > 3


SOURCE = '''\
    @decorated(level="O1")
    def f(self, x):  # a comment with <b>
        """Two
        lines."""
        y = x if x is not None else 1.5e3
        return print(f"{y!r:>{10}} and {x}", self.print) @ y
'''.splitlines()


def test_colours_of_python():
    for pieces in (_by_pygments, lambda text: _by_tokenize(text.split("\n"))):
        if pieces is _by_pygments:
            pytest.importorskip("pygments")
        lines = _join(pieces("\n".join(SOURCE)))
        assert len(lines) == len(SOURCE)
        plain = [re.sub("<[^>]*>", "", line) for line in lines]
        assert plain == [line.replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;") for line in SOURCE]
        assert '<span class="k">def</span> <span class="f">f</span>' in lines[1]
        assert '<span class="c"># a comment with &lt;b&gt;</span>' in lines[1]
        assert '<span class="s">' in lines[2] and '<span class="s">' in lines[3]
        assert '<span class="n">1.5e3</span>' in lines[4] and '<span class="n">None</span>' in lines[4]
        assert '<span class="b">print</span>' in lines[5] and ".print)" in lines[5]
        assert lines[0].strip().startswith('<span class="d">@')


def test_colours_without_pygments(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "pygments.lexers.python", None)
    assert highlighted(["x = 1"]) == ['x = <span class="n">1</span>']
    assert highlighted(["x = '''", "<"]) == ["x = &#x27;&#x27;&#x27;", "&lt;"]  # no Python: as it is
    assert highlighted([]) == []


def test_what_is_far_above_is_drawn_again():
    nodes = "".join(f"  %{i} = sin %{i - 1} : f64[]\n" for i in range(2, 30))
    text = f"graph @f(%x: f64[], %far: f64[]) {{\n  %1 = cos %x : f64[]\n{nodes}  %30 = add %29, %1 : f64[]\n  %31 = add %30, %far : f64[]\n  %32 = add %31, %x : f64[]\n  return %32\n}}\n"
    shown = texts(graph_picture(text))
    assert shown.count("cos #1") == 2 and shown.count("from above") == 2
    assert shown.count("x") == 2 and shown.count("far") == 1  # that is next to its one use anyway
    assert "sin #2" not in shown
