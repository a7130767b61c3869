"""A test session with ``--framejit``: marks packages, counts, and sums up at the end."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from typing import Any

import framejit
import pytest
from framejit._reporting._events import listen
from framejit._reporting._format import counted, duration, short_path

_MOST_BREAKS = 5
_SHOWN = ("frames_marked", "frames_captured", "kernels_compiled", "compile_ns", "internal_errors")
_Break = tuple[str, str, str, str]  # id, what, function, place


class Session:
    """The plugin that is registered for a session with a mode.

    Parameters
    ----------
    config : pytest.Config
        The configuration, with the options.
    mode : {'mark', 'strict', 'off'}
        The mode.
    """

    def __init__(self, config: pytest.Config, mode: str) -> None:
        self._mode = mode
        self._packages = _packages(config)
        self._level = config.getoption("--framejit-level") or config.getini("framejit_level") or "O0"
        self._breaks: Counter[_Break] = Counter()
        self._counts: Counter[str] = Counter()
        if mode == "mark" and not self._packages:
            raise pytest.UsageError("--framejit=mark needs --framejit-packages=NAMES or the ini option framejit_packages")
        if self._level not in ("O0", "O1"):
            raise pytest.UsageError(f"the ini option 'framejit_level' must be O0 or O1, not {self._level!r}")
        config.add_cleanup(self._start().close)

    def _start(self) -> ExitStack:
        """Switch the mode on; closing the stack puts everything back."""
        with ExitStack() as stack:
            if self._mode == "off":
                stack.enter_context(framejit.stance("force_eager"))
            else:
                if self._mode == "strict":
                    stack.callback(setattr, framejit.config, "strict", framejit.config.strict)
                    framejit.config.strict = True
                if self._packages:
                    stack.enter_context(framejit.mark(*self._packages, jit_level=self._level))
            stack.callback(listen(self._note_break, ("graph_breaks",)))
            self._before = framejit.stats()
            return stack.pop_all()

    def _note_break(self, _: str, record: dict[str, Any]) -> None:
        what = f"{record['what']}: {record['detail']}" if record.get("detail") else str(record["what"])
        place = f"{short_path(str(record['file']))}:{record['line']}"
        self._breaks[str(record["id"]), what, str(record["function"]), place] += 1

    @pytest.fixture(autouse=True)
    def _framejit_fullgraph(self, request: pytest.FixtureRequest) -> None:
        """In strict mode, a test that is marked with framejit_fullgraph is one with `no_graph_breaks`."""
        if self._mode == "strict" and request.node.get_closest_marker("framejit_fullgraph") is not None:
            request.getfixturevalue("no_graph_breaks")

    def pytest_report_header(self) -> str:
        """One line on what is on."""
        reason = framejit.unsupported_reason()
        what = f"{self._mode}, {self._level}" if self._mode != "off" else "off"
        marked = f", marks {', '.join(self._packages)}" if self._packages and self._mode != "off" else ""
        return f"framejit: {framejit.__version__}, {what}{marked}{f'; captures nothing: {reason}' if reason else ''}"

    def _own_counts(self) -> Counter[str]:
        """The counters since the start, or since a test has reset them."""
        now = framejit.stats()
        return Counter({name: now[name] - self._before[name] * (now[name] >= self._before[name]) for name in _SHOWN})

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Take the counters; a worker of pytest-xdist hands them to the process that started it."""
        self._counts += self._own_counts()
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["framejit"] = (dict(self._counts), [[*key, number] for key, number in self._breaks.items()])

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Add what a worker of pytest-xdist has counted."""
        counts, breaks = getattr(node, "workeroutput", {}).get("framejit", ({}, []))
        self._counts += Counter(counts)
        for *key, number in breaks:
            self._breaks[tuple(key)] += number

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say what was compiled, which graphs broke, and whether there were internal errors."""
        if framejit.unsupported_reason() is not None:
            return
        counts, write = self._counts, terminalreporter.write_line
        terminalreporter.section(f"framejit: {self._mode}")
        write(
            f"compiled code ran in {counts['frames_captured']:,} of {counted(counts['frames_marked'], 'call')} of marked functions; "
            f"{counted(counts['kernels_compiled'], 'kernel')}, compiling took {duration(counts['compile_ns'])}"
        )
        if self._breaks:
            most = len(self._breaks) if terminalreporter.verbosity > 0 else _MOST_BREAKS
            write(f"{counted(self._breaks.total(), 'graph break')} (python -m framejit docs ID explains them):")
            # Those of the project come first, whose paths are relative.
            shown = sorted(self._breaks.items(), key=lambda item: (item[0][3].startswith("/"), -item[1], item[0]))
            for (number, what, function, place), count in shown[:most]:
                write(f"  {number} {place} {function}(): {what}{f' ({count} times)' if count > 1 else ''}")
            if len(self._breaks) > most:
                write(f"  and {len(self._breaks) - most} more, which -v shows")
        if counts["internal_errors"]:
            write(
                f"{counted(counts['internal_errors'], 'internal error')} of framejit; the interpreter ran the code. "
                "--framejit=strict raises them: please report them",
                red=True,
            )


def _packages(config: pytest.Config) -> list[str]:
    """The patterns to mark. A plain name means the module of that name and all below it."""
    given = config.getoption("--framejit-packages") or config.getini("framejit_packages")
    names = [name.strip() for part in given for name in part.split(",") if name.strip()]
    return [
        pattern for name in names for pattern in ((name,) if any(c in name for c in "*?[/") else (name, f"{name}.*"))
    ]
