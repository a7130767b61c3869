"""What programs ask MindSpore's compiled half about its bytecode mode."""

from __future__ import annotations

from typing import Any

from framejit._api import _jit


def get_code_extra(function: Any) -> dict[str, Any] | None:
    """What became of a marked function or of the function that was marked, as MindSpore says it; None where nothing has been tried.

    Returns
    -------
    dict
        ``stat``: ``'GRAPH_CALLABLE'`` or ``'NEVER_COMPILE'``; ``compile_count_``: graphs; ``break_count_``; with graphs also ``code``, a dict with
        ``call_count_``, ``phase_`` (the graphs as text), ``guard_`` and ``compiled_code_`` (the bytecode that runs in the function's place, or None).

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
    made = function if _jit.is_compiled(function) else _jit.made_of.get(getattr(function, "__code__", None))
    report = made._report() if hasattr(made, "_report") else None
    if report is None or not (report["entries"] or report["breaks"]):
        return None
    entries = report["entries"]
    found: dict[str, Any] = {
        "stat": "GRAPH_CALLABLE" if entries else "NEVER_COMPILE",
        "compile_count_": len(entries),
        "break_count_": len(report["breaks"]),
    }
    if entries:
        found["code"] = {
            "call_count_": sum(entry["hits"] for entry in entries),
            "phase_": "\n".join(entry["graph"] for entry in entries),
            "guard_": "\n".join(guard for entry in entries for guard in entry["guards"]),
            "compiled_code_": report["codes"][1] if "codes" in report else None,
        }
    return found


def jit_mode_pi_enable() -> None:
    """Nothing: what is marked is compiled, and nothing else."""


jit_mode_pi_disable = jit_mode_pi_enable


def update_pijit_default_config(**config: Any) -> None:
    """Nothing: there is one way in which bytecode is captured."""
