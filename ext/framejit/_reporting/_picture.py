"""Graphs as SVG: boxes for inputs, operations and results, from top to bottom."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from html import escape

from framejit._reporting._format import counted
from framejit._reporting._graph_text import Block, Jumps, Node, parse, parse_loop, shown_type, walk
from framejit._reporting._layout import place, ranks

_WIDE = 7.3  # a character of the label, in a monospaced font of 12 px
_SMALL = 6.2  # of the line below it, of 10.5 px
_LINE = 16.0
_PADDING = 10.0
_MARGIN = 6.0
_TELEPHONE = 340.0
_LONGEST = 34
_LONGEST_EDGE = 12  # layers
_OPEN = "\N{MIDDLE DOT}"  # where an operand that is an array goes
MOST_NODES = 600

# Rows of (class, what the legend says).
KINDS = {
    "input": "input",
    "elementwise": "element by element",
    "reduction": "reduction",
    "call": "product or library function",
    "memory": "view or write",
    "control": "branch or loop",
    "result": "result",
}
_CALLS = frozenset({"library_call", "matmul", "convolution", "convolution_weights", "attention", "attention_gradients"})
_CALLS |= {"compress", "expand", "nonzero"}
_MEMORY = frozenset({"view", "write", "copy", "empty", "full", "iota", "dim"})
_NOT_DRAWN = frozenset({"constant", "output", "expect", "measure"})

STYLE = """
.fj-graph{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
.fj-graph rect{fill:var(--fj-panel);stroke:var(--fj-line);stroke-width:1}
.fj-graph text{fill:var(--fj-text);text-anchor:middle}.fj-graph .small{font-size:10.5px;fill:var(--fj-soft)}
.fj-graph path{fill:none;stroke:var(--fj-edge);stroke-width:1.2}.fj-graph path.head{fill:var(--fj-edge);stroke:none}
.fj-graph path.back{stroke-dasharray:4 3}
.fj-graph .input rect{fill:var(--fj-blue)}.fj-graph .result rect{fill:var(--fj-green)}
.fj-graph .reduction rect{fill:var(--fj-orange)}.fj-graph .call rect{fill:var(--fj-purple)}
.fj-graph .memory rect{stroke-dasharray:3 2}.fj-graph .control>rect{fill:none;stroke:var(--fj-edge)}
"""
LIGHT = (
    "--fj-text:#1f2328;--fj-soft:#505862;--fj-panel:#f6f8fa;--fj-line:#b3bcc6;--fj-edge:#6b7480;"
    "--fj-blue:#ddf0ff;--fj-green:#d7f5dd;--fj-orange:#ffead2;--fj-purple:#eee4ff;"
)
DARK = (
    "--fj-text:#e6edf3;--fj-soft:#a9b4c0;--fj-panel:#1b222b;--fj-line:#4a5460;--fj-edge:#8b96a3;"
    "--fj-blue:#12314f;--fj-green:#12381f;--fj-orange:#47300f;--fj-purple:#33234f;"
)


@dataclass
class _Box:
    """A node of a picture: its lines, and the picture inside of it."""

    kind: str
    label: str
    below: str = ""
    title: str = ""
    inner: list[_Picture] = field(default_factory=list)

    def size(self) -> tuple[float, float]:
        width = max(len(self.label) * _WIDE, len(self.below) * _SMALL) + 2 * _PADDING
        height = _LINE * (1 + bool(self.below)) + _PADDING
        if self.inner:
            width = max(width, sum(picture.width for picture in self.inner) + (len(self.inner) + 1) * _PADDING)
            height += max(picture.height for picture in self.inner) + _PADDING
        return width, height


@dataclass
class _Picture:
    """A picture without its frame."""

    body: str
    width: float
    height: float
    count: int


def graph_picture(text: str, library_name: Callable[[int], str] | None = None, *, alone: bool = True) -> str:
    """The SVG of a graph's text; a paragraph of HTML if the graph is too large, empty if there is nothing to draw.

    `alone`: with colours of its own, for a file; otherwise a page has the style.
    """
    jumps = parse_loop(text)
    block = None if jumps else parse(text, library_name)
    count = len(jumps) if jumps else 0 if block is None else sum(1 for _ in walk(block))
    if count > MOST_NODES:
        return f"<p>The graph has {counted(count, 'operation')}, which is too many for a picture.</p>"
    if jumps:
        picture = _draw_jumps(jumps)
    elif block is not None and (block.nodes or block.results):
        picture = _draw_block(block, {}, "")
    else:
        return ""
    width, height = picture.width + 2 * _MARGIN, picture.height + 2 * _MARGIN
    style = ""
    if alone:
        style = f"<style>.fj-graph{{{LIGHT}}}@media(prefers-color-scheme:dark){{.fj-graph{{{DARK}}}}}{STYLE}</style>"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="fj-graph" role="img" aria-label="graph with {counted(picture.count, "node")}" '
        f'width="{width:.0f}" height="{height:.0f}" viewBox="{-_MARGIN:.0f} {-_MARGIN:.0f} {width:.0f} {height:.0f}">'
        f"{style}{picture.body}</svg>"
    )


def scrolled(picture: str) -> str:
    """An SVG in an element that scrolls; where browsers can, it starts at the first input of a graph that is too wide."""
    size = re.search(r'width="(\d+)"', picture)
    first = re.search(r'<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', picture)
    if size is None or first is None:
        return picture
    start = max(float(first[1]) + float(first[2]) / 2 + _MARGIN - _TELEPHONE / 2, 0.0)
    return f'<div class="graph" tabindex="0"><div style="width:{size[1]}px"><i style="left:{start:.0f}px"></i>{picture}</div></div>'


def legend(text: str) -> list[str]:
    """The kinds of nodes in the picture of a graph's text."""
    block = None if parse_loop(text) else parse(text)
    if block is None:
        return []
    found = {_kind_of(node) for node in walk(block) if node.op not in _NOT_DRAWN}
    found |= {kind for kind, names in (("input", block.inputs), ("result", block.results)) if names}
    return [kind for kind in KINDS if kind in found]


def _kind_of(node: Node) -> str:
    if node.blocks:
        return "control"
    if node.op in _MEMORY:
        return "memory"
    if node.op.startswith("reduce_"):
        return "reduction"
    return "call" if node.op in _CALLS else "elementwise"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}\N{HORIZONTAL ELLIPSIS}"


