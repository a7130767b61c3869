"""Run by a Python with MindSpore or framejit: `mindspore_listing.py {mindspore|framejit} OUT` writes what each offers, by name, as a pickle.

A row is a kind and a path, such as ("parameters", "ops.grad"). Its value is a tuple that both packages give alike where they agree.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import pickle
import sys
import warnings

package, out = sys.argv[1], sys.argv[2]
if package == "framejit":
    from framejit._mindspore import _mindspore

    _mindspore.install()
with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
    warnings.simplefilter("ignore")
    import mindspore as ms
    from mindspore import Parameter, Tensor, context, mint, nn, ops, train

rows = {}
KINDS = ("POSITIONAL_ONLY", "POSITIONAL_OR_KEYWORD", "KEYWORD_ONLY")


def parameters(function):
    """(name, default) of each parameter; None where they cannot be told."""
    try:
        given = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None
    if any(p.kind.name not in KINDS for p in given):
        return None
    return tuple((p.name, "" if p.default is p.empty else shown(p.default)) for p in given if p.name != "self")


def shown(value):
    if callable(value) and hasattr(value, "__name__"):
        return value.__name__
    return repr(value).replace("mindspore.", "").lower()


def names_of(module):
    public = {*(getattr(module, "__all__", None) or dir(module)), *(dir(module) if package == "framejit" else ())}
    return sorted({name for name in public if name.isidentifier() and not name.startswith("_") and hasattr(module, name) and not inspect.ismodule(getattr(module, name))})


for path, module in (("", ms), ("ops", ops), ("nn", nn), ("mint", mint), ("mint.nn", mint.nn), ("mint.nn.functional", mint.nn.functional), ("mint.linalg", mint.linalg), ("train", train)):  # fmt: skip
    for name in names_of(module):
        full = f"{path}.{name}".lstrip(".")
        value = getattr(module, name)
        rows["name", full] = (callable(value),)
        if inspect.isroutine(inspect.unwrap(value)) or inspect.isclass(value) and path in ("nn", "train"):
            told = parameters(value)
            if told is not None:
                rows["parameters", full] = told

for path, value in (("Cell", nn.Cell()), ("Tensor", Tensor([1.0])), ("Parameter", Parameter(Tensor([1.0]), name="p")), ("Primitive", ops.Add())):  # fmt: skip
    for name in dir(value):
        if name.startswith("__") or path != "Cell" and name.startswith("_"):
            continue
        try:
            found = getattr(value, name)
        except Exception:  # one that only some objects have
            continue
        rows["attribute", f"{path}.{name}"] = (callable(found),)

for name in ("mode", "device_target", "jit_level", "jit_syntax_level", "save_graphs", "save_graphs_path", "max_call_depth", "deterministic", "pynative_synchronize", "enable_compile_cache", "debug_level", "memory_optimize_level", "exec_order", "device_id"):  # fmt: skip
    try:
        rows["context", name] = (type(context.get_context(name)).__name__,)
    except ValueError as error:
        rows["context", name] = (type(error).__name__,)


def error_of(call):
    try:
        call()
    except Exception as error:
        return tuple(one.__name__ for one in type(error).__mro__ if one.__module__ == "builtins")
    return ("nothing",)


# What settings of the context may be.
SETTINGS = ("jit_syntax_level", "pynative_synchronize", "save_graphs", "enable_graph_kernel", "max_call_depth", "max_device_memory", "runtime_num_threads", "deterministic", "enable_compile_cache", "check_bprop", "debug_level", "memory_optimize_level", "mempool_block_size", "inter_op_parallel_num", "variable_memory_max_size", "op_timeout", "graph_kernel_flags", "reserve_class_name_in_scope", "enable_reduce_precision", "exec_order", "ascend_config", "gpu_config", "support_binary", "jit_config", "aoe_config", "enable_auto_mixed_precision")  # fmt: skip
VALUES = (True, 0, 1, 3, 7, -1, 1.5, "x", "", "ON", "O1", "O2", "bfs", [1], {}, {"a": 1}, {"jit_level": "O1"}, {"jit_level": "O7"}, {"jit_level": "O1", "infer_boost": "on"})  # fmt: skip
for name in SETTINGS:
    before = context.get_context(name) if name != "enable_auto_mixed_precision" else False
    for value in VALUES:
        rows["context", f"{name}={value!r}"] = error_of(lambda name=name, value=value: ms.set_context(**{name: value}))
        if rows["context", f"{name}={value!r}"] == ("nothing",) and name in ("jit_syntax_level", "save_graphs", "debug_level", "memory_optimize_level", "exec_order", "deterministic", "max_call_depth", "op_timeout"):
            rows["context", f"after {name}={value!r}"] = (repr(context.get_context(name)),)
    if name not in ("memory_optimize_level",):
        error_of(lambda name=name, before=before: ms.set_context(**{name: before}))


x, i = Tensor([1.0, 2.0]), Tensor([1, 2])
net = nn.Dense(2, 1)
CALLS = {
    "grad of no position": lambda: ops.grad(lambda x: x, None)(x),
    "grad of a position that is not there": lambda: ops.grad(lambda x: x, 3)(x),
    "grad of a negative position": lambda: ops.grad(lambda x: x, -1)(x),
    "grad of a list of positions": lambda: ops.grad(lambda x, y: x, [0, 1])(x, x),
    "grad of a position twice": lambda: ops.grad(lambda x, y: x, (0, 0))(x, x),
    "grad of no function": lambda: ops.grad(3)(x),
    "sens of another dtype": lambda: ops.GradOperation(sens_param=True)(lambda x: x * 2)(x, i),
    "sens of another shape": lambda: ops.GradOperation(sens_param=True)(lambda x: x * 2)(x, Tensor([1.0])),
    "GradOperation of an int": lambda: ops.GradOperation(get_all=1),
    "a Parameter in its own name's place": lambda: setattr(net, "weight", 3),
    "a Cell without construct": lambda: nn.Cell()(x),
    "a Tensor of a str": lambda: Tensor("a"),
    "a Tensor of nothing": lambda: Tensor([1.0], "float"),
    "bool of two elements": lambda: bool(x),
    "an index outside": lambda: x[5],
    "an index that is a float": lambda: x[1.0],
    "jit of an int as fullgraph": lambda: ms.jit(fullgraph=1),
    "jit in an unknown mode": lambda: ms.jit(capture_mode="foo"),
    "jit of an unknown level": lambda: ms.jit(jit_level="O7"),
    "JitConfig of an unknown level": lambda: ms.JitConfig(jit_level="O7"),
    "a negative learning rate": lambda: nn.SGD(net.trainable_params(), -1.0),
    "no parameters": lambda: nn.SGD([], 0.1),
    "mutable of a str": lambda: ms.mutable("a"),
    "a buffer with a dot": lambda: net.register_buffer("a.b", x),
    "a state with a name too many": lambda: net.load_state_dict({"foo": x}),
    "set_context of an unknown name": lambda: context.set_context(foo=1),
    "to_float of an int": lambda: nn.Dense(1, 1).to_float(ms.int32),
}
for label, call in CALLS.items():
    with contextlib.redirect_stdout(io.StringIO()):
        rows["error", label] = error_of(call)


def described(found):
    if isinstance(found, (tuple, list)):
        return (type(found).__name__, *map(described, found))
    if isinstance(found, Tensor):
        return (str(found.dtype).replace("mindspore.", "").lower(), found.shape, tuple(found.asnumpy().ravel().tolist()))
    return (repr(found),)


# Gradients of every operator of two operands and of one, for whole numbers beside floats: dtypes and values.
DTYPES = ("bool_", "int8", "int16", "int32", "int64", "uint8", "float16", "float32", "float64")
TWO = {
    "x + y": lambda x, y: x + y, "x - y": lambda x, y: x - y, "x * y": lambda x, y: x * y, "x > y": lambda x, y: x > y,
    "x == y": lambda x, y: x == y, "ops.maximum(x, y)": lambda x, y: ops.maximum(x, y), "ops.minimum(x, y)": lambda x, y: ops.minimum(x, y),
    "ops.where(x > 1, x, y)": lambda x, y: ops.where(x > 1, x, y), "ops.stack((x, y))": lambda x, y: ops.stack((x, y)),
    "x[0] * y[1]": lambda x, y: x[0] * y[1], "x // y": lambda x, y: x // y, "ops.logical_and(x, y)": lambda x, y: ops.logical_and(x, y),
}  # fmt: skip
ONE = {
    "x * 2": lambda x: x * 2, "x * 2.5": lambda x: x * 2.5, "-x": lambda x: -x, "ops.abs(x)": lambda x: ops.abs(x), "x.sum()": lambda x: x.sum(),
    "x.reshape(3, 1)": lambda x: x.reshape(3, 1), "ops.square(x)": lambda x: ops.square(x), "x.astype(float32)": lambda x: x.astype(ms.float32),
    "x.astype(int32)": lambda x: x.astype(ms.int32), "ops.relu(x)": lambda x: ops.relu(x), "x[1:]": lambda x: x[1:],
    "ops.tile(x, (2,))": lambda x: ops.tile(x, (2,)), "x / 2": lambda x: x / 2, "ops.transpose(x.reshape(3, 1), (1, 0))": lambda x: ops.transpose(x.reshape(3, 1), (1, 0)),
}  # fmt: skip


def gradient_row(label, function, arguments):
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            rows["gradient", label] = described(ops.GradOperation(get_all=True)(function)(*arguments))
        except Exception as error:
            rows["gradient", label] = ("error", type(error).__name__)


for dtype in DTYPES:
    first = Tensor([1, 2, 3]).astype(getattr(ms, dtype))
    for text, function in ONE.items():
        gradient_row(f"{text} of {dtype}", function, (first,))
    for other in ("bool_", "int8", "int64", "float32"):
        second = Tensor([3, 1, 2]).astype(getattr(ms, other))
        for text, function in TWO.items():
            gradient_row(f"{text} of {dtype} and {other}", function, (first, second))

with open(out, "wb") as file:
    pickle.dump(rows, file)
