"""README and docs: their examples run, their generated parts are up to date, what they name exists."""

from __future__ import annotations

import ast
import contextlib
import doctest
import importlib
import inspect
import io
import itertools
import os
import re
import subprocess
import sys
import textwrap
import tokenize
from pathlib import Path

import framejit
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(python|pycon|\{code-cell\})\n(.*?)^```$", re.MULTILINE | re.DOTALL)
REASON = framejit.unsupported_reason()
# Pages whose examples show what was captured, or are of the compiled half.
OF_CAPTURE = {"control_flow.md", "diagnostics.md", "from_jax.md", "from_mindspore.md", "from_numba.md", "from_torch.md"}
OF_CAPTURE |= {
    "gradients.md",
    "libraries.md",
    "loops.md",
    "notebooks.md",
    "programs.md",
    "training.md",
    "tutorial.md",
    "usage.md",
}
PACKAGE = Path(framejit.__file__).parent
MODULES = [
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted(PACKAGE.rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]
# Modules whose examples run without the compiled half; those of framejit.ops do not.
PLAIN = {
    *("framejit", "_config", "_control", "_custom", "_dtypes", "_explain", "_format", "_info", "_jit", "_jit_config"),
    *("_mark", "_platform", "_stats", "_trace"),
}
OF_CAPTURE |= {name for name in MODULES if name.split(".")[-1] not in PLAIN or ".ops." in name}


def named(names):
    return [
        pytest.param(value, id=name, marks=[pytest.mark.capture] if name in OF_CAPTURE else [])
        for name, value in names.items()
    ]


@pytest.mark.parametrize("page", named({page.name: page for page in PAGES}))
def test_examples_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if page.name == "libraries.md":
        pytest.importorskip("pandas", minversion="3")  # older ones take no engines
        pytest.importorskip("numpy", minversion="2.1")  # the array API
    text = page.read_text(encoding="utf-8")
    scope: dict = {"__name__": page.stem}
    for kind, code in BLOCK.findall(text):
        line = text[: text.index(code)].count("\n")
        if kind != "pycon":
            # With the page's own line numbers, so that an error points at it.
            exec(compile("\n" * line + code, str(page), "exec"), scope)
        else:
            test = doctest.DocTestParser().get_doctest(code, scope, page.name, str(page), line)
            failed, run = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, clear_globs=False)
            assert run
            assert not failed
            scope.update(test.globs)


FOLDERS = ("benchmarks", "capture", "cmake", "codegen", "docs", "examples", "ext", "graph", "runtime", "tests")
READMES = [path for path in sorted(ROOT.glob("*/**/README.md")) if path.relative_to(ROOT).parts[0] in FOLDERS]


def anchors(page):
    """What a link to a heading of this page may name: GitHub's form of the heading, or an anchor that stands in it."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = (re.sub(r"<[^>]*>", "", each).lower() for each in re.findall(r"^#+ (.*)$", text, re.MULTILINE))
    return {re.sub(r"[^\w\- ]", "", each).replace(" ", "-") for each in headings} | set(re.findall(r'id="(\w+)"', text))


@pytest.mark.parametrize("page", [*PAGES, *READMES], ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for name, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", page.read_text(encoding="utf-8")):
        target = page.parent / name if name else page
        assert target.exists(), name
        if anchor:
            assert anchor in anchors(target), f"{name}#{anchor}"


def test_every_page_is_in_the_contents():
    folder = ROOT / "docs"
    listed = {"index"}
    for page in folder.rglob("*.md"):
        for tree in re.findall(
            r"^```\{toctree\}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
        ):
            names = [line for line in tree.splitlines() if line and not line.startswith(":")]
            listed |= {(page.parent / name).relative_to(folder).as_posix() for name in names}
    assert {page.relative_to(folder).with_suffix("").as_posix() for page in folder.rglob("*.md")} <= listed


