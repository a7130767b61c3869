"""Graphs in files: ``export`` and ``load``.

A file (`_files`) has the graph's text, what it is given and gives back, the calls of NumPy's functions in it by name, and the bytes of the
Parameters and other arrays that the function used. Nothing in it is executed but the graph; of NumPy's functions those are called that
capture knows to be pure.
"""

from __future__ import annotations

import importlib
import operator
import re
from pathlib import Path
from types import FunctionType, MethodDescriptorType
from typing import Any

import numpy as np

from framejit import _core
from framejit._api._dtypes import ALL, DType
from framejit._api._jit import check_settings, is_compiled, make_function
from framejit._autodiff._primitives import assign
from framejit._files import _files
from framejit._tensors._parameter import Parameter
from framejit._tensors._tensor import Tensor
from framejit._traced import _library_functions, _library_gradients

_VERSION = 1
_SUFFIX = ".mindir"
_O0 = check_settings(capture_mode="ast", jit_level="O0", dynamic=False, fullgraph=False, backend="", options={})
_FUNCTIONS = "framejit._host"  # what files call the module, wherever it is
_FORMER_CALL = re.compile(r"^( *%\S+ = )host_call ", re.MULTILINE)  # what older files call the operator library_call
_BASIC: list[type] = [bool, int, float, complex, *np.sctypeDict.values()]
_TYPES = {f"{one.__module__}.{one.__name__}": one for one in _BASIC}


# --- Values that JSON does not have ----------------------------------------------------------------------------------------


def _encode(value: Any) -> Any:
    """A plain constant for JSON."""
    if value is None or type(value) in (bool, int, float, str):
        return ["value", value]
    if type(value) is tuple:
        return ["tuple", *map(_encode, value)]
    if value is Ellipsis:
        return ["ellipsis"]
    if isinstance(value, np.dtype) and value.isbuiltin == 1:
        return ["dtype", value.str]
    if isinstance(value, np.generic) and value.dtype.isbuiltin == 1:
        return ["scalar", value.dtype.str, value.tobytes().hex()]
    if isinstance(value, DType):
        return ["Tensor dtype", value.name]
    name = f"{value.__module__}.{value.__name__}" if isinstance(value, type) else ""
    if _TYPES.get(name) is value:
        return ["type", name]
    raise ValueError(f"For 'export', a file cannot hold {value!r} of type {type(value).__name__}.")


def _decode(record: Any) -> Any:
    kind, *rest = record
    if kind == "value":
        return rest[0]
    if kind == "tuple":
        return tuple(map(_decode, rest))
    if kind == "ellipsis":
        return ...
    if kind == "dtype":
        return np.dtype(rest[0])
    if kind == "scalar":
        return np.frombuffer(bytes.fromhex(rest[1]), np.dtype(rest[0]))[0]
    if kind == "Tensor dtype":
        return ALL[rest[0]]
    if kind == "type":
        return _TYPES[rest[0]]
    raise ValueError(f"a constant of the kind {kind!r}")


def _encode_function(function: Any) -> list[str]:
    if isinstance(function, MethodDescriptorType):
        return ["numpy.ndarray", function.__name__]
    if "<locals>" in getattr(function, "__qualname__", ""):
        raise ValueError("For 'export', a file cannot hold a call that writes into one of its arguments.")
    module = "numpy" if isinstance(function, np.ufunc) else function.__module__
    module = _FUNCTIONS if module == _library_functions.__name__ else module
    return ["operator" if function is getattr(operator, function.__name__, None) else module, function.__name__]


def _decode_function(record: list[str]) -> Any:
    home, name = record
    if home == "numpy.ndarray":
        return getattr(np.ndarray, name)
    if home == _FUNCTIONS:
        return getattr(_library_functions, name)
    if home == _library_gradients.__name__:
        function = getattr(_library_gradients, name)
        if not name.startswith("_") and isinstance(function, FunctionType) and function.__module__ == home:
            return function
    if home.partition(".")[0] not in ("numpy", "operator", "builtins"):
        raise ValueError(f"a call of {home}.{name}")
    return getattr(importlib.import_module(home), name)


