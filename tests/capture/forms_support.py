"""Runs a small function plainly and marked, and compares all that a program can see of it.

A form is a function with the arguments to call it with and what capture is to make of it:

    breaks    the ids of the breaks in the form's own file, in the order of the source; none: one graph for the whole call
    graphs    how many entries are compiled at the first call
    outside   it breaks, but in the standard library only
"""

from __future__ import annotations

import contextlib
import dis
import enum
import io
import traceback
import types
import warnings
from dataclasses import dataclass
from typing import Any, Callable

import numpy as np

import framejit as fj
from framejit._reporting._collect import Collector, breaks_of

FORMS: list[Form] = []
ONE_SCALAR = True  # two references to one NumPy scalar are told from references to two


@dataclass
class Form:
    function: Callable
    arguments: Callable[[], tuple]
    breaks: str
    graphs: int
    outside: bool

    @property
    def name(self) -> str:
        return self.function.__name__


def x23() -> np.ndarray:
    return np.arange(6.0).reshape(2, 3) + 0.5


def form(
    breaks: str = "", graphs: int = 1, outside: bool = False, args: Callable[[], tuple] = lambda: (x23(),)
) -> Callable:
    """Registers a form."""

    def register(function: Callable) -> Callable:
        FORMS.append(Form(function, args, breaks, graphs, outside))
        return function

    return register


def state(value: Any, seen: dict[int, tuple[int, Any]]) -> Any:
    """All of a value as plain data: types, bits, layout, and which objects are one."""
    if isinstance(value, enum.Enum):
        return (type(value).__qualname__, value.name)
    if type(value) in (type(None), bool, int, str, bytes, type(Ellipsis), type(NotImplemented)):
        return (type(value), value)
    if type(value) in (float, complex):
        return (type(value), np.array(value).tobytes())
    if isinstance(value, np.generic) and not ONE_SCALAR:
        return (type(value).__qualname__, value.dtype.str, value.tobytes())
    if id(value) in seen:
        return ("seen", seen[id(value)][0])
    seen[id(value)] = (len(seen), value)  # kept: an id is one object's as long as it lives
    kind = type(value).__qualname__  # of one name in two copies of a module
    if isinstance(value, np.ndarray):
        base = None if value.base is None else state(value.base, seen)
        if value.dtype == object:
            return (kind, value.shape, [state(item, seen) for item in value.ravel()])
        return (kind, value.dtype.str, value.shape, value.strides, value.tobytes(), value.flags.writeable, base)
    if isinstance(value, np.generic):
        return (kind, value.dtype.str, value.tobytes())
    if isinstance(value, dict):
        return (kind, [(state(k, seen), state(v, seen)) for k, v in value.items()])
    if isinstance(value, (set, frozenset)):
        return (kind, [state(item, seen) for item in value])
    if isinstance(value, (list, tuple)):
        return (kind, [state(item, seen) for item in value], attributes(value, seen))
    if isinstance(value, BaseException):
        links = (value.__cause__, value.__context__)
        return (error_state(value, seen), attributes(value, seen), *[state(link, seen) for link in links])
    if isinstance(value, types.FunctionType):
        cells = [state(c.cell_contents, seen) if filled(c) else None for c in value.__closure__ or ()]
        notes = (value.__defaults__, value.__kwdefaults__, value.__annotations__)
        return ("function", value.__qualname__, cells, *[state(note, seen) for note in notes])
    if isinstance(value, types.MethodType):
        return ("method", state(value.__self__, seen), state(value.__func__, seen))
    if isinstance(value, types.BuiltinFunctionType) and not isinstance(value.__self__, (type(None), types.ModuleType)):
        return ("builtin method", value.__name__, state(value.__self__, seen))  # its repr has an address
    if isinstance(value, slice):
        return (slice, state((value.start, value.stop, value.step), seen))
    if isinstance(value, (type, types.ModuleType, types.BuiltinFunctionType, np.ufunc, range, np.dtype)):
        return repr(value)
    if isinstance(value, types.GeneratorType):
        frame = value.gi_frame
        return (kind, value.__qualname__, frame and (frame.f_lineno, state(frame.f_locals, seen)))
    if type(value).__module__ in ("builtins", "itertools") and hasattr(value, "__next__"):
        with contextlib.suppress(Exception):
            return (kind, state(list(value), seen))
    return (kind, attributes(value, seen))


def filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents
    except ValueError:
        return False
    return True


