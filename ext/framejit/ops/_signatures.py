"""The errors of calls that fit none of the forms that MindSpore's methods and functions have.

Nothing is checked before a method or function runs. If it raises, its arguments are compared with its forms in `_signature_table`. If they fit
none, the error is a TypeError that says why, in MindSpore's words.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from framejit._api._dtypes import DType
from framejit._core import Explained, Tensor
from framejit.ops import _signature_table

# The names of types in errors about one argument, where they are not the types' own.
_SAID = {"number": "Number", "str": "string", "any": "Any"}
_SEQUENCES: dict[type, str] = {tuple: "tuple", list: "list"}


class _Form(NamedTuple):
    """One way to call a function: its text, and each parameter's types. Of the parameters, the first `positional` may be given by position."""

    text: str
    parameters: dict[str, list[str]]
    positional: int


class _Failure(NamedTuple):
    """Why a call does not fit a form, and at which argument."""

    text: str
    at: int = 0
    is_name: bool = False  # a keyword argument has a name that the form has not


class _Call(NamedTuple):
    """A call that failed, and of its function how few arguments it takes, and whether these may be the elements of a tuple."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    least: int
    takes_elements: bool

    @property
    def given(self) -> int:
        return len(self.args) + len(self.kwargs)


def _form(text: str) -> _Form:
    parameters: dict[str, list[str]] = {}
    positional = -1
    for part in filter(None, text[1:-1].split(", ")):
        name, _, types = part.partition("=")
        if name == "*":
            positional = len(parameters)
        else:
            parameters[name] = types[1:-1].split(",")
    return _Form(text, parameters, len(parameters) if positional < 0 else positional)


@functools.cache
def _forms(table: str) -> dict[str, list[_Form]]:
    """By name the forms of a table."""
    found = {}
    for line in table.splitlines():
        names, _, forms = line.partition(": ")
        found.update(dict.fromkeys(names.split(), [_form(text) for text in forms.split("; ")]))
    return found


# --- Types -----------------------------------------------------------------------------------------------------------------


def _types_of(value: Any) -> set[str]:
    """The types of parameters that take the value."""
    if isinstance(value, (Tensor, np.ndarray)):
        return {"Tensor", "any"}
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (bool, int, float)):
        return {type(value).__name__, "number", "any"}
    known: dict[type, str] = {
        type(None): "None",
        str: "str",
        tuple: "Tuple",
        list: "List",
        DType: "mstype",
        type: "mstype",
    }
    return {"any", *(name for kind, name in known.items() if isinstance(value, kind))}


def _described(value: Any) -> str:
    """The type of an argument, with those of the elements of a tuple or list."""
    if type(value) in _SEQUENCES:
        return f"{_SEQUENCES[type(value)]}<{', '.join(map(_described, value))}>"
    if isinstance(value, Tensor):
        return "Tensor"
    if isinstance(value, DType):
        return "mstype"
    names = {bool: "bool", int: "int", float: "float", str: "string", type(None): "None"}
    return names.get(type(value), str(type(value)))


def _short(value: Any) -> str:
    """The type of an argument, without those of elements."""
    return f"{_SEQUENCES[type(value)]} of Any" if type(value) in _SEQUENCES else _described(value)


def _expected(types: list[str]) -> str:
    """The type that a parameter has in the first place; values of the others are converted."""
    if "Tuple" in types:
        return "tuple of int"
    order = (
        ["int", "Tensor"]
        if {"int", "Tensor"} <= {*types}
        else ["Tensor", "float", "number", "mstype", "int", "bool", "str", "any"]
    )
    found = next(name for name in order if name in types)
    return _SAID.get(found, found)


# --- Matching --------------------------------------------------------------------------------------------------------------


def _failure(call: _Call, form: _Form) -> _Failure | None:
    """Why the call does not fit the form; None if it fits."""
    name, names = call.name, list(form.parameters)
    varied = _is_varied(call, form)
    if len(call.args) > form.positional and not varied:
        was = "was" if call.given == 1 else "were"
        return _Failure(f"{name}() takes {form.positional} positional arguments but {call.given} {was} given.")
    missing = min(call.least, form.positional) - call.given
    if missing > 0:
        return _Failure(f"{name}() missing {missing} required argument")
    for key in sorted(call.kwargs):
        if key not in form.parameters:
            return _Failure(f"{name}(): match failed because incorrect keyword name: {key}", is_name=True)
        if names.index(key) < len(call.args):
            return _Failure(f"{name}() got multiple values for argument '{key}'.")
        types = form.parameters[key]
        if _types_of(call.kwargs[key]).isdisjoint(types):
            return _Failure(f"{name}(): argument '{key}' must be {_expected(types)} but got {_short(call.kwargs[key])}")
    elements = varied and (len(call.args) > 1 or _types_of(call.args[0]).isdisjoint(form.parameters[names[0]]))
    for at, value in enumerate(call.args):
        parameter = names[0 if elements else at]
        if _types_of(value).isdisjoint(["int"] if elements else form.parameters[parameter]):
            must = f"must be {_expected(form.parameters[parameter])}, not {_short(value)}."
            return _Failure(f"{name}(): argument '{parameter}' (position {at + 1}) {must}", at)
    return None


def _is_varied(call: _Call, form: _Form) -> bool:
    """Whether the arguments may be the elements of the form's only parameter."""
    return (
        call.takes_elements
        and bool(call.args)
        and len(form.parameters) == 1
        and "Tuple" in next(iter(form.parameters.values()))
    )