def _encode_piece(piece: tuple[Any, ...]) -> list[Any]:
    kind, *rest = piece
    if kind == "known":
        return [kind, _encode(rest[0])]
    return [kind, *rest] if kind == "operand" else [kind, *map(_encode_piece, rest)]


def _decode_piece(record: list[Any]) -> tuple[Any, ...]:
    kind, *rest = record
    if kind == "known":
        return (kind, _decode(rest[0]))
    return (kind, *rest) if kind == "operand" else (kind, *map(_decode_piece, rest))


def _encode_call(call: dict[str, Any]) -> dict[str, Any]:
    """A library call, as `_core._library_call` gives it."""
    return {
        **call,
        "callable": None if call["callable"] is None else _encode_function(call["callable"]),
        "args": [_encode_piece(piece) for piece in call["args"]],
        "keywords": {name: _encode_piece(piece) for name, piece in call["keywords"].items()},
        "sequence": None if call["sequence"] is None else [call["sequence"].__module__, call["sequence"].__name__],
    }


def _decode_calls(records: dict[str, Any]) -> dict[int, int]:
    """The indices that the calls have in this process."""
    indices: dict[int, int] = {}
    for index, record in sorted((int(key), record) for key, record in records.items()):
        call = {
            **record,
            "callable": None if record["callable"] is None else _decode_function(record["callable"]),
            "args": tuple(_decode_piece(piece) for piece in record["args"]),
            "keywords": {name: _decode_piece(piece) for name, piece in record["keywords"].items()},
            "sequence": None if record["sequence"] is None else _decode_function(record["sequence"]),
            "first": None if record["first"] is None else indices[record["first"]],
        }
        indices[index] = _core._library_call_index(call)
    return indices


# --- Inputs and results -----------------------------------------------------------------------------------------------------


def _spec_of(value: Any) -> tuple[Any, ...]:
    """What an input is: ("Tensor", dtype, shape), ("array", dtype, shape), ("tuple", specs), ("list", specs), ("dict", keys, specs) or
    ("value", object).
    """
    if isinstance(value, Tensor):
        return "Tensor", value.dtype, value.shape
    if type(value) is np.ndarray:
        return "array", value.dtype, value.shape
    if type(value) in (tuple, list):
        return type(value).__name__, tuple(map(_spec_of, value))
    if type(value) is dict:
        _encode(tuple(value))
        return "dict", tuple(value), tuple(map(_spec_of, value.values()))
    _encode(value)
    return "value", value


def _encode_spec(spec: tuple[Any, ...]) -> list[Any]:
    kind, *rest = spec
    if kind in ("Tensor", "array"):
        return [kind, _encode(rest[0]), list(rest[1])]
    if kind == "value":
        return [kind, _encode(rest[0])]
    return [kind, *(_encode(keys) for keys in rest[:-1]), [_encode_spec(one) for one in rest[-1]]]


def _decode_spec(record: list[Any]) -> tuple[Any, ...]:
    kind, *rest = record
    if kind in ("Tensor", "array"):
        return kind, _decode(rest[0]), tuple(rest[1])
    if kind == "value":
        return kind, _decode(rest[0])
    return kind, *map(_decode, rest[:-1]), tuple(_decode_spec(one) for one in rest[-1])


def _copied(value: Any) -> Any:
    """The input with arrays that nothing else refers to, in C order."""
    if isinstance(value, Tensor):
        return Tensor(value.asnumpy())
    if type(value) is np.ndarray:
        return np.array(value, order="C")
    if type(value) in (tuple, list):
        return type(value)(map(_copied, value))
    return {key: _copied(item) for key, item in value.items()} if type(value) is dict else value


def _arrays(value: Any) -> list[Any]:
    """The arrays of an input, in the order in which `_flatten` finds them."""
    if isinstance(value, (Tensor, np.ndarray)):
        return [value]
    if type(value) in (tuple, list):
        return [array for item in value for array in _arrays(item)]
    return [array for item in value.values() for array in _arrays(item)] if type(value) is dict else []