SUFFIXES = (".cpp", ".h", ".c", ".inc", ".py", ".pyi", ".md", ".cmake")
FILES = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*")) if path.suffix in SUFFIXES]
FILES += [*sorted(ROOT.glob("*.md")), ROOT / "CMakeLists.txt", ROOT / "dev"]
NAMED_FILE = re.compile(r"(?<![\w/.<>*{-])((?:[\w-]+/|\.\./)*[\w-]+\.(?:cpp|h|c|inc|pyi?|md|cmake))\b(?![\w(])")
# Of CPython, NumPy, asmjit and others; and those of the user in examples.
OF_OTHERS = {
    *("Lib/warnings.py", "Modules/_functoolsmodule.c", "Objects/locations.md", "Python/_warnings.c"),
    *("ceval.c", "codeobject.c", "pycore_atomic.h", "extobj.c", "loops.c", "globals.cpp", "fenv.h", "splitmix64.c"),
    *("coverage.py", "network.py", "script.py", "sim.py", "user.py"),
}


def prose(path):
    """(line, text) of what a file says to readers: comments, docstrings, all of a page."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return [(1, text)]
    if path.suffix in (".py", ".pyi"):
        layout = (tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT)
        found, begins = [], True
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT or (begins and token.type == tokenize.STRING):
                found.append((token.start[0], token.string))
            if token.type not in layout:
                begins = token.type == tokenize.NEWLINE
        return found
    mark = r"//[^\n]*|/\*.*?\*/" if path.suffix in SUFFIXES[:4] else r"#[^\n]*"
    pieces = re.finditer(rf'"(?:[^"\\\n]|\\.)*"|{mark}', text, re.DOTALL)
    return [(text.count("\n", 0, m.start()) + 1, m[0]) for m in pieces if m[0][0] != '"']


def test_files_that_are_named_exist():
    parts = [path.relative_to(ROOT).parts for path in FILES]
    ends = {"/".join(part[i:]) for part in parts for i in range(len(part))}

    def exists(name, where):
        if name in ends or name in OF_OTHERS or (where / name).exists():
            return True
        of_any = re.compile(re.escape(name).replace("NAME", r"\w+").replace("XX", r"\d\d"))
        return any(of_any.fullmatch(end) for end in ends)

    gone = [
        f"{path.relative_to(ROOT)}:{line + text.count(chr(10), 0, match.start())}: {match[1]}"
        for path in FILES
        for line, text in prose(path)
        for match in NAMED_FILE.finditer(text)
        if not exists(match[1], path.parent)
    ]
    assert not gone


# Of CPython, and instructions of the processor.
NAMES_OF_OTHERS = {"mark_stacks", "nlocalsplus", "vpand", "vpandd"}
NAME = re.compile(r"`([A-Za-z_][\w.:]*)(?:\([^`]*\))?`")


def test_names_in_pages_about_the_code_exist():
    code = [path for path in FILES if path.suffix != ".md"]
    words = set(re.findall(r"\w+", "".join(path.read_text(encoding="utf-8") for path in code))) | NAMES_OF_OTHERS
    words |= {word for path in FILES for word in re.findall(r"\w+", path.name)}
    gone = [
        f"{page.relative_to(ROOT)}: {name}"
        for page in [*READMES, ROOT / "codegen" / "LOWERING.md", ROOT / "docs" / "architecture.md"]
        for name in NAME.findall(page.read_text(encoding="utf-8"))
        if not words >= set(re.findall(r"\w+", name))
    ]
    assert not gone


# Phrases that were translated word by word or that no reader outside of this project knows, and what to write instead.
# See the ten rules in docs/writing.md.
BANNED = {
    r"in place of": "instead of",
    r"(go|goes|went|going) by": "depends on",
    r"(come|comes|came) by": "is obtained, reaches",
    r"behind": "after",
    r"in front of": "before",
    r"beside|besides": "next to, as well as",
    r"anew": "again",
    r"the very": "exactly the",
    r"at hand": "",
    r"by turns": "alternately",
    r"so many": "that number of",
    r"(is|are) no (array|input|way|ndarray|promise)s?": "is not a",
    r"but for": "except",
    r"as ever": "as usual",
    r"(lies|stands)": "is stored, is",
    r"(wants|minds|minded)": "requires, traps",
    r"nobody('s)?": "",
    r"made of": "built from",
    r"stuff|things": "a noun that says what",
    r"spared|displaced|lent|quiet functions?|losing": "a term of the field",
}
# A sentence that begins so has no subject before its verb.
OPENING = re.compile(r"(?:^|[.:;|] +|^[-*] )(What|Of|Where|Whose) (?![^.?!]*\?)", re.MULTILINE)
BANNED_PHRASE = re.compile(r"\b(?:" + "|".join(BANNED) + r")\b", re.IGNORECASE)


def plain(page):
    """A page without code, headings, links' targets and what is between backquotes; lines keep their numbers."""

    def blank(match):
        return "\n" * match[0].count("\n")

    text = page.read_text(encoding="utf-8")
    for code in (
        r"^```.*?^```$",
        r"^(?: {4}| {6,}).*$",
        r"^#.*$",
        r"^---\n.*?^---$",
        r"`[^`]*`",
        r"\]\([^)]*\)",
        r"<!--.*?-->",
    ):
        text = re.sub(
            code, blank, text, flags=re.MULTILINE | re.DOTALL if "```" in code or "---" in code else re.MULTILINE
        )
    return text


