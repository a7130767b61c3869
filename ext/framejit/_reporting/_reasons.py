"""The reasons why graphs break: the registry of the compiled half as text, and the address of its page."""

from __future__ import annotations

import textwrap
from importlib import metadata
from typing import NamedTuple

from framejit._api._platform import core


class Reason(NamedTuple):
    """A reason for breaks: what happens, why the graph ends there, an example and a way out."""

    id: str
    name: str
    what: str
    why: str
    example: str
    way_out: str

    def text(self) -> str:
        """The reason as a page of text."""
        program = textwrap.indent(self.example, "    ")
        return f"{self.id} {self.name}\n{self.title}: {self.why}.\n\n{program}\n\nWay out: {self.way_out}."

    @property
    def title(self) -> str:
        """What happens, as the beginning of a sentence."""
        return self.what[0].upper() + self.what[1:]


def reasons() -> dict[str, Reason]:
    """All reasons by their ids; none without the compiled half."""
    rows = [] if core is None else core.break_reasons()
    return {row[0]: Reason(row[0], row[1], row[2], row[3], row[4].strip("\n"), row[5]) for row in rows}


def page_address() -> str | None:
    """Where the page on breaks is on the web, by the metadata of the installed package; None if that names no documentation."""
    try:
        rows = metadata.metadata("framejit").get_all("Project-URL") or []
    except metadata.PackageNotFoundError:
        return None
    for row in rows:
        label, _, address = str(row).partition(",")
        if label.strip().lower() == "documentation":
            return f"{address.strip().rstrip('/')}/breaks.html"
    return None