def attributes(value: Any, seen: dict[int, tuple[int, Any]]) -> Any:
    slots = [name for cls in type(value).__mro__ for name in getattr(cls, "__slots__", ()) if hasattr(value, name)]
    held = {**{name: getattr(value, name) for name in slots}, **getattr(value, "__dict__", {})}
    return [(name, state(item, seen)) for name, item in held.items()]


def line_of_unbound(error: BaseException, told: int) -> int:
    """Where the variable is read: CPython tells the instruction before once it runs the two as one (docs/usage.md)."""
    last = error.__traceback__
    while last.tb_next:
        last = last.tb_next
    rows = list(dis.get_instructions(last.tb_frame.f_code))
    at = [row.offset for row in rows].index(last.tb_lasti)
    merged = at + 1 < len(rows) and repr(rows[at].argval) not in str(error) and repr(rows[at + 1].argval) in str(error)
    return rows[at + 1].positions.lineno if merged else told


def error_state(error: BaseException, seen: dict[int, tuple[int, Any]]) -> tuple:
    """Type, text, and every frame of the traceback with its line, columns and locals."""
    frames = []
    for frame, place in zip(
        traceback.walk_tb(error.__traceback__), traceback.StackSummary.extract(traceback.walk_tb(error.__traceback__))
    ):
        if place.filename in (__file__,):
            continue
        held = {name: state(value, seen) for name, value in frame[0].f_locals.items()}
        frames.append((place.filename, place.lineno, place.colno, place.name, held))
    if isinstance(error, UnboundLocalError) and frames:
        filename, line, column, name, held = frames[-1]
        frames[-1] = (filename, line_of_unbound(error, line), column, name, held)
    return (type(error).__qualname__, str(error), frames)


@dataclass
class Seen:
    outcome: Any
    out: str
    warned: list


def run(function: Callable, args: tuple) -> Seen:
    """Calls, and takes down result or exception, the arguments afterwards, output and warnings."""
    out = io.StringIO()
    seen: dict[int, tuple[int, Any]] = {}
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(out):
        warnings.simplefilter("always")
        try:
            outcome = state((args, drained(function(*args)), args), seen)
        except Exception as error:
            outcome = state((args, error), seen)
    seen.clear()  # the traceback would keep it, and it the exception
    warned = [w for w in caught if w.category is not fj.RecompileLimitWarning]
    return Seen(outcome, out.getvalue(), [(w.category, str(w.message), w.filename, w.lineno) for w in warned])


def drained(result: Any) -> Any:
    """Generators and coroutines are run to their end."""
    if isinstance(result, types.GeneratorType):
        return ("generator", list(result))
    if isinstance(result, types.CoroutineType):
        try:
            while True:
                result.send(None)
        except StopIteration as stop:
            return ("coroutine", stop.value)
    return result


def differences(a: Any, b: Any, path: str = "") -> str:
    """Where two states part."""
    if type(a) is type(b) and isinstance(a, (list, tuple)) and len(a) == len(b):
        for i, (p, q) in enumerate(zip(a, b)):
            if p != q:
                return differences(p, q, f"{path}[{i}]")
    return f"{path}: {a!r} for {b!r}"


def check_same(expected: Seen, actual: Seen, what: str) -> None:
    assert actual.outcome == expected.outcome, f"{what}: {differences(actual.outcome, expected.outcome)}"
    assert actual.out == expected.out, f"{what}: printed {actual.out!r} for {expected.out!r}"
    assert actual.warned == expected.warned, f"{what}: warned {actual.warned} for {expected.warned}"


@dataclass
class Structure:
    graphs: int
    breaks: list[str]  # ids, in the order of the source
    detail: list[str]
    whole: bool


def structure(function: Callable, args: tuple) -> Structure:
    """What the first call compiles."""
    collector = Collector("not measured")
    marked = fj.jit(function, capture_mode="bytecode")
    run(marked, args)
    # What the standard library is made of is not the form's.
    reports = [report for report in collector.finish() if report.file == function.__code__.co_filename]
    breaks = sorted(breaks_of(reports), key=lambda b: (b["line"], b["column"]))
    breaks = [b for b in breaks if b["file"] == function.__code__.co_filename]
    entries = [entry for report in reports for entry in report.entries]
    return Structure(
        len(entries),
        [b["id"] for b in breaks],
        [f"{b['id']} {b['detail']} @{b['line']}" for b in breaks],
        [entry["kind"] for entry in entries] == ["function"] and not breaks,
    )
