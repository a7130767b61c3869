"""The stress mode ``verify``: what a region would have done, compared with what the bytecode then did."""

from __future__ import annotations

import base64
import inspect
import pickle
import sys
import textwrap
import warnings
from collections import OrderedDict
from pathlib import Path
from types import BuiltinMethodType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from framejit._api._config import config

UNBOUND = type(
    "Unbound", (), {"__repr__": lambda self: "<not bound>"}
)()  # a variable without a value, NULL on the stack
_KINDS = ("cell", "global", "attribute", "item", "extend", "list", "set")
_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...), type(NotImplemented), range, slice)

_warned = 0
_predictions = 0  # that are alive: not compared yet
_show: Any = None  # what shows warnings without us
_begun: OrderedDict[int, dict[str, bytes | None]] = OrderedDict()  # arguments of calls, by frame


def _counting(message: Any) -> None:
    global _warned
    _warned += 1
    _show(message)


def _count_warnings(more: int) -> None:
    """While there are predictions, what `warnings` is about to show is counted, under any filter."""
    global _predictions, _show
    _predictions += more
    if _predictions and warnings._showwarnmsg is not _counting:  # type: ignore[attr-defined]
        _show = warnings._showwarnmsg  # type: ignore[attr-defined]
        warnings._showwarnmsg = _counting  # type: ignore[attr-defined]
    elif not _predictions and warnings._showwarnmsg is _counting:  # type: ignore[attr-defined]
        warnings._showwarnmsg = _show  # type: ignore[attr-defined]


def _bytes(array: Any) -> bytes:
    """The elements in C order; one NaN is as good as another."""
    flat = np.array(array, order="C", copy=True)
    if flat.dtype.kind in "fc":
        with np.errstate(all="ignore"):
            flat = np.where(flat != flat, flat.dtype.type(np.nan), flat)
    return flat.tobytes()


