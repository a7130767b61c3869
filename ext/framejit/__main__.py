"""``python -m framejit``: run a script or module with its functions compiled where they stand."""

from __future__ import annotations

import argparse
import builtins
import contextlib
import io
import os
import runpy
import sys
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m framejit",
        description="Runs a script or module with its functions compiled where they stand. `explain` then says what was compiled, "
        "what was not, and why.",
        usage="%(prog)s [options] (-m MODULE | SCRIPT) [ARGS ...]\n       %(prog)s explain [options] (-m MODULE | SCRIPT) [ARGS ...]\n       %(prog)s info\n       %(prog)s docs [FJ...]\n       %(prog)s cache [--clear]\n       %(prog)s [--jit-level L] bisect SCRIPT [ARGS ...]",
    )
    parser.add_argument(
        "--mark",
        action="append",
        metavar="PATTERN",
        help="which functions: a pattern on their module's "
        "name, or on the file name if it has a / (default: those of the script)",
    )
    parser.add_argument("--jit-level", default="O0", choices=("O0", "O1"), metavar="L", help="O0 (default) or O1")
    parser.add_argument("--stress", metavar="S", help="comma list of stress modes, for tests")
    parser.add_argument("--as-mindspore", action="store_true", help="`import mindspore` gives framejit")
    parser.add_argument(
        "--report",
        type=Path,
        metavar="DIR",
        help="write report.html and report.json into DIR, and a line on standard error",
    )
    parser.add_argument("--stats-file", type=Path, metavar="F", help="write the counters as JSON")
    parser.add_argument("--version", action="version", version=f"framejit {_version()}")
    parser.add_argument("-m", dest="module", metavar="MODULE", help="run a module")
    return parser


def _version() -> str:
    from framejit import __version__

    return __version__


def _show_docs(parser: argparse.ArgumentParser, ids: list[str]) -> None:
    """Print why graphs break: the entries of the given reasons, or a list of all."""
    from framejit._api._platform import reason
    from framejit._reporting._reasons import reasons

    known = reasons()
    if not known:
        parser.error(f"docs needs the compiled half: {reason}")
    if not ids:
        for each in known.values():
            print(each.id, each.what)
    for number in map(str.upper, ids):
        if number not in known:
            parser.error(f"there is no reason {number!r}; `docs` alone lists all")
        print(known[number].text())


