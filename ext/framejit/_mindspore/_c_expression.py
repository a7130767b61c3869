"""What programs ask MindSpore's compiled half about its bytecode mode."""

from __future__ import annotations

import collections
from types import BuiltinMethodType, CodeType, MethodType, MethodWrapperType, ModuleType
from typing import Any

from framejit._api import _jit
from framejit._core import Tensor as TensorPy

__all__ = [
    "TensorPy",
    "function_id",
    "get_code_extra",
    "jit_mode_pi_disable",
    "jit_mode_pi_enable",
    "security",
    "update_pijit_default_config",
]

# The functions that were marked last, which may have captured others. They stay although `jit` was called for one call.
_callers: collections.deque[Any] = collections.deque(maxlen=64)
_jit.on_made.append(_callers.append)


def _is_known(report: dict[str, Any]) -> bool:
    """Whether a function was looked at."""
    return bool(report["entries"] or report["breaks"] or report["compile_ns"])


def get_code_extra(function: Any) -> dict[str, Any] | None:
    """What became of a marked function or of the function that was marked, as MindSpore says it; None where nothing has been tried.

    Returns
    -------
    dict
        ``stat``: ``'GRAPH_CALLABLE'``; ``compile_count_``: graphs, those of other functions that it is part of too; ``break_count_``; ``code``,
        a dict with ``call_count_`` (of the graph that ran most), ``phase_`` (the graphs as text), ``guard_`` and ``compiled_code_`` (the bytecode that runs: with
        calls of graphs, or the function's own; None where a graph takes its place). A function that has no operations on arrays has no graphs: it was looked at, and runs as it is.

    Examples
    --------
    >>> import framejit as fj
    >>> from framejit._mindspore._c_expression import get_code_extra
    >>> double = fj.jit(lambda x: x * 2, capture_mode="bytecode")
    >>> double(fj.Tensor([1.0])).item()
    2.0
    >>> found = get_code_extra(double)
    >>> found["stat"], found["break_count_"], found["code"]["call_count_"]
    ('GRAPH_CALLABLE', 0, 1)
    """
    function = getattr(function, "__func__", function)
    code = function if isinstance(function, CodeType) else getattr(function, "__code__", None)
    made = function if _jit.is_compiled(function) else _jit.made_of.get(code)
    if not hasattr(made, "_report"):
        return None
    reports = [made._report()]
    if not _is_known(reports[0]):  # its code was compiled for another object, or as part of another function
        others = [other for other in _callers if other is not made and hasattr(other, "_report")]
        reports += [other._report() for other in others if getattr(other, "__code__", None) is code]
        if not any(map(_is_known, reports)):
            reports[0]["entries"] = [
                entry
                for other in others
                for entry in other._report()["entries"]
                if any(one is code for one in entry["inlined"])
            ]
    if not any(map(_is_known, reports)):
        return None
    entries = [entry for report in reports for entry in report["entries"]]
    breaks = [one for report in reports for one in report["breaks"]]
    codes = next((report["codes"] for report in reports if "codes" in report), (code, None if entries else code))
    return {
        "stat": "GRAPH_CALLABLE",
        "compile_count_": len(entries) or 1,
        "break_count_": len(breaks),
        "code": {
            "call_count_": max([entry["hits"] for entry in entries], default=1),
            "phase_": "\n".join(entry["graph"] for entry in entries),
            "guard_": "\n".join(guard for entry in entries for guard in entry["guards"]),
            "compiled_code_": codes[1],
        },
    }


def function_id(function: Any) -> int:
    """A number that is one function's own. A method has that of its function, so it is the same for all objects of a class.

    Examples
    --------
    >>> from framejit._mindspore._c_expression import function_id
    >>> function_id([].append) == function_id(list.append)
    True
    """
    if isinstance(function, MethodType):
        return id(function.__func__)
    if isinstance(function, (BuiltinMethodType, MethodWrapperType)) and not isinstance(function.__self__, ModuleType):
        for cls in type(function.__self__).__mro__:
            if function.__name__ in vars(cls):
                found = vars(cls)[function.__name__]
                return id(found.__func__ if isinstance(found, (staticmethod, classmethod)) else found)
    return id(function)


def jit_mode_pi_enable() -> None:
    """Nothing: what is marked is compiled, and nothing else."""


jit_mode_pi_disable = jit_mode_pi_enable


def update_pijit_default_config(**config: Any) -> None:
    """Nothing: there is one way in which bytecode is captured."""


class security:  # noqa: N801  MindSpore's name
    """How MindSpore was built."""

    @staticmethod
    def enable_security() -> bool:
        """False: graphs may be written into files."""
        return False