class Prediction:
    """The state at a region's exit, described without holding on to any object of the program's but its targets."""

    def __init__(self, record: dict[str, Any], before: list[Any]) -> None:
        _count_warnings(1)
        self.code: CodeType = record["code"]
        self.globals: dict[str, Any] = record["globals"]
        self.lines = record["first_line"], record["last_line"]
        self.key: int = record["frame"]
        self._existing: set[int] = set(record["existing"]) | {id(value) for value in before}
        self._kept: set[int] = set()  # of these, what is there at the exit: the ids of others may be given anew
        self._numbers: dict[int, int] = {}  # fresh objects in the order of their description
        self._fresh: dict[int, Any] = {}  # what each is
        self._found: dict[int, int] = {}  # and the real one
        after = list(before)
        for slot, value in record["locals"]:
            after[slot] = value
        self._locals = (
            [] if record["returns"] else [self._describe(value) for value in after]
        )  # they die with the frame
        self._stack = [self._describe(value) for value in record["stack"]]
        self._arrays = [(array, _bytes(array)) for array in record["written"]]
        self._effects: dict[tuple[Any, ...], tuple[str, Any, Any, Any]] = {}
        for kind, target, key, value, items in record["effects"]:
            self._effect(_KINDS[kind], target, key, value, items)
        self._warned = _warned

    def __del__(self) -> None:
        _count_warnings(-1)

    # What an object is, as plain data.
    def _describe(self, value: Any) -> Any:
        kind = type(value)
        if value is UNBOUND:
            return ("unbound",)
        if kind in _PLAIN:
            return ("plain", kind, repr(value))
        if isinstance(value, np.generic):
            return ("scalar", kind, _bytes(value))
        if kind is tuple:
            return ("tuple", [self._describe(item) for item in value])
        if id(value) in self._existing:
            self._kept.add(id(value))
            return ("same", id(value), kind)
        if kind in (BuiltinMethodType, MethodType):
            return ("bound", self._describe(value.__self__), value.__name__)
        if id(value) not in self._numbers:
            number = self._numbers[id(value)] = len(self._numbers)
            self._fresh[number] = self._describe_fresh(number, value)
        return ("object", self._numbers[id(value)])

    def _describe_fresh(self, number: int, value: Any) -> Any:
        kind = type(value)
        if kind is np.ndarray:
            base = None if value.base is None else id(value.base) if id(value.base) in self._existing else "fresh"
            flags = value.flags.writeable, value.flags.owndata
            return ("array", number, value.dtype, value.shape, value.strides, flags, base, _bytes(value))
        if kind is list:
            return ("list", number, [self._describe(item) for item in value])
        if kind is dict:
            return ("dict", number, [(self._describe(k), self._describe(v)) for k, v in value.items()])
        return ("fresh", number, kind)

    def _effect(self, kind: str, target: Any, key: Any, value: Any, items: list[Any]) -> None:
        if type(target) is list:
            known = self._effects.get(("list", id(target)))
            contents = known[3] if known else [self._as_it_is(item) for item in target]
            if kind == "item":
                contents[key] = self._describe(value)
            else:
                contents = (contents if kind == "extend" else []) + [self._describe(item) for item in items]
            self._effects["list", id(target)] = ("list", target, None, contents)
        elif type(target) is set:
            known = self._effects.get(("set", id(target)))
            elements = known[3] if known else set(target)
            change = (elements.add, elements.update, elements.discard, lambda _: elements.clear())[key]
            change(value)
            self._effects["set", id(target)] = ("set", target, None, elements)
        else:
            self._effects[kind, id(target), repr(key)] = (kind, target, key, self._describe(value))

    def _as_it_is(self, value: Any) -> Any:
        self._existing.add(id(value))
        return self._describe(value)

    # How reality differs from it.
    def differences(self, after: list[Any], stack: list[Any]) -> list[str]:
        """One line for each difference."""
        found: list[str] = []
        self._found.clear()
        names = (*self.code.co_varnames, *(n for n in self.code.co_cellvars if n not in self.code.co_varnames))
        names += self.code.co_freevars
        for name, expected, value in zip(names, self._locals, after, strict=False):
            self._compare(expected, value, f"variable {name!r}", found)
        if len(stack) != len(self._stack):
            found.append(f"stack: {len(self._stack)} values predicted, {len(stack)} found")
        self._compare_stack(stack, found)
        for array, expected in self._arrays:
            if _bytes(array) != expected:
                found.append(f"array written in place: other elements than predicted: {array!r}")
        for kind, target, key, expected in self._effects.values():
            self._compare_effect(kind, target, key, expected, found)
        if _warned != self._warned:
            found.append(f"warnings: none predicted, {_warned - self._warned} given")
        return found

    def _compare_stack(self, stack: list[Any], found: list[str]) -> None:
        i = 0
        while i < min(len(stack), len(self._stack)):
            expected, above = self._stack[i], self._stack[i + 1] if i + 1 < len(self._stack) else ("nothing",)
            if expected == ("unbound",) and above[0] == "bound" and stack[i] is not UNBOUND:
                # LOAD_METHOD left the function and self, where a region leaves NULL and the bound method.
                if getattr(stack[i], "__name__", None) != above[2]:
                    found.append(f"stack[{i}]: predicted the method {above[2]!r}, found {stack[i]!r}")
                self._compare(above[1], stack[i + 1], f"stack[{i + 1}]", found)
                i += 2
                continue
            self._compare(expected, stack[i], f"stack[{i}]", found)
            i += 1

    def _compare_effect(self, kind: str, target: Any, key: Any, expected: Any, found: list[str]) -> None:
        where = f"{kind} {'' if key is None else repr(key) + ' '}of a {type(target).__name__}"
        if kind == "list":
            self._compare_all(expected, list(target), where, found)
        elif kind == "set":
            if target != expected:
                found.append(f"{where}: predicted {expected!r}, found {target!r}")
        elif kind == "cell":
            self._compare(expected, _contents(target), where, found)
        elif kind == "attribute":
            self._compare(expected, target.__dict__.get(key, UNBOUND), where, found)
        elif isinstance(target, dict):
            self._compare(expected, target.get(key, UNBOUND), where, found)
        else:
            self._compare(expected, target[key], where, found)

    def _compare(self, expected: Any, value: Any, where: str, found: list[str]) -> None:
        def differs(what: str) -> None:
            found.append(f"{where}: {what}, found {value!r} of type {type(value).__name__}")

        kind = expected[0]
        if kind == "unbound":
            if value is not UNBOUND:
                differs("predicted to be unbound")
        elif kind == "same":
            if id(value) != expected[1]:
                differs(f"predicted the {expected[2].__name__} that was there before")
        elif kind == "object" and expected[1] in self._found:
            if self._found[expected[1]] != id(value):
                differs("predicted an object that is elsewhere too")
        elif kind == "plain":
            if type(value) is not expected[1] or repr(value) != expected[2]:
                differs(f"predicted {expected[2]}")
        elif kind == "scalar":
            if type(value) is not expected[1] or _bytes(value) != expected[2]:
                differs(f"predicted {np.frombuffer(expected[2], expected[1])}")
        elif kind == "bound":
            if getattr(value, "__name__", None) != expected[2]:
                differs(f"predicted the method {expected[2]!r}")
            else:
                self._compare(expected[1], value.__self__, f"self of {where}", found)
        elif kind == "tuple":
            if type(value) is not tuple:
                differs("predicted a tuple")
            else:
                self._compare_all(expected[1], value, where, found)
        else:
            self._compare_fresh(self._fresh[expected[1]], value, where, found, differs)

    def _compare_fresh(self, expected: Any, value: Any, where: str, found: list[str], differs: Any) -> None:
        kind = expected[0]
        wanted = {"array": np.ndarray, "list": list, "dict": dict}.get(kind, expected[2])
        if type(value) is not wanted:
            return differs(f"predicted a new {wanted.__name__}")
        if id(value) in self._kept:
            return differs("predicted a new object")
        self._found[expected[1]] = id(value)
        if kind == "list":
            self._compare_all(expected[2], value, where, found)
        elif kind == "dict":
            self._compare_pairs(expected[2], value, where, found)
        elif kind == "array":
            dtype, shape, strides, flags, base, data = expected[2:]
            if (value.dtype, value.shape, value.strides) != (dtype, shape, strides):
                differs(f"predicted {dtype}{list(shape)} with strides {strides}")
            elif (value.flags.writeable, value.flags.owndata) != flags or (value.base is None) != (base is None):
                differs(f"predicted writeable, owndata = {flags}")
            elif isinstance(base, int) and id(value.base) != base:
                differs("predicted a view of another array")
            elif _bytes(value) != data:
                differs(f"predicted {np.frombuffer(data, dtype).reshape(shape)!r}")
        return None

    def _compare_all(self, expected: list[Any], values: Any, where: str, found: list[str]) -> None:
        if len(values) != len(expected):
            found.append(f"{where}: {len(expected)} items predicted, {len(values)} found")
        for i, (one, value) in enumerate(zip(expected, values, strict=False)):
            self._compare(one, value, f"{where}[{i}]", found)

    def _compare_pairs(self, expected: list[Any], values: dict[Any, Any], where: str, found: list[str]) -> None:
        keys, items = [pair[0] for pair in expected], [pair[1] for pair in expected]
        self._compare_all(keys, list(values), f"keys of {where}", found)
        self._compare_all(items, list(values.values()), where, found)


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return UNBOUND


