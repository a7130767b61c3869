"""The IPython extension: magics, names of cells, reports in notebooks."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import framejit as fj
import numpy as np
import pytest

pytest.importorskip("IPython")

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config


class Notebook:
    """Runs cells as a notebook does."""

    def __init__(self) -> None:
        config = Config()
        config.HistoryManager.enabled = False
        InteractiveShell.clear_instance()
        self.shell = InteractiveShell.instance(config=config, colors="nocolor")
        self.run("%load_ext framejit", "import functools, numpy as np, os, framejit as fj")

    def run(self, *cells: str, fails: type[BaseException] | None = None):
        """The value, the text and the rich outputs of the last cell."""
        for cell in cells:
            with capture_output() as captured:
                result = self.shell.run_cell(cell, store_history=True)
            error = result.error_before_exec or result.error_in_exec
            if fails is None:
                assert error is None, captured.stdout + captured.stderr
            else:
                assert isinstance(error, fails), error
        self.error = error
        return result.result, captured.stdout + captured.stderr, captured.outputs

    def __getitem__(self, name: str):
        return self.shell.user_ns[name]


@pytest.fixture
def notebook(tmp_path, monkeypatch):
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    modules, hook = set(sys.modules), sys.excepthook
    yield Notebook()
    InteractiveShell.clear_instance()
    sys.excepthook = hook
    for name in set(sys.modules) - modules:
        if name.startswith("_ipython"):
            del sys.modules[name]


MARKED = """%%framejit {options}
def outer(x):
    def inner(y):
        return y * 2
    return inner(x) + 1

class Model:
    def __new__(cls):
        return super().__new__(cls)

    @property
    def twice(self):
        return np.ones(2) * 2

    @staticmethod
    def half(x):
        return x / 2

if True:
    scale = lambda x: x * 3

@fj.disable
def kept(x):
    return x

@fj.jit(jit_level="O1")
def own(x):
    return x + 1

def strict_decorator(function):
    assert type(function).__name__ == "function"
    return function

@strict_decorator
def foreign(x):
    return x

@functools.lru_cache(None)
def cached(x):
    return x