def _explanation(call: _Call, forms: list[_Form], owner: str) -> str:
    """Why the call fits no form; empty if it fits one."""
    failures = []
    for form in forms:
        failure = _failure(call, form)
        if failure is None:
            return ""
        failures.append(failure)
    sized = [
        at
        for at, form in enumerate(forms)
        if _is_varied(call, form) or form.positional <= call.given <= len(form.parameters)
    ]
    if len(forms) == 1 or len(sized) == 1:
        return failures[sized[0] if sized else 0].text
    given = [*map(_described, call.args), *(f"{key}={_described(value)}" for key, value in call.kwargs.items())]
    lines = [f'Failed calling {call.name} with "{call.name}({", ".join(given)})".', "The valid calling should be:"]
    by_name = any(failure.is_name for failure in failures)
    for at, form in enumerate(forms):
        told = f'"{owner}{call.name}{form.text}"'
        if told in lines:
            continue
        lines.append(told)
        if at in sized and by_name:
            lines.append("\t" + failures[at].text)
        elif at in sized:
            start = "    match failed because invalid types: ("
            skipped = sum(len(one) + 2 for one in given[: failures[at].at])
            lines.append(f"{start}{', '.join(given)})")
            lines.append(" " * (len(start) + skipped) + "~" * sum(len(one) + 2 for one in given[failures[at].at :]))
    return "\n".join(lines)


def _explained(
    name: str, owner: str, function: Callable[..., Any], error: Exception, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Exception | None:
    """The error to raise instead of one that a call raised; None if the arguments are not at fault."""
    if owner and not (args and isinstance(args[0], Tensor)):
        of = type(args[0]).__name__ if args else "nothing"
        better = TypeError(f"descriptor '{name}' for 'TensorPy' objects doesn't apply to a '{of}' object")
    else:
        forms = _forms(_signature_table.METHODS if owner else _signature_table.FUNCTIONS)[name]
        parameters = list(inspect.signature(function).parameters.values())[1 if owner else 0 :]
        least = sum(one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD for one in parameters)
        takes_elements = any(one.kind is one.VAR_POSITIONAL for one in parameters)
        text = _explanation(_Call(name, args[1:] if owner else args, kwargs, least, takes_elements), forms, owner)
        if not text:
            return None
        better = TypeError(text)
    better.__cause__ = error
    return better


def _explained_function(function: FunctionType, name: str, owner: str, module: str) -> Explained:
    return Explained(function, functools.partial(_explained, name, owner), module, owner + name)


def explained_functions(namespace: dict[str, Any]) -> dict[str, Explained]:
    """The functions of a module that have forms in the table, with the errors of MindSpore's."""
    found = {name: namespace.get(name) for name in _forms(_signature_table.FUNCTIONS)}
    module = namespace["__name__"]
    return {name: _explained_function(one, name, "", module) for name, one in found.items() if inspect.isfunction(one)}


def _install() -> None:
    for name in _forms(_signature_table.METHODS):
        function = Tensor.__dict__.get(name)
        if inspect.isfunction(function):
            setattr(Tensor, name, _explained_function(function, name, "Tensor.", "framejit"))


_install()