def _label(node: Node, constants: dict[str, str]) -> str:
    """The operator in words, with the numbers among its operands: `subtract(1, \N{MIDDLE DOT})`."""
    name = node.function or node.op.replace("_", " ")
    axes = node.attributes.removeprefix("{axes=[").partition("]")[0]
    if node.op.startswith("reduce_") and axes:
        return _short(f"{node.op.removeprefix('reduce_')} over {'axes' if ',' in axes else 'axis'} {axes}")
    if any(operand in constants for operand in node.operands):
        return _short(f"{name}({', '.join(constants.get(operand, _OPEN) for operand in node.operands)})")
    return _short(name)


def _needed(block: Block) -> list[Node]:
    """The nodes that results, writes and library calls depend on: not those that only check something."""
    wanted = set(block.results)
    kept: list[Node] = []
    for node in reversed(block.nodes):
        if node.op in ("expect", "measure"):
            continue
        if node.name in wanted or node.op == "write" or node.blocks or _kind_of(node) == "call":
            kept.append(node)
            wanted.update(node.operands)
            wanted.update(name for inner in node.blocks for name in _taken(inner))
    return kept[::-1]


def _taken(block: Block) -> Iterable[str]:
    """The names of all values that a block takes, its own too."""
    yield from block.results
    for node in block.nodes:
        yield from node.operands
        for inner in node.blocks:
            yield from _taken(inner)


def _result_names(count: int, op: str) -> list[str]:
    """The results of a graph, or of a block of an `if` or a `loop`."""
    if op == "loop":
        return ["another round?", *(f"next {i}" for i in range(1, count))][:count]
    return ["result"] if count == 1 else [f"result {i}" for i in range(count)]