other = sorted([3, 1], key=lambda v: v)
outer(np.ones(2))"""


def test_functions_of_a_cell_are_marked(notebook):
    value, text, _ = notebook.run(MARKED.format(options="--level O1 --dynamic --capture-mode bytecode"))
    assert value.tolist() == [3.0, 3.0]
    assert "%%framejit: not marked, because of their decorators: foreign\n" in text
    model = notebook["Model"]
    marked = [notebook["outer"], vars(model)["twice"].fget, model.half, notebook["scale"]]
    for function in marked:
        settings = function.__framejit_settings__
        assert (settings["jit_level"], settings["dynamic"], settings["capture_mode"]) == ("O1", True, "bytecode")
    for name in ("kept", "foreign"):
        assert not hasattr(notebook[name], "__framejit_settings__")
    assert hasattr(notebook["cached"].__wrapped__, "__framejit_settings__") and notebook["cached"](3) == 3
    assert not hasattr(model.__new__, "__framejit_settings__")
    assert notebook["own"].__framejit_settings__["dynamic"] is False  # has its own
    assert notebook["other"] == [1, 3]
    assert isinstance(model(), model) and model().twice.tolist() == [2.0, 2.0] and notebook["scale"](2.0) == 6.0
    assert "_framejit_mark" not in notebook.shell.user_ns


def test_the_value_at_the_end_and_semicolons(notebook):
    assert notebook.run("%%framejit\nf = lambda x: x\nf(3)")[0] == 3
    assert notebook.run("%%framejit\nf = lambda x: x\nf(3);")[1] == ""
    assert notebook.run("%%framejit\nf = lambda x: x\ny = f(4)")[0] is None
    assert notebook["y"] == 4


def test_source_and_lines(notebook):
    notebook.run("%%framejit\n\ndef f(x):\n    return x + 1")
    import inspect

    assert inspect.getsource(notebook["f"]) == "def f(x):\n    return x + 1\n"
    assert notebook["f"].__wrapped__.__code__.co_firstlineno == 3  # the line of the magic is the first one


def test_errors_keep_their_lines_and_end_the_cell(notebook):
    _, text, _ = notebook.run("%%framejit\ndef f(x):\n    raise KeyError(x)\nf(1)\ndone = 1", fails=KeyError)
    assert "----> 3     raise KeyError(x)" in text and "----> 4 f(1)" in text
    assert "_magics.py" not in text
    assert "done" not in notebook.shell.user_ns and "_framejit_mark" not in notebook.shell.user_ns
    _, text, _ = notebook.run("%%framejit\ndef f(x)\n    pass", fails=SyntaxError)
    assert "line 2" in text


def test_other_syntax_of_ipython(notebook):
    value, _, _ = notebook.run("%%framejit\nf = lambda x: x\nx = !echo shell\nf(x)")
    assert list(value) == ["shell"]
    notebook.run("%%capture\n%%framejit\ndef f(x):\n    return x")
    assert notebook["f"].__wrapped__.__code__.co_firstlineno == 3


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("%%framejit --level O7\nx = 1", "argument -l/--level/--jit-level: invalid choice: 'O7'"),
        ("%%framejit --quick\nx = 1", "unrecognized arguments: --quick"),
        ("%%framejit\nimport asyncio\nawait asyncio.sleep(0)", "%%framejit runs no 'await' outside of functions"),
        ("%framejit nothing", "%framejit does not know 'nothing'; it takes nothing, 'info', 'report'"),
        ("%framejit recompile_limit=many", "%framejit recompile_limit=many: invalid literal"),
        ("%framejit logs=everything", "'everything' is not a token of FRAMEJIT_LOGS"),
        ("%framejit no_such_thing=1", "framejit.config has no setting 'no_such_thing'"),
        ("%framejit mark=x", "is read from FRAMEJIT_MARK when framejit is imported"),
        ("%framejit explain np.sin", "%framejit explain takes a call such as f(x), but got 'np.sin'"),
        ("%framejit explain f(", "takes a call such as f(x), but got 'f('"),
        ("%framejit report", "no function was marked by %%framejit yet"),
    ],
)
def test_bad_input(notebook, cell, message):
    from IPython.core.error import UsageError

    assert message in notebook.run(cell, fails=UsageError)[1]


def test_a_cell_without_functions(notebook):
    value, text, _ = notebook.run("%%framejit\n1 + 1")
    assert value == 2
    assert "%%framejit: the cell defines no function" in text


def test_settings(notebook, monkeypatch):
    monkeypatch.setattr(fj.config, "recompile_limit", 8)
    assert "framejit " + fj.__version__ in notebook.run("%framejit")[1]
    assert notebook.run("%framejit recompile_limit")[1] == "recompile_limit = 8\n"
    assert notebook.run("%framejit recompile_limit=5")[1] == "recompile_limit = 5\n"
    assert fj.config.recompile_limit == 5
    assert "recompile_limit=5" in notebook.run("%framejit")[1]
    assert "versions:" in notebook.run("%framejit info")[1]


@pytest.mark.capture
def test_docs(notebook):
    assert notebook.run("%framejit docs fj002")[1].startswith("FJ002 ")
    assert notebook.run("%framejit docs")[1].count("FJ0") > 10


@pytest.mark.capture
def test_explain(notebook):
    notebook.run("def f(x, n):\n    return x * n + 1\nx = np.ones(3)")
    (shown,) = notebook.run("%framejit explain f(x[:2], n=2)")[2]
    assert shown.data["text/plain"].startswith("f(): 1 graph, 0 breaks") and "<div" in shown.data["text/html"]
    (shown,) = notebook.run("%framejit explain (lambda x: x == 1)(x)")[2]
    assert "raised" not in shown.data["text/plain"]
    notebook.run("%framejit explain f(missing)", fails=NameError)
    assert "_framejit_explain" not in notebook.shell.user_ns


BREAKS = """%%framejit --annotate
def breaks(x):
    y = x * 2 + 1
    os.getpid()
    return y - 1