def _flatten(spec: tuple[Any, ...], value: Any, where: str, out: list[Any]) -> None:
    """Appends the arrays of an input that is as the spec says."""
    kind = spec[0]
    if kind == "Tensor" or kind == "array":
        if not isinstance(value, Tensor if kind == "Tensor" else np.ndarray) or value.dtype != spec[1]:
            raise _wrong(TypeError, spec, value, where)
        if value.shape != spec[2]:
            raise _wrong(ValueError, spec, value, where)
        out.append(value)
    elif kind == "value":
        if type(value) is not type(spec[1]):
            raise _wrong(TypeError, spec, value, where)
        if value != spec[1] and not (value != value and spec[1] != spec[1]):  # NaN is as it was
            raise _wrong(ValueError, spec, value, where)
    elif kind == "dict":
        if type(value) is not dict:
            raise _wrong(TypeError, spec, value, where)
        if tuple(value) != spec[1]:
            raise _wrong(ValueError, spec, value, where)
        for i, key in enumerate(spec[1]):
            _flatten(spec[2][i], value[key], f"{where}[{key!r}]", out)
    else:
        if type(value) is not (tuple if kind == "tuple" else list):
            raise _wrong(TypeError, spec, value, where)
        if len(value) != len(spec[1]):
            raise _wrong(ValueError, spec, value, where)
        for i, item in enumerate(value):
            _flatten(spec[1][i], item, f"{where}[{i}]", out)


def _described(spec: tuple[Any, ...]) -> str:
    kind = spec[0]
    if kind in ("Tensor", "array"):
        name = getattr(spec[1], "name", str(spec[1]))
        return f"{'a Tensor' if kind == 'Tensor' else 'an array'} of {name} with the shape {spec[2]}"
    if kind == "value":
        return f"{spec[1]!r} of type {type(spec[1]).__name__}"
    return f"a dict with the keys {list(spec[1])}" if kind == "dict" else f"a {kind} of {len(spec[1])}"


def _wrong(error: type[Exception], spec: tuple[Any, ...], value: Any, where: str) -> Exception:
    found = _spec_of(value) if isinstance(value, (Tensor, np.ndarray, tuple, list, dict)) else ("value", value)
    return error(
        f"For a loaded graph, {where} must be {_described(spec)}, as it was exported, but got {_described(found)}."
    )


_TEXTS: dict[str, Any] = {"format": format, "str": str, "repr": repr, "ascii": ascii, "join": "".join}


def _result(tree: tuple[Any, ...], results: Any, inputs: Any, constants: Any) -> Any:
    """What the function gives back."""
    kind = tree[0]
    if kind == "result":
        return results[tree[1]]
    if kind == "input":
        return inputs[tree[1]]
    if kind == "constant":
        return constants[tree[1]]
    if kind == "value":
        return tree[1]
    items = []
    for item in tree[1]:
        items.append(_result(item, results, inputs, constants))
    if kind == "tuple":
        return tuple(items)
    if kind == "text":
        return _TEXTS[items[0]](*items[1:])
    if kind == "choice":
        for i in range(len(items) - 2):
            if items[0] == i:
                return items[i + 1]
        return items[-1]
    if kind == "list":
        return items
    found = {}
    for i in range(0, len(items), 2):
        found[items[i]] = items[i + 1]
    return found


def _encode_tree(tree: tuple[Any, ...], index_of: Any) -> list[Any]:
    kind, *rest = tree
    if kind == "value":
        return [kind, _encode(rest[0])]
    if kind == "fetch":
        known = isinstance(rest[0], (Tensor, np.ndarray))
        return list(index_of(rest[0], "the result")) if known else ["value", _encode(rest[0])]
    return [kind, *rest] if kind == "result" else [kind, [_encode_tree(item, index_of) for item in rest]]


def _decode_tree(record: list[Any]) -> tuple[Any, ...]:
    kind, *rest = record
    if kind == "value":
        return kind, _decode(rest[0])
    return (
        (kind, tuple(map(_decode_tree, rest[0])))
        if kind in ("tuple", "list", "dict", "choice", "text")
        else (kind, rest[0])
    )


# --- Constants --------------------------------------------------------------------------------------------------------------


