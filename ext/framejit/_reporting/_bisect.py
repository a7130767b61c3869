"""``python -m framejit bisect``: which part of the compiler makes a program's result differ from plain Python's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from framejit._api._platform import core


class Variant(NamedTuple):
    """A way to run a program under the stress mode ``verify``."""

    name: str
    passes: str = ""
    stress: str = "verify"
    cpu: str = ""
    threads: str = ""


class Outcome(NamedTuple):
    """What a run showed."""

    differs: bool
    programs: tuple[str, ...]  # one for each region that differs, as text
    error: str = ""  # if the program did not end well: the last line that it wrote


Run = Callable[[Variant], Outcome]

EVERYTHING = Variant("all passes, this processor")
INTERPRETED = Variant("graphs run by the reference interpreter", stress="verify,interp")
ONE_THREAD = Variant("one thread", threads="1")
AVX2 = Variant("AVX2 only", cpu="avx2")


def without(*passes: str) -> Variant:
    """All passes but these."""
    return Variant("without " + ", ".join(passes), passes=",".join("-" + name for name in passes))


def run_program(command: Sequence[str], jit_level: str, variant: Variant) -> Outcome:
    """Run a script (its file and arguments) in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        stats, programs = Path(folder, "stats.json"), Path(folder, "programs")
        environment = {
            **os.environ,
            "FRAMEJIT_PASSES": variant.passes,
            "FRAMEJIT_CPU": variant.cpu or os.environ.get("FRAMEJIT_CPU", ""),
            "FRAMEJIT_NUM_THREADS": variant.threads or os.environ.get("FRAMEJIT_NUM_THREADS", "0"),
            "FRAMEJIT_REPRO_DIR": str(programs),
            "FRAMEJIT_PROFITABILITY": "off",  # the same regions in each run
        }
        options = ["--jit-level", jit_level, "--stress", variant.stress, "--stats-file", str(stats)]
        done = subprocess.run(
            [sys.executable, "-m", "framejit", *options, *command],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        found = tuple(path.read_text(encoding="utf-8") for path in sorted(programs.glob("*.py")))
        errors = json.loads(stats.read_text())["internal_errors"] if stats.exists() else 0
        lines = done.stderr.strip().splitlines()
        failed = lines[-1] if done.returncode != 0 and lines else ""
        return Outcome(bool(found) or errors > 0, found, failed)


def bisect(run: Run, passes: Sequence[str], say: Callable[[str], None]) -> str:
    """Say how each variant ends, and return what is at fault: a pass, ``"codegen"``, ``"threads"``, ``"capture"`` or ``""``."""

    def differs(variant: Variant) -> bool:
        outcome = run(variant)
        say(f"  {'differs' if outcome.differs else 'as plain':<9} {variant.name}")
        return outcome.differs

    first = run(EVERYTHING)
    say(f"  {'differs' if first.differs else 'as plain':<9} {EVERYTHING.name}")
    if first.error:
        say(f"            the program ended with: {first.error}")
    if not first.differs:
        say("\nNo region differs from the bytecode in this program.")
        return ""
    if not differs(without(*passes)):
        for name in passes:
            if not differs(without(name)):
                say(f"\nThe pass {name} is at fault: without it nothing differs (graph/passes/).")
                return name
        say("\nSeveral passes together are at fault: without all of them nothing differs (graph/passes/).")
        return "passes"
    if differs(INTERPRETED):
        say(
            "\nThe graph is at fault, not its machine code: capture made another one than the bytecode means (capture/)."
        )
        return "capture"
    if not differs(ONE_THREAD):
        say("\nThreads are at fault: on one thread nothing differs (runtime/).")
        return "threads"
    differs(AVX2)
    say(
        "\nThe machine code is at fault (codegen/), or a function that it calls: where the reference interpreter runs the"
    )
    say("graphs, nothing differs. It runs no custom operators.")
    return "codegen"


def main(command: Sequence[str], jit_level: str = "O0") -> int:
    """Bisect a script; returns the exit status: 1 if something differs."""
    assert core is not None
    passes = core.pass_names()
    programs: tuple[str, ...] = ()

    def run(variant: Variant) -> Outcome:
        nonlocal programs
        outcome = run_program(command, jit_level, variant)
        programs = programs or outcome.programs
        return outcome

    fault = bisect(run, passes, print)
    for text in programs[:1]:
        print("\nA program that shows it:\n")
        print(text)
    return 1 if fault else 0