def _draw_block(block: Block, outer: dict[str, str], op: str) -> _Picture:
    """`outer`: the numbers that are known around the block. `op`: the operation that it is a part of, or empty."""
    nodes = _needed(block)
    constants = outer | {node.name: node.value for node in nodes if node.value is not None}
    names = [f"this {i}" if op == "loop" else name.removeprefix("%") for i, (name, _) in enumerate(block.inputs, 1)]
    boxes = [_Box("input", name, shown_type(kind)) for name, (_, kind) in zip(names, block.inputs, strict=True)]
    place_of = {name: i for i, (name, _) in enumerate(block.inputs)}
    edges: list[tuple[int, int]] = []
    drawn = len(boxes)

    def source(name: str) -> int:
        if name not in place_of:  # of the block around this one
            place_of[name] = len(boxes)
            boxes.append(_Box("input", name.removeprefix("%"), "from outside"))
        return place_of[name]

    for node in nodes:
        if node.value is not None:
            continue
        if node.op == "output":
            place_of[node.name] = source(node.operands[0])
            continue
        inner = [_draw_block(each, constants, node.op) for each in node.blocks]
        drawn += sum(picture.count for picture in inner)
        from_outside = [name for each in node.blocks for name in _free(each) if name in place_of]
        sources = dict.fromkeys(source(name) for name in [*node.operands, *from_outside] if name not in constants)
        label = {"if": "if, else", "loop": "loop"}.get(node.op, "") or _label(node, constants)
        boxes.append(_Box(_kind_of(node), label, shown_type(node.type), node.text, inner))
        edges += [(at, len(boxes) - 1) for at in sources]
        if node.name:
            place_of[node.name] = len(boxes) - 1
    for name, text in zip(block.results, _result_names(len(block.results), op), strict=True):
        if name in constants:
            boxes.append(_Box("result", _short(f"{text}: {constants[name]}")))
            continue
        at = source(name)
        boxes.append(_Box("result", text))
        edges.append((at, len(boxes) - 1))
    boxes, edges = _without_long_edges(boxes, list(dict.fromkeys(edges)))
    return _draw(boxes, edges, drawn + sum(1 for node in nodes if node.value is None and node.op != "output"))


def _free(block: Block) -> list[str]:
    """The names that a block takes from outside."""
    own = {name for name, _ in block.inputs} | {node.name for node in block.nodes}
    names = dict.fromkeys([*block.results, *(name for node in block.nodes for name in node.operands)])
    names |= dict.fromkeys(name for node in block.nodes for inner in node.blocks for name in _free(inner))
    return [name for name in names if name not in own]


def _draw_jumps(jumps: list[Jumps]) -> _Picture:
    """The blocks of a compiled loop; jumps back are dashed."""
    order = _in_order(jumps)
    number = {block.name: i for i, block in enumerate(order)}
    boxes = []
    for block in order:
        what = f"{counted(len(block.instructions), 'instruction')}{', in a loop' if block.depth else ''}"
        boxes.append(
            _Box("reduction" if block.depth else "elementwise", block.name, what, "\n".join(block.instructions))
        )
    edges = dict.fromkeys((number[block.name], number[name]) for block in order for name in block.follow)
    forward = [edge for edge in edges if edge[0] < edge[1]]
    return _draw(boxes, forward, len(boxes), [edge for edge in edges if edge[0] >= edge[1]])


def _in_order(jumps: list[Jumps]) -> list[Jumps]:
    """Each block after those that lead to it, except by a jump back."""
    by_name = {block.name: block for block in jumps}
    done: dict[str, None] = {}
    for start in jumps:
        stack = [(start, iter(start.follow))] if start.name not in done else []
        seen = {start.name} | done.keys()
        while stack:
            block, rest = stack[-1]
            name = next(rest, None)
            if name is None:
                done[block.name] = None
                stack.pop()
            elif name not in seen:
                seen.add(name)
                stack.append((by_name[name], iter(by_name[name].follow)))
    return [by_name[name] for name in reversed(done)]