WRITTEN = [*PAGES, *READMES, *sorted((ROOT / "benchmarks").glob("*.md")), ROOT / "codegen" / "LOWERING.md"]


@pytest.mark.parametrize(
    "page", sorted({*WRITTEN} - {ROOT / "docs" / "writing.md"}), ids=lambda page: str(page.relative_to(ROOT))
)
def test_style(page):
    text = plain(page)
    found = [*BANNED_PHRASE.finditer(text), *OPENING.finditer(text)]
    assert not [f"{page.name}:{text.count(chr(10), 0, match.start()) + 1}: {match[0].strip()}" for match in found]


def docstrings(path):
    """(line, text) of each docstring of a module, without its examples and what is between backquotes."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.AsyncFunctionDef, ast.ClassDef, ast.FunctionDef, ast.Module)) and ast.get_docstring(
            node
        ):
            yield node.body[0].lineno, re.sub(r"`[^`]*`", "", ast.get_docstring(node).split("Examples\n---")[0])


def test_style_of_docstrings():
    found = [
        f"{path.relative_to(ROOT)}:{line}: {match[0]}"
        for folder in ("ext", "examples")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line, text in docstrings(path)
        for match in BANNED_PHRASE.finditer(text)
    ]
    assert not found


def messages(path):
    """(line, text) of the strings of a file that have words, except its docstrings."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        strings = re.finditer(r'"((?:[^"\\\n]|\\.)*)"', re.sub(r"//[^\n]*", "", text))
        return [(text.count("\n", 0, m.start()) + 1, m[1]) for m in strings if " " in m[1]]
    tree = ast.parse(text)
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        (node.lineno, node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and " " in node.value
        and id(node) not in alone
    ]


SAYING = ("capture/*.cpp", "capture/breaks.inc", "graph/*.cpp", "graph/passes/*.cpp", "ext/dispatch/*.cpp")
SAYING += ("ext/frontends/numpy/*.cpp", "ext/module/*.cpp", "ext/framejit/**/*.py", "ext/framejit_pytest/*.py")


def test_style_of_messages():
    found = [
        f"{path.relative_to(ROOT)}:{line}: {match[0]}"
        for pattern in SAYING
        for path in sorted(ROOT.glob(pattern))
        for line, text in messages(path)
        for match in BANNED_PHRASE.finditer(text)
    ]
    assert not found


FIGURE = re.compile(r"\d ?(?:%|ms|us|ns|µs|GB/s|times (?:as|faster|slower))(?!\w)")


def test_figures_are_kept_with_the_benchmarks():
    pages = [page for page in READMES if page.parent.name != "benchmarks"] + [ROOT / "docs" / "architecture.md"]
    found = [f"{page.relative_to(ROOT)}: {figure}" for page in pages for figure in FIGURE.findall(plain(page))]
    assert not found


BENCHMARKS = "benchmarks/computations.md"
MEASURED_ROWS = {
    "`a*b + c`, 1,000 float64": "a*b+c, float64 | 1,000",
    "`a*b + c`, 10 million float64": "a*b+c, float64 | 10,000,000",
    "Black-Scholes, 1,000 float64": "Black-Scholes, float64 | 1,000",
    "Black-Scholes, 10 million float64": "Black-Scholes, float64 | 10,000,000",
    "`sqrt(x*x + y*y) * sin(z) + exp(-w)`, 1,000 float64": "sqrt(x²+y²)·sin z + exp(-w), float64 | 1,000",
    "the same, 10 million float64": "sqrt(x²+y²)·sin z + exp(-w), float64 | 10,000,000",
    "softmax of rows, 1024 x 1024 float32": "softmax of rows, float32 | 1,048,576",
    "layer norm of rows, 1024 x 1024 float32": "layer norm of rows, float32 | 1,048,576",
    "image in uint8, 10 million pixels": "pixels, inverted, uint8 | 10,000,000",
    "loop over 10,000 single elements": "loop over elements, float64 | 10,000",
}


def test_table_of_the_readme_is_what_was_measured():
    def rows(page, title):
        table = (ROOT / page).read_text(encoding="utf-8").split(title, 1)[1].lstrip().split("\n\n", 1)[0]
        return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]

    measured = {f"{name} | {count}": cells for name, count, _, *cells in rows(BENCHMARKS, "| computation | elements |")}
    *shown, first_call = rows("README.md", "| computation |")
    assert {name for name, *_ in shown} == set(MEASURED_ROWS)
    for name, *cells in shown:
        o0, o1, numba, numexpr, jax, torch = measured[MEASURED_ROWS[name]]
        for cell, expected in zip(cells, (o0, o1, numba, jax, torch, numexpr), strict=True):
            if cell == "-":
                assert not expected[0].isdigit(), name
            else:
                digit = 10.0 ** -len(cell.partition(".")[2])
                assert abs(float(cell) - float(expected)) < 0.51 * digit, (name, cell, expected)
    text = (ROOT / BENCHMARKS).read_text(encoding="utf-8")
    times = re.search(r"framejit ([\d.]+) ms at O0 and ([\d.]+) ms at O1, Numba (\d+) ms", text)
    assert [float(cell) for cell in first_call[1:4]] == [round(float(time), 1) for time in times.groups()]


def test_spelling():
    """Of pages, comments, docstrings and messages."""
    files = [str(path.relative_to(ROOT)) for path in [*FILES, ROOT / "pyproject.toml"]]
    terms = "atmost,coo,dout,fpr,fro,gir,kno,nd,nin,ot"  # identifiers, and terms of the field
    command = [sys.executable, "-m", "codespell_lib", "-L", terms, *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_commands_of_the_readme_exist():
    commands = set(re.findall(r"\./dev ([\w-]+)", "".join(page.read_text(encoding="utf-8") for page in PAGES)))
    assert {"demo", "test"} <= commands
    shown = subprocess.run([str(ROOT / "dev"), "help"], capture_output=True, text=True, check=True).stdout
    assert commands <= set(re.findall(r"^  ([\w-]+)(?: |$)", shown, re.MULTILINE))


def test_generated_pages_are_up_to_date():
    command = [sys.executable, str(ROOT / "docs" / "generate.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_break_reason_has_its_place():
    numbers = re.findall(r"^FRAMEJIT_BREAK\((\d+),", (ROOT / "capture" / "breaks.inc").read_text(), re.MULTILINE)
    page = (ROOT / "docs" / "breaks.md").read_text(encoding="utf-8")
    assert numbers
    assert [f"FJ{int(number):03d}" for number in numbers] == re.findall(r'<a id="(FJ\d{3})"></a>', page)
    assert len(numbers) == len(break_examples())


def break_examples():
    page = (ROOT / "docs" / "breaks.md").read_text(encoding="utf-8")
    sections = re.findall(r'^## <a id="(FJ\d{3})"></a>.*\n\n.*\n\n((?:    .*\n|\n)+)', page, re.MULTILINE)
    return {code: textwrap.dedent(example) for code, example in sections}


@pytest.fixture
def slow_compiler(monkeypatch):
    """To the budget of compiling, each compilation takes 30 ms, on any machine."""
    times = itertools.count(step=30_000_000)
    monkeypatch.setattr(framejit.config, "profitability", "measure")
    framejit._core.set_clock(lambda what: next(times) if what == "start" else 0)
    yield
    framejit._core.set_clock(None)


@pytest.mark.capture
@pytest.mark.parametrize("code", break_examples())
def test_example_of_a_break(code, slow_compiler, monkeypatch):
    for setting in ("capture_time_limit", "code_bytes_limit"):
        monkeypatch.setattr(framejit.config, setting, getattr(framejit.config, setting))  # put back behind the test
    breaks = []
    framejit._core.set_event_handler(lambda channel, record: breaks.append(record["id"]), ["graph_breaks"])
    try:
        with contextlib.suppress(ValueError, UnboundLocalError, framejit.GraphBreakError):
            exec(compile(break_examples()[code], code, "exec"), {"fj": framejit, "np": np})
    finally:
        framejit._core.set_event_handler(None)
    assert code in breaks


@pytest.mark.parametrize("module", named({module: module for module in MODULES}))
def test_docstrings(module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    failed, _ = doctest.testmod(importlib.import_module(module), optionflags=doctest.ELLIPSIS)
    assert not failed


def test_public_names_have_documentation():
    for name in framejit.__all__:
        try:
            value = getattr(framejit, name)
        except AttributeError as error:
            assert REASON
            assert "compiled half" in str(error)
            continue
        text = type(value).__doc__ if not callable(value) else value.__doc__
        assert text, name


@pytest.mark.capture
def test_public_names_are_in_the_reference():
    """By their own name, or with all names of their module."""
    text = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("api*.md"))
    listed = set(re.findall(r"\w+", re.sub(r"(?m)^#.*$", "", text)))
    for module in re.findall(r"automodule:: ([\w.]+)", text):
        home = importlib.import_module(module)
        listed |= set(getattr(home, "__all__", ()))
    dtypes = {name for name in framejit.__all__ if isinstance(getattr(framejit, name), type(framejit.float32))}
    assert not set(framejit.__all__) - listed - dtypes


def undocumented(value):
    """The parameters of a function or class that the section "Parameters" of its docstring does not name."""
    text = inspect.getdoc(value) or ""
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\w[^\n]*\n-{3,}$|\Z)", text, re.MULTILINE | re.DOTALL)
    heads = re.findall(r"^(\*{0,2}\w.*)$", section[1], re.MULTILINE) if section else []
    named = {name.strip().lstrip("*") for head in heads for name in head.split(" : ")[0].split(",")}
    try:
        return set(inspect.signature(value).parameters) - named
    except ValueError:  # written in C, with a docstring that is compared with its stub
        return set()


@pytest.mark.capture
@pytest.mark.parametrize("module", ["framejit", "framejit.dataset", "framejit.nn", "framejit.train"])
def test_parameters_are_documented(module):
    home = importlib.import_module(module)
    public = {name: getattr(home, name) for name in home.__all__}
    # Exceptions are made by framejit only.
    own = {
        name: value
        for name, value in public.items()
        if callable(value) and not isinstance(value, framejit.bool_.__class__)
    }
    own = {name: value for name, value in own.items() if not (isinstance(value, type) and issubclass(value, Exception))}
    assert own
    assert not {name: missing for name, value in own.items() if (missing := undocumented(value))}


EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.capture
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_example(example, tmp_path):
    arguments = {
        "simple_function.py": ["--calls", "20"],
        "lenet.py": ["--epochs", "1"],
        "resnet.py": ["--epochs", "1"],
        "llama.py": ["--steps", "20"],
        "out_of_core.py": ["--megabytes", "100"],
    }.get(example.name, [])
    done = subprocess.run(
        [sys.executable, str(example), *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ,
    )
    assert done.returncode == 0, done.stderr
    rows = done.stdout.splitlines()
    assert len(rows) >= 3
    if example.name == "simple_function.py":
        assert len(rows) == 13
