"""What the tests of CodeView and of splicing share: the compiled module, code objects to work on."""

import contextlib
import importlib.util
import io
import pathlib
import random
import re
import sys
import sysconfig
import tokenize
import types
from typing import NamedTuple

try:
    from framejit import _core as core
except ImportError:  # a build folder: PYTHONPATH holds the compiled module alone
    import _core as core


def all_codes(code):
    """`code` and the code objects in its constants, depth first."""
    yield code
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from all_codes(const)


def stdlib_files():
    """Every Python file of the standard library, its tests included, that this interpreter can compile."""
    root = pathlib.Path(sysconfig.get_path("stdlib"))
    return sorted(
        p
        for p in root.rglob("*.py")
        if p.exists() and not {"site-packages", "lib2to3", "bad"} & set(p.relative_to(root).parts)
    )


def sample_modules():
    names = "ast asyncio.tasks collections contextlib copy dataclasses decimal _pydecimal difflib enum functools inspect"
    names += " io json.decoder logging argparse random re._compiler shutil statistics subprocess tarfile typing zipfile"
    files = []
    for name in names.split():
        spec = importlib.util.find_spec(name)
        if spec and spec.origin and spec.origin.endswith(".py"):
            files.append(pathlib.Path(spec.origin))
    return files


def compile_file(path):
    try:
        with tokenize.open(path) as f:
            return compile(f.read(), str(path), "exec", dont_inherit=True)
    except (SyntaxError, UnicodeDecodeError, ValueError):
        return None  # files that are wrong on purpose


def stdlib_codes(files):
    for path in files:
        code = compile_file(path)
        if code is not None:
            yield from all_codes(code)


def as_called(function):
    """What the stack holds of a call of a function that is no method, in front of the arguments."""
    both = [core._splice_null, function]
    return both[::-1] if sys.version_info >= (3, 13) else both


def as_iterated(iterator):
    """What the stack holds of an iterator in a loop."""
    return [iterator, core._splice_null] if sys.version_info >= (3, 15) else [iterator]


def seeded(name):
    return random.Random(f"{name} {sys.version_info[:2]}")


def rewrite(code, share, seed):
    """`code` and all code in its constants, spliced at every boundary; `share` of 256 questions run a random stretch."""
    consts = tuple(rewrite(c, share, seed) if isinstance(c, types.CodeType) else c for c in code.co_consts)
    return core._splice_stressed(code.replace(co_consts=consts), share, seed)


def load_rewritten(path, share, seed, name):
    """The module in `path`, executed from spliced code."""
    module = types.ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module  # dataclasses and typing look modules up
    exec(rewrite(compile_file(path), share, seed), module.__dict__)
    return module


def spliced(function, ask=None, **options):
    """`function` with spliced code; its SplicedCode lives as `.splice`. `ask` as in ext/testing/bind_splice.cpp."""
    splice = core._splice_make(function.__code__, ask, **options)
    copy = core._splice_function(function, splice.code)
    copy.__dict__ = {**function.__dict__, "splice": splice}
    return copy


def instructions(function):
    return [Row(*row) for row in core._splice_decode(function.__code__)]


class Row(NamedTuple):
    op: str
    arg: int
    flag: bool
    kwnames: int
    offset: int
    place: tuple
    depth: int
    boundary: bool
    handler: int


def observe(function, args):
    """What can be seen of a call: result, output, exception with its traceback's names, lines and columns."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            result = ("value", repr(function(*args)))
        except Exception as e:
            result = ("error", describe_error(e))
    return result, out.getvalue()


def describe_error(e):
    frames = []
    tb = e.__traceback__
    while tb is not None:
        code = tb.tb_frame.f_code
        positions = list(code.co_positions())[tb.tb_lasti // 2]
        names = {k: repr(v) for k, v in tb.tb_frame.f_locals.items() if not hasattr(v, "__code__")}
        frames.append((code.co_qualname, tb.tb_lineno, positions, sorted(without_addresses(names).items())))
        tb = tb.tb_next
    chain = [describe_error(x) for x in (e.__cause__, e.__context__) if x is not None]
    parts = [describe_error(x) for x in getattr(e, "exceptions", ())]
    return type(e).__name__, without_addresses(str(e)), frames[1:], chain, parts


def without_addresses(value):
    if isinstance(value, dict):
        return {k: without_addresses(v) for k, v in value.items()}
    return re.sub(r"0x[0-9a-f]+", "0x", value)
