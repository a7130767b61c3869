"""Errors for names that do not exist."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def unknown(module: str, name: str, names: Iterable[str]) -> AttributeError:
    """An `AttributeError` that says which names are near."""
    public = sorted(known for known in names if not known.startswith("_"))
    near = difflib.get_close_matches(name, public, 4, 0.5) or [
        known for known in public if known.lower() == name.lower()
    ]
    hint = f"; similar names: {', '.join(near)}" if near else ""
    return AttributeError(f"module {module!r} has no attribute {name!r}{hint}")
