"""Marks around a part of a function that MindSpore compiles. The part runs as the rest of the function does."""

from __future__ import annotations

from typing import Any


def _jit_begin(fn_name: str, *args: Any) -> None:
    """Begin a part.

    Parameters
    ----------
    fn_name : str
        Its name.
    *args
        The values that it reads.
    """


def _jit_end(*output_args: Any) -> Any:
    """End a part, and return its results.

    Parameters
    ----------
    *output_args
        Its results; a single one is returned as it is.
    """
    return output_args[0] if len(output_args) == 1 else output_args