def _without_long_edges(boxes: list[_Box], edges: list[tuple[int, int]]) -> tuple[list[_Box], list[tuple[int, int]]]:
    """Draws what is far above a node once more, next to it: an input as it is, others with a number in both places."""
    rank = ranks(len(boxes), edges)
    sources: list[list[int]] = [[] for _ in boxes]
    for source, target in edges:
        sources[target].append(source)
    long = {edge for edge in edges if rank[edge[1]] - rank[edge[0]] > _LONGEST_EDGE}
    numbered = [source for source in sorted({source for source, _ in long}) if boxes[source].kind != "input"]
    tags = {source: f" #{i}" for i, source in enumerate(numbered, 1)}
    number: dict[int, int] = {}
    drawn: list[_Box] = []
    kept: list[tuple[int, int]] = []
    for target, box in enumerate(boxes):
        near = []
        for source in sources[target]:
            if (source, target) not in long:
                near.append(number[source])
                continue
            near.append(len(drawn))
            kind = "input" if boxes[source].kind == "input" else "memory"
            drawn.append(_Box(kind, boxes[source].label + tags.get(source, ""), "from above", boxes[source].title))
        number[target] = len(drawn)
        drawn.append(replace(box, label=box.label + tags.get(target, "")))
        kept += [(source, number[target]) for source in near]
    return drawn, kept


def _draw(
    boxes: list[_Box], edges: list[tuple[int, int]], count: int, back: Iterable[tuple[int, int]] = ()
) -> _Picture:
    sizes = [box.size() for box in boxes]
    layout = place(sizes, edges)
    parts = list(dict.fromkeys(piece for route in layout.routes for piece in _curves(route)))
    width = layout.width
    for source, target in back:
        (x, y), (to_x, to_y) = layout.centers[source], layout.centers[target]
        start, end = x + sizes[source][0] / 2, to_x + sizes[target][0] / 2
        right = max(start, end) + 26
        if source == target:
            y, to_y = y + 8, to_y - 8
        parts.append(
            f'<path class="back" d="M{start:.1f} {y:.1f}C{right:.1f} {y:.1f} {right:.1f} {to_y:.1f} {end:.1f} {to_y:.1f}"/>'
        )
        parts.append(f'<path class="head" d="M{end:.1f} {to_y:.1f}l6 -3.5v7z"/>')
        width = max(width, right)
    for box, (x, y), (wide, tall) in zip(boxes, layout.centers, sizes, strict=True):
        parts.append(_draw_box(box, x - wide / 2, y - tall / 2, wide, tall))
    return _Picture("".join(parts), width, layout.height, count)


def _draw_box(box: _Box, left: float, top: float, wide: float, tall: float) -> str:
    middle = left + wide / 2
    title = f"<title>{escape(box.title)}</title>" if box.title else ""
    parts = [
        f'<g class="{box.kind}">{title}<rect x="{left:.1f}" y="{top:.1f}" width="{wide:.1f}" height="{tall:.1f}" rx="6"/>'
    ]
    baseline = top + _PADDING / 2 + 12
    parts.append(f'<text x="{middle:.1f}" y="{baseline:.1f}">{escape(box.label)}</text>')
    if box.below:
        parts.append(f'<text class="small" x="{middle:.1f}" y="{baseline + _LINE - 2:.1f}">{escape(box.below)}</text>')
    at = left + (wide - sum(picture.width for picture in box.inner) - (len(box.inner) - 1) * _PADDING) / 2
    for picture in box.inner:
        parts.append(
            f'<g transform="translate({at:.1f} {top + _LINE * (1 + bool(box.below)) + _PADDING:.1f})">{picture.body}</g>'
        )
        at += picture.width + _PADDING
    return "".join([*parts, "</g>"])


def _curves(route: list[tuple[float, float]]) -> Iterator[str]:
    """The pieces of an edge. Those that edges share are the same, so that they can be drawn once."""
    (x, y), end = route[0], route[-1]
    for to_x, to_y in route[1:]:
        bottom = to_y - 5 if (to_x, to_y) == end else to_y  # up to the head of the arrow
        half = (y + bottom) / 2
        way = f"V{bottom:.1f}" if x == to_x else f"C{x:.1f} {half:.1f} {to_x:.1f} {half:.1f} {to_x:.1f} {bottom:.1f}"
        yield f'<path d="M{x:.1f} {y:.1f}{way}"/>'
        x, y = to_x, to_y
    yield f'<path class="head" d="M{x:.1f} {y:.1f}l-3.5 -6h7z"/>'