class _Constants:
    """Arrays that are not inputs, as they are written into the file."""

    def __init__(self, inputs: list[Any]) -> None:
        self.inputs = inputs
        self.objects: list[Any] = []
        self.rows: list[dict[str, Any]] = []
        self.data: list[bytes] = []

    def index_of(self, value: Any, source: str) -> tuple[str, int]:
        """("input", number) or ("constant", number)."""
        for kind, known in (("input", self.inputs), ("constant", self.objects)):
            for number, one in enumerate(known):
                if one is value:
                    return kind, number
        array = value.asnumpy() if isinstance(value, Tensor) else np.asarray(value)
        row = {
            "name": source,
            "kind": "array",
            "dtype": _encode(array.dtype),
            "shape": array.shape,
            "strides": array.strides,
        }
        if isinstance(value, Tensor):
            row["kind"] = "Tensor"
        if isinstance(value, Parameter):
            row |= {"kind": "Parameter", "name": value.name, "requires_grad": value.requires_grad}
            if any(row["name"] == other["name"] for other in self.rows if other["kind"] == "Parameter"):
                raise ValueError(f"For 'export', two Parameters have the name {value.name!r}.")
        at = sum(map(len, self.data))
        self.data.append(array.tobytes())
        self.objects.append(value)
        self.rows.append({**row, "data_offsets": [at, at + array.nbytes]})
        return "constant", len(self.objects) - 1


def _with_strides(row: dict[str, Any], data: memoryview) -> np.ndarray:
    """The array of a row, its elements where they lay."""
    start, stop = row["data_offsets"]
    dtype, shape, strides = _decode(row["dtype"]), tuple(row["shape"]), tuple(row["strides"])
    if not 0 <= start <= stop <= len(data):
        raise ValueError(f"the place of {row['name']!r}")
    packed = np.frombuffer(data[start:stop], dtype).reshape(shape)
    if packed.size == 0 or strides == packed.strides:
        return packed.copy()
    reach = [step * (length - 1) for step, length in zip(strides, shape, strict=True)]
    low, high = sum(min(step, 0) for step in reach), sum(max(step, 0) for step in reach)
    if high - low > 1 << 40:
        raise ValueError(f"the strides of {row['name']!r}")
    array = np.ndarray(shape, dtype, np.zeros(high - low + dtype.itemsize, np.uint8), -low, strides)
    array[...] = packed
    return array


def _constant(row: dict[str, Any], data: memoryview) -> Any:
    array = _with_strides(row, data)
    if row["kind"] == "Parameter":
        return Parameter(Tensor(array), name=row["name"], requires_grad=row["requires_grad"])
    return Tensor(array) if row["kind"] == "Tensor" else array


# --- export -----------------------------------------------------------------------------------------------------------------


def _path(file_name: Any, name: str) -> Path:
    if not isinstance(file_name, (str, Path)) or not str(file_name):
        raise TypeError(
            f"For '{name}', the 'file_name' must be str or Path, but got {file_name!r} of type {type(file_name).__name__}."
        )
    return Path(file_name)


