"""Describe in words the time that calls took, and the time that they would have taken as plain Python."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from framejit._reporting._format import counted, duration, function_name

if TYPE_CHECKING:
    from framejit._reporting._collect import FunctionReport

_LEAST_GAIN = 0.03  # of the time as plain Python: less is noise
_LEAST_SHARE = 0.01  # of the whole program's
_MOST_NAMES = 3


def saved_text(plain_ns: int, ns: int, what: str) -> str:
    """What was saved or lost by running compiled code."""
    if abs(plain_ns - ns) < _LEAST_GAIN * plain_ns:
        return f"nothing was saved in {what}, which took {duration(ns)}"
    if ns <= plain_ns:
        return f"saved {duration(plain_ns - ns)} of {duration(plain_ns)} in {what}"
    took = f"{what} took {duration(ns)}, plain Python would have taken {duration(plain_ns)}"
    return f"lost {duration(ns - plain_ns)}: {took}"


def gain_text(function: FunctionReport) -> str:
    """What the calls of a function took and saved, in a line; empty if nothing was measured."""
    gain, parts = function.gain, []
    calls, compared, compiling = (int(gain.get(key, 0)) for key in ("calls", "compared_calls", "compiling_calls"))
    if compared and may_gain(function):
        what = counted(calls, "call") if compared == calls else f"{compared:,} of {counted(calls, 'call')}"
        parts.append(saved_text(gain["plain_ns"], gain["compared_ns"], what))
    elif gain.get("compared_rounds"):
        what = f"{counted(gain['compared_rounds'], 'round')} of loops"
        parts.append(saved_text(gain["rounds_plain_ns"], gain["compared_rounds_ns"], what))
    elif calls:
        parts.append(f"{counted(calls, 'call')} took {duration(gain['ns'])}")
    if compiling:
        of_it = f", {duration(function.compile_ns)} of it for compiling" if function.compile_ns else ""
        parts.append(f"{counted(compiling, 'call')} that compiled took {duration(gain['compiling_calls_ns'])}{of_it}")
    if parts and may_gain(function) and gain["why_unmeasured"]:
        parts.append(str(gain["why_unmeasured"]))
    return "; ".join(parts)


def may_gain(function: FunctionReport) -> bool:
    """Whether compiled code runs in its calls: its own, or that of functions that it calls."""
    return bool(function.entries or function.gain.get("calls_others"))


def program_text(functions: Iterable[FunctionReport], compile_ns: int) -> str:
    """What a whole program saved, and where it lost. The calls within a measured call are part of that call."""
    measured = [f for f in functions if f.gain and may_gain(f)]
    compared = [f for f in measured if f.gain["counted"]]
    compiling = f"compiling took {duration(compile_ns)}"
    if not compared:
        reasons = {str(f.gain["why_unmeasured"]) for f in measured}
        return f"{reasons.pop() if len(reasons) == 1 else 'nothing was measured'}; {compiling}"
    ns, plain_ns = (sum(int(f.gain[key]) for f in compared) for key in ("counted_ns", "counted_plain_ns"))
    text = saved_text(plain_ns, ns, counted(len(compared), "function"))
    lost = [f for f in compared if _loss(f) > max(_LEAST_GAIN * f.gain["counted_plain_ns"], _LEAST_SHARE * plain_ns)]
    losers = [f"{_name(f)} lost {duration(_loss(f))}" for f in sorted(lost, key=_loss, reverse=True)[:_MOST_NAMES]]
    others = [f for f in measured if not f.gain["samples"] and _time(f) > _LEAST_SHARE * plain_ns]
    others.sort(key=_time, reverse=True)
    names = [f"{_name(f)} ({duration(_time(f))})" for f in others[:_MOST_NAMES]]
    unmeasured = [f"not measured: {', '.join(names)}{' and others' * (len(others) > _MOST_NAMES)}"] if others else []
    return "; ".join([text, *losers, *unmeasured, compiling])


def _name(function: FunctionReport) -> str:
    return function_name({"function": function.name})


def _loss(function: FunctionReport) -> int:
    return int(function.gain["counted_ns"]) - int(function.gain["counted_plain_ns"])


def _time(function: FunctionReport) -> int:
    return int(function.gain["ns"]) + int(function.gain["compiling_calls_ns"])


class Speed(NamedTuple):
    """Times of the same calls in nanoseconds: as they ran, and as plain Python."""

    ns: int
    plain_ns: int

    @property
    def headline(self) -> str:
        """How much faster that is, for those who know Python and NumPy."""
        ratio = self.plain_ns / max(self.ns, 1)
        if abs(self.plain_ns - self.ns) < _LEAST_GAIN * self.plain_ns:
            return "as fast as plain Python"
        if ratio > 1:
            return f"{_times(ratio)} times as fast as plain Python"
        return f"slower: plain Python is {_times(1 / ratio)} times as fast"

    @property
    def short(self) -> str:
        """The same for a table."""
        ratio = self.plain_ns / max(self.ns, 1)
        return "the same" if "times" not in self.headline else f"{_times(ratio)}\N{MULTIPLICATION SIGN}"


def _times(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 1.095 else f"{ratio:.1f}" if ratio < 9.95 else f"{ratio:,.0f}"


def speed_of(function: FunctionReport) -> Speed | None:
    """How fast the calls of a function were, or the rounds of its loops; None if that was not measured."""
    gain = function.gain
    if may_gain(function) and gain.get("compared_calls"):
        return Speed(int(gain["compared_ns"]), int(gain["plain_ns"]))
    if may_gain(function) and gain.get("compared_rounds"):
        return Speed(int(gain["compared_rounds_ns"]), int(gain["rounds_plain_ns"]))
    return None


def speed_of_program(functions: Iterable[FunctionReport]) -> Speed | None:
    """The same of all functions of a program; calls within a measured call count once."""
    compared = [f for f in functions if f.gain and may_gain(f) and f.gain["counted"]]
    ns, plain_ns = (sum(int(f.gain[key]) for f in compared) for key in ("counted_ns", "counted_plain_ns"))
    return Speed(ns, plain_ns) if compared else None