def begin(key: int, code: CodeType, arguments: list[Any]) -> None:
    """A frame starts: keep its arguments for a reproducer."""
    count = code.co_argcount + code.co_kwonlyargcount
    _begun[key] = {name: _pickled(value) for name, value in zip(code.co_varnames[:count], arguments, strict=False)}
    _begun.move_to_end(key)
    while len(_begun) > 64:
        _begun.popitem(last=False)


def _pickled(value: Any) -> bytes | None:
    try:
        return pickle.dumps(value)
    except Exception:
        return None


def check(prediction: Prediction, after: list[Any], stack: list[Any]) -> str:
    """Compare; where it differs, print a reproducer, or write it to ``config.repro_dir``, and say what differs."""
    found = prediction.differences(after, stack)
    if not found:
        return ""
    text = _reproducer(prediction, found)
    if config.repro_dir:
        folder = Path(config.repro_dir)
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{prediction.code.co_name.strip('<>')}_{prediction.lines[0]}.py"
        (folder / name).write_text(text, encoding="utf-8")
    else:
        sys.stderr.write(text)
    return "; ".join(found)


def _reproducer(prediction: Prediction, found: list[str]) -> str:
    code = prediction.code
    first, last = prediction.lines
    lines = [
        f"# framejit predicted lines {first} to {last} of {code.co_qualname}() otherwise than the interpreter ran them:"
    ]
    lines += [f"#   {line}" for text in found for line in text.splitlines()]
    lines += ["import base64, pickle", "import numpy", "import framejit", ""]
    done: set[str] = set()
    lines += _definitions(code, prediction.globals, done)
    arguments = _begun.get(prediction.key, {})
    rows = [f"    {name!r}: {_loads(data)}," for name, data in arguments.items() if data is not None]
    rows += [f"    # {name!r} cannot be pickled" for name, data in arguments.items() if data is None]
    lines += ["", "arguments = {", *rows, "}", f"with framejit.mark({code.co_name}, stress='verify'):"]
    lines += ["    for _ in range(3):", f"        {code.co_name}(**arguments)", ""]
    return "\n".join(lines)


def _loads(data: bytes) -> str:
    return f"pickle.loads(base64.b64decode({base64.b64encode(data).decode()!r}))"


def _definitions(code: CodeType, namespace: dict[str, Any], done: set[str]) -> list[str]:
    """The source of a function after the globals that it names."""
    lines: list[str] = []
    for name in code.co_names:
        if name in done or name not in namespace:
            continue
        done.add(name)
        value = namespace[name]
        if isinstance(value, ModuleType):
            lines.append(
                f"import {value.__name__} as {name}"
                if "." in value.__name__ or value.__name__ != name
                else f"import {name}"
            )
        elif isinstance(value, FunctionType) and value.__globals__ is namespace:
            lines += _definitions(value.__code__, namespace, done)
        elif (data := _pickled(value)) is not None:
            lines.append(f"{name} = {_loads(data)}")
        else:
            lines.append(f"# {name} = {value!r}, which cannot be pickled")
    try:
        lines += ["", textwrap.dedent(inspect.getsource(code)).rstrip()]
    except (OSError, TypeError):
        lines.append(f"# there is no source of {code.co_name}")
    return lines
