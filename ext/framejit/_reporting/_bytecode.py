"""The bytecode of a function next to the code that runs in its place."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from types import CodeType

_SITE = 4  # instructions of a site: jump over it when dormant, load the region, ask it, go to its exit


def side_by_side(original: CodeType, spliced: CodeType) -> str:
    """Both as text, the instructions of `original` on the left; added instructions are on the right alone.

    Examples
    --------
    >>> def f(x):
    ...     return x
    >>> print(side_by_side(f.__code__, f.__code__))  # doctest: +ELLIPSIS
    line  original...
    """
    rows = [("line", "original", "in its place")]
    left, right = list(_instructions(original)), list(_instructions(spliced))
    at, line = 0, ""
    for instruction in left:
        while _begins_site(right, at):
            rows += [("", "", _text(other)) for other in right[at : at + _SITE]]
            at += _SITE
        starts = instruction.starts_line  # says only whether it does from 3.13 on
        if starts is not None and starts is not False:
            line = str(getattr(instruction, "line_number", starts))
        rows.append((line, _text(instruction), _text(right[at]) if at < len(right) else ""))
        line = ""
        at += 1
    rows += [("", "", _text(other)) for other in right[at:]]
    widths = [max(len(row[i]) for row in rows) for i in (0, 1)]
    return "\n".join(f"{a:>{widths[0]}}  {b:<{widths[1]}}  {c}".rstrip() for a, b, c in rows)


def _instructions(code: CodeType) -> Iterator[dis.Instruction]:
    return (i for i in dis.get_instructions(code) if i.opname not in ("EXTENDED_ARG", "CACHE"))


def _begins_site(instructions: list[dis.Instruction], at: int) -> bool:
    return (
        at + 1 < len(instructions)
        and instructions[at].opname == "JUMP_FORWARD"
        and type(instructions[at + 1].argval).__module__.startswith("framejit")
    )


def _text(instruction: dis.Instruction) -> str:
    shown = instruction.argrepr
    if type(instruction.argval).__module__.startswith("framejit"):
        shown = "<region>"
    elif isinstance(instruction.argval, CodeType):
        shown = f"<code {instruction.argval.co_name}>"
    return f"{instruction.offset:>4} {instruction.opname} {shown}".rstrip()
