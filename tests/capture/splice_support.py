"""What the tests of CodeView and of splicing share: the compiled module, code objects to work on."""

import importlib.util
import pathlib
import random
import sys
import sysconfig
import tokenize
import types

try:
    from framejit import _core as core
except ImportError:  # a build folder: PYTHONPATH holds the compiled module alone
    import _core as core

__all__ = ["all_codes", "core", "sample_modules", "stdlib_codes", "stdlib_files"]


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
        p for p in root.rglob("*.py") if not {"site-packages", "lib2to3", "bad"} & set(p.relative_to(root).parts)
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


def seeded(name):
    return random.Random(f"{name} {sys.version_info[:2]}")