def export(net: Any, *inputs: Any, file_name: Any, file_format: str = "MINDIR") -> None:
    """Write what a network or function computes into a file, from which `load` makes it again without its code.

    The function is captured for inputs like these, and nothing is run. Values that are not inputs are stored in the file as they are now: Parameters, arrays, and the
    values of all else. What it prints, the loaded graph prints too, when all its work is done. What it writes into Parameters,
    the loaded graph writes into its own.

    Parameters
    ----------
    net : Cell or callable
        It must be one graph.
    *inputs : Tensor, numpy.ndarray, number, str, None, tuple, list or dict
        What it is called with. The loaded graph takes arrays of these dtypes and shapes, instead of all else the same values.
    file_name : str or Path
        ``.mindir`` is appended where it does not end so.
    file_format : {'MINDIR'}
        As in MindSpore; the file is framejit's own.

    Raises
    ------
    GraphBreakError
        If the function is not one graph; it names the break.
    ValueError
        If it changes an object, writes into an array that is no stored Parameter, calls a `custom_op`, or gives back what a file cannot hold.

    Examples
    --------
    >>> import framejit as fj
    >>> net = fj.nn.SequentialCell(fj.nn.Dense(3, 4), fj.nn.ReLU())
    >>> x = fj.Tensor([[1.0, 2.0, 3.0]])
    >>> fj.export(net, x, file_name="net", file_format="MINDIR")
    >>> again = fj.nn.GraphCell(fj.load("net.mindir"))
    >>> bool((again(x) == net(x)).all())
    True
    """
    path = _path(file_name, "export")
    if path.suffix != _SUFFIX:
        path = path.with_name(path.name + _SUFFIX)
    if file_format != "MINDIR":
        raise ValueError(f"For 'export', the 'file_format' must be 'MINDIR', but got {file_format!r}.")
    if not callable(net):
        raise TypeError(f"For 'export', the 'net' must be a Cell or a callable, but got {type(net).__name__}.")
    given = _copied(inputs)
    specs = tuple(map(_spec_of, given))

    def exported(*args: Any) -> Any:
        return net(*args)

    exported.__name__ = exported.__qualname__ = getattr(net, "__name__", type(net).__name__)
    function = make_function(exported, {**_O0, "fullgraph": True})
    if not is_compiled(function) or not hasattr(function, "_export"):
        raise RuntimeError("For 'export', compilation must not be switched off.")
    found = function._export(*given)
    constants = _Constants(_arrays(given))
    writes = []
    for at, output in found["writes"]:
        value, source = found["inputs"][at]
        kind, number = constants.index_of(value, source)
        if kind == "input" or not isinstance(value, Parameter):
            raise ValueError(f"For 'export', the function writes into {source}, which a graph in a file cannot.")
        writes.append((number, output))
    header = {
        "name": exported.__name__,
        "graph": found["graph"],
        "inputs": [_encode_spec(spec) for spec in specs],
        "params": [constants.index_of(value, source) for value, source in found["inputs"]],
        "outputs": found["outputs"],
        "result": _encode_tree(found["result"], constants.index_of),
        "prints": [
            [[_encode_tree(arg, constants.index_of) for arg in args], list(names)] for args, names in found["prints"]
        ],
        "writes": writes,
        "calls": {str(index): _encode_call(call) for index, call in found["calls"].items()},
        "constants": constants.rows,
    }
    _files.write(path, _files.sealed("graph", _VERSION, _files.with_header(header, constants.data)))


# --- load -------------------------------------------------------------------------------------------------------------------


