"""The IPython extension: ``%load_ext framejit``."""

from __future__ import annotations

from typing import Any


def load(shell: Any) -> None:
    """Register the magics ``%framejit`` and ``%%framejit`` with an IPython shell."""
    from framejit._notebook._magics import FramejitMagics

    shell.register_magics(FramejitMagics(shell))
