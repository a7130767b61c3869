"""Read the text form of graphs, as far as a picture needs it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from framejit._api._platform import core

_HEAD = re.compile(r"graph @[^(]*\((?P<inputs>.*)\) \{")
_NODE = re.compile(
    r"(?:(?P<name>%\w+) = )?(?P<op>\w+)(?P<operands>[^{:]*)(?P<attributes>\{[^}]*\})?(?:\s*: (?P<type>.*))?"
)
_LOOP = re.compile(r"(?:(?P<name>%\w+) = )?loop (?P<operands>.*?)(?: with (?P<inputs>.*))? \{")
_IF = re.compile(r"(?:(?P<name>%\w+) = )?if (?P<operands>%\w+) \{")
_NAME = re.compile(r"%\w+")
_INPUT = re.compile(r"(%\w+): ")
_BLOCK = re.compile(r"(block\d+)\((.*)\):(?:  # loop depth (\d+))?")
_TYPE = re.compile(r"([a-z]+\d*)\[([^\]]*)\]")
DTYPES = {
    "bool": "bool",
    "bf16": "bfloat16",
    **{
        f"{kind[0]}{bits}": f"{kind}{bits}"
        for kind in ("int", "uint", "float", "complex")
        for bits in (8, 16, 32, 64, 128)
    },
}
_VALUE = re.compile(r"value=([^,}]*)")


@dataclass
class Node:
    """An operation of a graph.

    Attributes
    ----------
    name, op, attributes, type : str
        The name of its value, `%4`, or empty; the operator; `{axes=[0]}` or empty; `f64[30, 4]` or empty.
    operands : list of str
        The names of the values that it takes.
    blocks : list of Block
        Of an `if` and a `loop`: what is inside.
    text : str
        Its line.
    function : str
        Of a `library_call`: the name of the function, if it is known.
    """

    name: str
    op: str
    operands: list[str]
    attributes: str = ""
    type: str = ""
    blocks: list[Block] = field(default_factory=list)
    text: str = ""
    function: str = ""

    @property
    def value(self) -> str | None:
        """The number that a `constant` holds."""
        found = _VALUE.search(self.attributes) if self.op == "constant" else None
        return None if found is None else found[1]


@dataclass
class Block:
    """The inputs of a graph or of a block inside of it with their types, its nodes, and the names of its results."""

    inputs: list[tuple[str, str]]
    nodes: list[Node] = field(default_factory=list)
    results: list[str] = field(default_factory=list)


@dataclass
class Jumps:
    """A block of a compiled loop: its name, how many loops are around it, its instructions, and the blocks that may follow."""

    name: str
    depth: int
    instructions: list[str] = field(default_factory=list)
    follow: list[str] = field(default_factory=list)


def shown_type(text: str) -> str:
    """A type in NumPy's words: `float64 30 x 4`.

    >>> shown_type("f64[s0, 4] strides=[8, 80]"), shown_type("i64[]")
    ('float64 s0 \N{MULTIPLICATION SIGN} 4', 'int64')
    """
    found = _TYPE.match(text)
    if found is None:
        return text
    dims = found[2].replace(", ", " \N{MULTIPLICATION SIGN} ")
    return f"{DTYPES.get(found[1], found[1])} {dims}".strip()


def parse(text: str, library_name: Callable[[int], str] | None = None) -> Block | None:
    """The graph of a text, None for a text that is no graph. `library_name`: of the function of a library call, by its number."""
    lines = iter(text.splitlines())
    head = _HEAD.match(next(lines, ""))
    if head is None:
        return None
    block, _ = _read_block(Block(_inputs(head["inputs"])), lines)
    for node in walk(block) if library_name is not None else ():
        found = re.search(r"index=(\d+)", node.attributes) if node.op == "library_call" else None
        if found is not None and library_name is not None:
            node.function = library_name(int(found[1]))
    return block


def library_name(entry: dict[str, Any]) -> Callable[[int], str] | None:
    """Finds the names of the functions that an entry calls: those that were noted, since their numbers mean nothing later."""
    names = entry.get("library_names")
    return None if not names else lambda number: str(names.get(str(number), ""))


def note_library_names(entry: dict[str, Any]) -> None:
    """Note in the record of an entry which functions its graph calls, by the number in its text."""
    if core is None:
        return
    numbers = re.findall(r" library_call .*?\{index=(\d+)", entry["graph"])
    if numbers:
        entry["library_names"] = {number: _name_of(core.library_callable(int(number))) for number in numbers}


def _name_of(function: Any) -> str:
    owner = getattr(function, "__objclass__", None)
    module = getattr(function, "__module__", None) or getattr(owner, "__module__", None)
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", None) or type(function).__name__
    module = "numpy" if isinstance(function, np.ufunc) else str(module or "")
    return name if module in ("", "builtins", "_operator") else f"{module.removeprefix('_')}.{name}"


def walk(block: Block) -> Iterator[Node]:
    """All nodes, those inside of others too."""
    for node in block.nodes:
        yield node
        for inner in node.blocks:
            yield from walk(inner)


def _inputs(text: str) -> list[tuple[str, str]]:
    parts = _INPUT.split(text)[1:]
    return [(name, kind.rstrip(", ")) for name, kind in zip(parts[::2], parts[1::2], strict=True)]


def _read_block(block: Block, lines: Iterator[str]) -> tuple[Block, bool]:
    """Reads up to the end of the block; the second value says whether an `else` follows."""
    for line in lines:
        text = line.strip()
        if text in ("}", "} else {"):
            return block, text != "}"
        if text.startswith(("return", "yield")):
            block.results = _NAME.findall(text)
        elif text.endswith("{"):
            block.nodes.append(_read_control(text, lines))
        elif (found := _NODE.match(text)) and text != "gradient":
            name, op, operands, attributes, kind = (
                found[key] or "" for key in ("name", "op", "operands", "attributes", "type")
            )
            block.nodes.append(Node(name, op, _NAME.findall(operands), attributes, kind.split(" root=")[0], [], text))
    return block, False


def _read_control(text: str, lines: Iterator[str]) -> Node:
    loop, branch = _LOOP.match(text), _IF.match(text)
    found = loop or branch
    node = Node("", text.split()[0], [], "", "", [], text.rstrip(" {"))
    if found is not None:
        node.name, node.operands = found["name"] or "", _NAME.findall(found["operands"])
        node.op = "loop" if loop else "if"
    inner, more = _read_block(Block(_inputs(loop["inputs"] or "") if loop else []), lines)
    node.blocks.append(inner)
    if more:
        node.blocks.append(_read_block(Block([]), lines)[0])
    return node


def parse_loop(text: str) -> list[Jumps]:
    """The blocks of a compiled loop, whose text follows that of its graph; empty if there are none."""
    blocks: list[Jumps] = []
    for line in text.splitlines():
        if head := _BLOCK.match(line):
            blocks.append(Jumps(head[1], int(head[3] or 0)))
        elif blocks and line.startswith("  ") and not line.startswith("  exit"):
            blocks[-1].instructions.append(line.strip())
    names = {block.name for block in blocks}
    for block in blocks:
        last = block.instructions[-1] if block.instructions else ""
        block.follow = [name for name in re.findall(r"(block\d+)\(", last) if name in names]
    return blocks
