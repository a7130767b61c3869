"""Python source as HTML with colours: by Pygments if it is installed, otherwise by the tokenizer of the standard library."""

from __future__ import annotations

import builtins
import io
import itertools
import keyword
import token
import tokenize
from collections.abc import Iterable, Iterator
from html import escape
from operator import itemgetter

# Classes of the style: k keyword, s string, c comment, n number, f name that is defined, b built-in name, d decorator.
_TOKENS = {
    "Keyword.Constant": "n",
    "Keyword": "k",
    "Operator.Word": "k",
    "Literal.String": "s",
    "Literal.Number": "n",
    "Comment": "c",
    "Name.Function": "f",
    "Name.Class": "f",
    "Name.Decorator": "d",
    "Name.Builtin": "b",
    "Name.Exception": "b",
}
_BUILTINS = frozenset(name for name in dir(builtins) if not name.startswith("_"))
# Tokens of formatted strings. Python 3.12 and later have them.
_STRINGS = {token.STRING, *(getattr(token, f"FSTRING_{part}", -1) for part in ("START", "MIDDLE", "END"))}
_Piece = tuple[str, str]  # class or "", text


def highlighted(lines: list[str]) -> list[str]:
    """Each line as HTML; without colours if the lines are not Python on their own."""
    if not lines:
        return []
    text = "\n".join(lines)
    try:
        found = _join(_by_pygments(text))
    except ImportError:
        try:
            found = _join(_by_tokenize(lines))
        except (SyntaxError, tokenize.TokenError):
            found = []
    return found if len(found) == len(lines) else [escape(line) for line in lines]


def _join(pieces: Iterable[_Piece]) -> list[str]:
    lines = [""]
    for kind, group in itertools.groupby(pieces, key=itemgetter(0)):
        for i, part in enumerate("".join(text for _, text in group).split("\n")):
            if i:
                lines.append("")
            if part:
                lines[-1] += f'<span class="{kind}">{escape(part)}</span>' if kind else escape(part)
    return lines


def _by_pygments(text: str) -> Iterator[_Piece]:
    from pygments.lexers.python import PythonLexer

    for kind, part in PythonLexer(stripnl=False, ensurenl=False).get_tokens(text):
        name = str(kind).removeprefix("Token.")
        while name and name not in _TOKENS:
            name = name.rpartition(".")[0]
        yield _TOKENS.get(name, ""), part


def _by_tokenize(lines: list[str]) -> Iterator[_Piece]:
    first = "if 1:\n" if lines[0][:1].isspace() else ""  # what is indented is no program
    text = first + "\n".join(lines) + "\n"
    rows = io.StringIO(text).readlines()
    line, column, before = 1 + bool(first), 0, ""
    for kind, part, start, end, _ in tokenize.generate_tokens(io.StringIO(text).readline):
        if start[0] < 1 + bool(first) or not part.strip():
            continue
        yield "", _between(rows, (line, column), start)
        first_of_line = not rows[start[0] - 1][: start[1]].strip()
        yield _class_of(kind, part, before, first_of_line), _between(rows, start, end)
        (line, column), before = end, part
    yield "", _between(rows, (line, column), (len(rows), len(rows[-1]))).removesuffix("\n")


def _between(rows: list[str], start: tuple[int, int], end: tuple[int, int]) -> str:
    if start[0] == end[0]:
        return rows[start[0] - 1][start[1] : end[1]]
    middle = rows[start[0] : end[0] - 1]
    return "".join([rows[start[0] - 1][start[1] :], *middle, rows[end[0] - 1][: end[1]]])


def _class_of(kind: int, text: str, before: str, first_of_line: bool) -> str:
    if kind == token.COMMENT:
        return "c"
    if kind == token.NUMBER or text in ("True", "False", "None"):
        return "n"
    if kind in _STRINGS:
        return "s"
    if kind == token.OP:
        return "d" if text == "@" and first_of_line else ""
    if kind != token.NAME:
        return ""
    if keyword.iskeyword(text):
        return "k"
    if before in ("def", "class"):
        return "f"
    return "b" if text in _BUILTINS and before != "." else ""
