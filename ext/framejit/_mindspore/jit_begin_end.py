"""Marks around a part of a function that MindSpore makes a graph of. The part runs as what is around it does: marked by `jit`, or as it is."""

from __future__ import annotations

from typing import Any


def _jit_begin(fn_name: str, *args: Any) -> None:
    """Begin a part.

    Parameters
    ----------
    fn_name : str
        Its name.
    *args
        What it reads.
    """


def _jit_end(*output_args: Any) -> Any:
    """End a part, and return what it gives.

    Parameters
    ----------
    *output_args
        What it gives; a single value is returned as it is.
    """
    return output_args[0] if len(output_args) == 1 else output_args