class LoadedGraph:
    """A graph from a file, as a function; what `load` gives.

    Attributes
    ----------
    name : str
        Of the function that was exported.
    inputs : tuple
        What it takes: ("Tensor", dtype, shape), ("array", dtype, shape) or, instead of all else, ("value", object), in ("tuple", ...),
        ("list", ...) and ("dict", keys, ...).
    constants : tuple
        The Parameters, Tensors and arrays that it uses.
    """

    def __init__(self, header: dict[str, Any], data: memoryview) -> None:
        outputs = tuple((result, wrap) for result, wrap in header["outputs"])
        self.name: str = str(header["name"])
        self.inputs: tuple[tuple[Any, ...], ...] = tuple(map(_decode_spec, header["inputs"]))
        self.constants: tuple[Any, ...] = tuple(_constant(row, data) for row in header["constants"])
        self._params = tuple((kind, number) for kind, number in header["params"])
        self._result = _decode_tree(header["result"])
        self._prints = tuple(
            (("tuple", tuple(map(_decode_tree, args))), tuple(map(str, names)))
            for args, names in header.get("prints", ())
        )
        self._writes = tuple((number, output) for number, output in header.get("writes", ()))
        text = _FORMER_CALL.sub(r"\1library_call ", header["graph"])
        self._graph = _core.LoadedGraph(text, outputs, _decode_calls(header["calls"]))
        self._check(len(outputs))
        run = FunctionType(_run.__code__, globals(), self.name, None, None)
        self._run = make_function(run, _O0)

    def _check(self, outputs: int) -> None:
        """What the header says of arrays is what the graph needs."""
        arrays: list[Any] = []

        def collect(spec: tuple[Any, ...]) -> None:
            if spec[0] in ("Tensor", "array"):
                dtype = np.dtype(_core._dtype(spec[1])) if spec[0] == "Tensor" else spec[1]
                arrays.append((dtype, spec[2]))
            elif spec[0] != "value":
                for one in spec[-1]:
                    collect(one)

        for spec in self.inputs:
            collect(spec)
        numbers = {"input": len(arrays), "constant": len(self.constants), "result": outputs}

        def refer(kind: str, number: int) -> None:
            if not 0 <= number < numbers[kind]:
                raise ValueError(f"{kind} {number}")

        def walk(tree: tuple[Any, ...]) -> None:
            if tree[0] in numbers:
                refer(*tree)
            elif tree[0] != "value":
                if tree[0] == "text" and (tree[1][0][0] != "value" or tree[1][0][1] not in _TEXTS):
                    raise ValueError(f"a text of {tree[1][0]}")
                for one in tree[1]:
                    walk(one)

        walk(self._result)
        for number, output in self._writes:
            refer("constant", number)
            refer("result", output)
        for args, names in self._prints:
            walk(args)
            if len(names) > len(args[1]) or not {"sep", "end", "flush"}.issuperset(names):
                raise ValueError(f"a call of print() with {names}")
        for (kind, number), (dtype, shape, strides) in zip(self._params, self._graph.params, strict=True):
            refer(kind, number)
            if kind == "input":
                fits = arrays[number] == (dtype, shape)
            else:
                array = self.constants[number]
                array = array.asnumpy() if isinstance(array, Tensor) else array
                fits = (array.dtype, array.shape) == (dtype, shape) and (array.size == 0 or array.strides == strides)
            if not fits:
                raise ValueError(f"a param of the graph is no {kind}")

    def __call__(self, *inputs: Any) -> Any:
        return self._run(self, inputs, self.constants)

    def __str__(self) -> str:
        """The text of the graph."""
        return str(self._graph)

    def __repr__(self) -> str:
        return f"<framejit graph {self.name}({', '.join(_described(spec) for spec in self.inputs)})>"


def _run(graph: LoadedGraph, inputs: tuple[Any, ...], constants: tuple[Any, ...]) -> Any:
    if len(inputs) != len(graph.inputs):
        raise TypeError(
            f"For a loaded graph, {len(graph.inputs)} inputs are needed, as it was exported, but got {len(inputs)}."
        )
    arrays: list[Any] = []
    for i, value in enumerate(inputs):
        _flatten(graph.inputs[i], value, f"input {i}", arrays)
    params = []
    for kind, number in graph._params:
        params.append(arrays[number] if kind == "input" else constants[number])
    results = graph._graph(*params)
    for number, output in graph._writes:
        assign(constants[number], results[output])
    for shown, names in graph._prints:
        args = _result(shown, results, arrays, constants)
        plain = len(args) - len(names)
        print(*args[:plain], **dict(zip(names, args[plain:], strict=True)))
    return _result(graph._result, results, arrays, constants)


def load(file_name: Any) -> LoadedGraph:
    """The graph in a file that `export` has written, as a function; for a network with its Parameters see `nn.GraphCell`.

    It is compiled at O0 by its first call, and gives the bits that the exported function gives.

    Parameters
    ----------
    file_name : str or Path
        As `export` has it.

    Raises
    ------
    ValueError
        If the file is none of framejit's, cut or altered, or of another version.

    Examples
    --------
    >>> import numpy as np
    >>> import framejit as fj
    >>> fj.export(lambda x: {"twice": x * 2}, np.ones(3), file_name="twice")
    >>> fj.load("twice.mindir")(np.arange(3.0))
    {'twice': array([0., 2., 4.])}
    """
    path = _path(file_name, "load")
    if not path.exists() and path.suffix != _SUFFIX:
        path = path.with_name(path.name + _SUFFIX)

    def refuse(why: Any) -> ValueError:
        return ValueError(f"For 'load', the file {str(path)!r} is not loaded: {why}.")

    try:
        body = _files.unsealed(path.read_bytes(), "graph", _VERSION)
    except ValueError as error:
        raise refuse(error) from None
    try:
        return LoadedGraph(*_files.header_and_data(body))
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, ImportError) as error:
        raise refuse(f"its header does not fit ({error})") from None