def never_called(x):
    return x

z = breaks(np.ones(3))"""


@pytest.mark.capture
def test_annotate(notebook):
    _, text, outputs = notebook.run(BREAKS)
    (output,) = outputs
    shown = output.data["text/html"]
    assert re.search(r'class="in"><i>3</i>', shown)
    assert re.search(r'class="broken"><i>4</i>', shown)
    assert re.search(r'class=""><i>1</i><span class="line"><span class="c"># %%framejit --annotate</span>', shown)
    assert shown.count('<div class="source">') == 1  # of the cell as a whole
    assert "<svg" in shown and "not called yet" in shown
    assert re.search(r"<h1>Cell \d+</h1>", shown) and "ipython-input" not in shown
    assert (
        output.data["text/plain"].startswith("Cell ")
        and ": 2 functions, 2 graphs, 1 break; " in output.data["text/plain"]
    )
    _, _, outputs = notebook.run("breaks(np.ones(3)); breaks(np.ones(3))", "%framejit report")
    assert "<h1>Functions of this notebook</h1>" in outputs[0].data["text/html"]
    assert re.search("saved|lost|nothing was saved", outputs[0].data["text/plain"])


@pytest.mark.capture
def test_annotation_of_a_cell_that_fails(notebook):
    _, _, outputs = notebook.run(BREAKS + "\n1 / 0", fails=ZeroDivisionError)
    assert "FJ002" in outputs[0].data["text/html"]


@pytest.mark.capture
def test_fullgraph(notebook):
    number = notebook.shell.execution_count
    notebook.run(
        "%%framejit --fullgraph\ndef f(x):\n    return print(x, flush=True)\nf(np.ones(2))", fails=fj.GraphBreakError
    )
    assert str(notebook.error).startswith(f"Cell {number}:3:12 f(): FJ0")


@pytest.mark.capture
def test_cells_have_names(notebook, caplog, monkeypatch):
    notebook.run("def f(x):\n    y = x * 2\n    os.getpid()\n    return y")
    number = notebook.shell.execution_count - 1
    report = fj.explain(notebook["f"])(np.ones(3))
    assert f"Cell {number}:3:5 f(): FJ002" in str(report)
    assert f"Cell {number}:1" in report._repr_html_()
    assert report.breaks[0]["place"] == f"Cell {number}:3:5"
    assert Path(report.breaks[0]["file"]).name.startswith("<ipython-input")  # linecache knows it by this name
    monkeypatch.setattr(fj.config, "logs", "graph_breaks")
    notebook["f"].__globals__["g"] = fj.jit(notebook["f"])
    with caplog.at_level("INFO", "framejit.graph_breaks"):
        notebook.run("g(np.ones(3))")
    assert f"Cell {number}:3:5 f()" in caplog.text
    InteractiveShell.clear_instance()
    assert f"Cell {number}" not in str(report)


@pytest.mark.capture
def test_in_a_kernel(tmp_path, monkeypatch):
    """The same through ipykernel, whose cells have names of temporary files."""
    pytest.importorskip("ipykernel")
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    folder = tmp_path / "kernels" / "here"
    folder.mkdir(parents=True)
    (folder / "kernel.json").write_text(
        f'{{"argv": ["{sys.executable}", "-m", "ipykernel_launcher", "-f", "{{connection_file}}"], "display_name": "here", "language": "python"}}'
    )
    cells = [
        "import os, numpy as np\n%load_ext framejit",
        BREAKS,
        "import framejit as fj\nprint(fj.explain(breaks)(np.ones(3)))",
    ]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(book, kernel_name="here", timeout=120).execute()
    (shown,) = book.cells[1].outputs
    assert "<h1>Cell 2</h1>" in shown["data"]["text/html"] and "<svg" in shown["data"]["text/html"]
    assert "Cell 2:4:5 breaks(): FJ002" in book.cells[2].outputs[0]["text"]
    assert "ipykernel_" not in str(book.cells)
