"""The magics of IPython: ``%framejit`` and ``%%framejit``."""

from __future__ import annotations

import ast
import linecache
import sys
import weakref
from collections.abc import Callable
from inspect import CO_COROUTINE
from types import FrameType
from typing import Any

from IPython.core import magic
from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from IPython.display import display

from framejit._api._config import config, set_from_text
from framejit._api._jit import BACKENDS, CAPTURE_MODES, JIT_LEVELS, jit
from framejit._api._platform import core, reason
from framejit._notebook._annotate import Annotation, report_of
from framejit._notebook._marking import MarkFunctions
from framejit._reporting._cells import cell_name
from framejit._reporting._explain import explain
from framejit._reporting._info import brief, show_config
from framejit._reporting._reasons import reasons

_silenced_by_semicolon = getattr(magic, "output_can_be_silenced", lambda function: function)  # from IPython 8.9 on
_DECORATOR = "_framejit_mark"  # a name of the user's namespace, while a cell runs
_EXPLAIN = "_framejit_explain"
_FLAGS = ("fullgraph", "dynamic")
_VALUES = ("capture_mode", "jit_level", "backend")


def _calling_cell() -> str | None:
    """The file name of the cell that is running."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and cell_name(frame.f_code.co_filename) is None:
        frame = frame.f_back
    return None if frame is None else frame.f_code.co_filename


@magics_class
class FramejitMagics(Magics):
    """``%framejit`` shows and changes settings, ``%%framejit`` marks the functions that a cell defines."""

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self._functions: list[weakref.ref[Any]] = []

    @line_magic("framejit")
    def settings(self, line: str) -> None:
        """Show what framejit does here, or change a setting.

        ::

            %framejit                      version, whether functions are captured, settings that were changed
            %framejit info                 versions, processor and all settings, for bug reports
            %framejit report               the annotated source of the functions that %%framejit marked
            %framejit explain f(x)         calls f and shows what was compiled, as framejit.explain(f)(x) does
            %framejit docs FJ002           why graphs break: one reason, or a list of all
            %framejit NAME                 the value of a setting
            %framejit NAME=VALUE           changes it, as framejit.config.NAME = VALUE does
        """
        command, *rest = line.split() or [""]
        name, equals, value = (part.strip() for part in line.partition("="))
        if not line.strip():
            print(brief())
        elif command == "explain":
            display(self._explain(line.strip().removeprefix("explain").strip()))
        elif equals or (name in dir(config) and not rest):
            self._setting(name, value if equals else None)
        elif command == "docs":
            self._docs(rest)
        elif command in ("info", "report") and not rest:
            show_config() if command == "info" else self._report()
        else:
            raise UsageError(
                f"%framejit does not know {line.strip()!r}; it takes nothing, 'info', 'report', 'explain f(x)', 'docs [ID ...]' "
                f"or a setting: "
                f"{', '.join(dir(config))}"
            )

    def _explain(self, source: str) -> Any:
        """The report of a call, which is given as source."""
        try:
            call = ast.parse(source, "<%framejit explain>", "eval").body
        except SyntaxError:
            call = None
        if not isinstance(call, ast.Call):
            raise UsageError(f"%framejit explain takes a call such as f(x), but got {source!r}")
        names = {**self.shell.user_ns, _EXPLAIN: explain}
        call.func = ast.copy_location(ast.Call(ast.Name(_EXPLAIN, ast.Load()), [call.func], []), call.func)
        expression = ast.fix_missing_locations(ast.Expression(call))
        return eval(compile(expression, "<%framejit explain>", "eval"), names)

    def _setting(self, name: str, value: str | None) -> None:
        try:
            if value is not None:
                set_from_text(name, value)
            print(f"{name} = {getattr(config, name)!r}")
        except (AttributeError, TypeError, ValueError) as error:
            raise UsageError(f"%framejit {name}={value}: {error}") from None

    def _docs(self, ids: list[str]) -> None:
        known = reasons()
        if not known:
            raise UsageError(f"%framejit docs needs the compiled half: {reason}")
        for number in map(str.upper, ids):
            if number not in known:
                raise UsageError(f"there is no reason {number!r}; '%framejit docs' alone lists all")
            print(known[number].text())
        if not ids:
            print("\n".join(f"{each.id} {each.what}" for each in known.values()))

    def _report(self) -> None:
        functions = [function for reference in self._functions if (function := reference()) is not None]
        if not functions:
            raise UsageError("%framejit report: no function was marked by %%framejit yet")
        display(report_of("Functions of this notebook", functions))

    @magic_arguments()
    @argument("-l", "--level", "--jit-level", dest="jit_level", choices=JIT_LEVELS, help="as jit_level of framejit.jit")
    @argument("--capture-mode", choices=CAPTURE_MODES, help="as capture_mode of framejit.jit")
    @argument("--backend", choices=BACKENDS, help="as backend of framejit.jit")
    @argument("--fullgraph", action="store_true", help="each function must be one graph; a graph break is an error")
    @argument("--dynamic", action="store_true", help="sizes of arrays may vary from the first call on")
    @argument(
        "-a", "--annotate", action="store_true", help="after the cell has run, show its source with what was compiled"
    )
    @_silenced_by_semicolon
    @cell_magic("framejit")
    def compile_cell(self, line: str, cell: str) -> Any:
        """Mark the functions that the cell defines, as ``@framejit.jit`` does, then run the cell."""
        __tracebackhide__ = True
        options = parse_argstring(self.compile_cell, line)
        arguments = {name: value for name in _VALUES if (value := getattr(options, name)) is not None}
        arguments |= {name: True for name in _FLAGS if getattr(options, name)}
        file, run = self._compiled(line, cell)
        if not options.annotate:
            self._install(arguments)
            return run()
        annotation = Annotation(cell_name(file) or "Cell", file)
        self._install(arguments)
        before = core is not None and core.set_measuring(True)
        try:
            return run()
        finally:
            if core is not None:
                core.set_measuring(before)
            display(annotation.finish())

    def _compiled(self, line: str, cell: str) -> tuple[str, Callable[[], Any]]:
        """The file name of the cell, and a function that runs it and returns the value of an expression at its end."""
        history = self.shell.history_manager.input_hist_raw
        raw = history[-1].rstrip() if history else ""
        above = raw.removesuffix(cell.rstrip())
        if not above or above == raw:
            above = f"%%framejit {line}"
        # The lines above the cell's text are kept as comments, so that lines have the numbers that one sees. IPython takes
        # away empty lines at the beginning.
        lines = [f"# {text}" for text in above.splitlines()]
        lines += [""] * cell[: len(cell) - len(cell.lstrip())].count("\n")
        source = "".join(f"{text}\n" for text in lines) + self.shell.transform_cell(cell)
        file = _calling_cell()
        if file is None:
            file = self.shell.compile.cache(source, self.shell.execution_count)
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        marker = MarkFunctions(_DECORATOR)
        with self.shell.compile.extra_flags(ast.PyCF_ALLOW_TOP_LEVEL_AWAIT):
            tree = marker.visit(self.shell.transform_ast(self.shell.compile.ast_parse(source, filename=file)))
            last = None
            if tree.body and isinstance(tree.body[-1], ast.Expr) and self.shell.ast_node_interactivity != "none":
                last = self.shell.compile(ast.Expression(tree.body.pop().value), file, "eval")
            body = self.shell.compile(tree, file, "exec")
        if marker.left:
            print(f"%%framejit: not marked, because of their decorators: {', '.join(marker.left)}", file=sys.stderr)
        elif not marker.marked:
            print("%%framejit: the cell defines no function, so nothing is marked", file=sys.stderr)
        if any(code is not None and code.co_flags & CO_COROUTINE for code in (body, last)):
            raise UsageError("%%framejit runs no 'await' outside of functions: move it to a cell of its own")

        def run() -> Any:
            __tracebackhide__ = True
            try:
                exec(body, self.shell.user_ns)
                return None if last is None else eval(last, self.shell.user_ns)
            finally:
                self.shell.user_ns.pop(_DECORATOR, None)

        return file, run

    def _install(self, arguments: dict[str, Any]) -> None:
        decorate = jit(**arguments)

        def mark(function: Any) -> Any:
            marked = decorate(function)
            self._functions.append(weakref.ref(marked))
            return marked

        self.shell.user_ns[_DECORATOR] = mark