@contextlib.contextmanager
def _until_closed() -> Iterator[None]:
    """Output for a program that may stop reading, as `head` and pagers do."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is flushed at exit


def _cache(parser: argparse.ArgumentParser, arguments: list[str]) -> None:
    """Say what the disk cache holds, or remove it."""
    from framejit._api._platform import core, reason
    from framejit._files._disk_cache import clear, contents

    if core is None:
        parser.error(f"cache needs the compiled half: {reason}")
    if arguments not in ([], ["--info"], ["--clear"]):
        parser.error(f"cache takes --info (default) or --clear, not {' '.join(arguments)!r}")
    if not core.cache_folder():
        parser.error("cache needs a folder: set FRAMEJIT_CACHE_DIR or HOME")
    folder = Path(core.cache_folder())
    found = clear(folder) if arguments == ["--clear"] else contents(folder)
    verb = "removed" if arguments == ["--clear"] else "holds"
    print(f"{folder}: {verb} {found.files} files, {found.bytes} bytes, for {found.builds} builds and processors")


def _bisect(parser: argparse.ArgumentParser, command: list[str], jit_level: str) -> int:
    from framejit._api._platform import core, reason
    from framejit._reporting import _bisect

    if core is None:
        parser.error(f"bisect needs the compiled half: {reason}")
    if not command or not Path(command[0]).is_file():
        parser.error(f"bisect needs a script{f'; there is no file {command[0]!r}' if command else ''}")
    return _bisect.main(command, jit_level)


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Our own arguments, and what is left for the program."""
    own: list[str] = []
    rest = list(arguments)
    takes_value = {"--mark", "--jit-level", "--stress", "--report", "--stats-file"}
    while rest:
        head = rest[0]
        if head == "-m":
            own += rest[:2]
            return own, rest[2:]
        if head.startswith("-m") and not head.startswith("--"):
            own += ["-m", head[2:]]
            return own, rest[1:]
        if not head.startswith("-") or head == "-":
            return own, rest
        count = 2 if head in takes_value else 1
        own += rest[:count]
        rest = rest[count:]
    return own, rest


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; gives the exit status."""
    own, program = _split(sys.argv[1:] if arguments is None else arguments)
    explains = "-m" not in own and program[:1] == ["explain"] and not Path("explain").is_file()
    if explains:
        further, program = _split(program[1:])
        own += further
    parser = _parser()
    options = parser.parse_args(own)
    commands = options.module is None and not explains
    if commands and (program == ["info"] or program[:1] == ["docs"]) and not Path(program[0]).is_file():
        with _until_closed():
            if program[0] == "docs":
                _show_docs(parser, program[1:])
            else:
                from framejit import show_config

                show_config()
        return 0
    if commands and program[:1] == ["cache"] and not Path("cache").is_file():
        _cache(parser, program[1:])
        return 0
    if commands and program[:1] == ["bisect"] and not Path("bisect").is_file():
        return _bisect(parser, program[1:], options.jit_level)
    if options.module is None and not program:
        parser.error("a script or -m MODULE is needed")
    if options.module is None and not Path(program[0]).exists():
        parser.error(f"there is no file {program[0]!r}")
    if options.stress is not None:
        from framejit._api._stress import check_stress

        try:
            options.stress = check_stress(options.stress, "--stress")
        except ValueError as error:
            parser.error(str(error))
    return _run(options, program, explains)


def _run(options: argparse.Namespace, program: list[str], explains: bool) -> int:
    from framejit._api._mark import mark_targets
    from framejit._api._platform import core
    from framejit._api._stats import stats, write_stats

    if options.as_mindspore:
        from framejit._mindspore._mindspore import install

        install()
    report: Any = None
    if options.report is not None or explains:
        from framejit._reporting._report import Recorder

        report = Recorder()
    before = sys.argv[:], sys.path[:], sys.modules["__main__"]
    failed = False
    handle = mark_targets(tuple(options.mark or ["__main__"]), options.stress, {"jit_level": options.jit_level})
    try:
        if options.module is not None:
            _prepare([options.module, *program], str(Path.cwd()))
            runpy.run_module(options.module, run_name="__main__", alter_sys=True)
        else:
            _prepare(program, str(Path(program[0]).resolve().parent))
            _run_script(program[0])
    except Exception as error:
        failed = True
        _show(error)
        return 1
    finally:
        if report is not None:
            report.finish()
        lines = [] if options.report is None else [report.save(options.report)]
        asks = options.mark or not options.as_mindspore  # programs for MindSpore mark their functions themselves
        if core is not None and asks and not failed and stats()["frames_marked"] == 0:
            lines.insert(0, _nothing_called(options.mark))
        if sys.stderr is not None:
            with contextlib.suppress(ValueError, OSError):  # the program has closed it
                sys.stderr.writelines(f"{line}\n" for line in lines)
        if explains and sys.stdout is not None:
            with contextlib.suppress(ValueError, OSError):
                print(report.text())
        handle.close()
        if options.stats_file is not None:
            write_stats(options.stats_file)
        sys.argv, sys.path[:], sys.modules["__main__"] = before
    return 0


def _nothing_called(patterns: Sequence[str] | None) -> str:
    """Why a program ran without any function that would have been compiled."""
    if patterns:
        wanted = " or ".join(map(repr, patterns))
        return (
            f"framejit: nothing was compiled: no function in a module named {wanted} was called. A pattern with a / is "
            "compared with file names."
        )
    return (
        "framejit: nothing was compiled: the program called no function of its own. Code outside of functions stays "
        "bytecode: put it into a function. --mark PATTERN compiles functions of other modules."
    )


def _prepare(argv: list[str], folder: str) -> None:
    sys.argv = argv
    if not sys.flags.safe_path:
        # As the interpreter does: the script's folder, or the current one, comes first, and `python -m framejit`'s own is gone.
        sys.path[:1] = [folder]


def _run_script(file: str) -> None:
    """Run a script as ``__main__``, as ``python file`` does."""
    file = os.path.abspath(file)  # noqa: PTH100  (links are not followed)
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=file, __builtins__=builtins, __loader__=None, __spec__=None)
    with io.open_code(file) as stream:
        code = compile(stream.read(), file, "exec", dont_inherit=True)
    sys.modules["__main__"] = module
    exec(code, module.__dict__)


def _show(error: Exception) -> None:
    """Print the traceback as the interpreter does, without the frames of this file and of `runpy`."""
    traceback = error.__traceback__
    ours = (__file__, runpy.__file__, "<frozen runpy>")
    while traceback is not None and traceback.tb_frame.f_code.co_filename in ours:
        traceback = traceback.tb_next
    sys.excepthook(type(error), error.with_traceback(traceback), traceback)


if __name__ == "__main__":
    raise SystemExit(main())
