"""The places that the READMEs name for a new kind of guard and a new opcode are all of them: with these edits, in copies of the files, the sources
that see the row compile; without the last one the compiler asks for it."""

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest

import framejit

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = Path(framejit.__file__).parent.parent / "compile_commands.json"

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not COMMANDS.exists(), reason="needs the commands of a build"),
]

# For each file: what is replaced by what, once.
GUARD = {
    "capture/guard.h": ("  X(Identity, 1, true)", "  X(IsEven, 3, true) X(Identity, 1, true)"),
    "capture/guard.cpp": ("    case GuardKind::Identity:", '    case GuardKind::IsEven: return x + " % 2 == 0";\n    case GuardKind::Identity:'),
    "ext/guards/guard_program.cpp": (
        "      case GuardOp::Identity:",
        "      case GuardOp::IsEven: ok = PyObject_Size(object(m, i->a)) % 2 == 0; break;\n      case GuardOp::Identity:",
    ),
}
SEES_GUARDS = [
    "capture/guard.cpp",
    "ext/guards/guard_program.cpp",
    "ext/guards/guard_program_compile.cpp",
    "ext/guards/guard_program_explain.cpp",
]
OPCODE = {
    "capture/code_view.h": ("  X(Nop, stack_op)", "  X(Rotate, stack_op) X(Nop, stack_op)"),
}
SEES_OPCODES = ["capture/code_view.cpp", "capture/symbolic_frame.cpp", "capture/handlers_basic.cpp"]


def compile_copies(folder, edits, sources):
    """What the compiler says of the sources where the edits are made."""
    for name in {*edits, *sources}:
        text = (ROOT / name).read_text(encoding="utf-8")
        if name in edits:
            old, new = edits[name]
            assert text.count(old) == 1, name
            text = text.replace(old, new)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    errors = ""
    for entry in json.loads(COMMANDS.read_text(encoding="utf-8")):
        name = str(Path(entry["file"]).resolve().relative_to(ROOT)) if ROOT in Path(entry["file"]).resolve().parents else ""
        if name not in sources:
            continue
        words = shlex.split(entry["command"])
        command = words[1:] if "ccache" in Path(words[0]).name else words
        command = [word for word in command if word not in ("-MD", entry["file"])]
        for option in ("-o", "-MT", "-MF"):
            if option in command:
                at = command.index(option)
                del command[at : at + 2]
        done = subprocess.run(
            [command[0], f"-I{folder}", *command[1:], "-fsyntax-only", str(folder / name)],
            cwd=entry["directory"], capture_output=True, text=True, timeout=300,
        )
        errors += done.stderr
    return errors


@pytest.mark.parametrize(("edits", "sources"), [(GUARD, SEES_GUARDS), (OPCODE, SEES_OPCODES)], ids=["guard", "opcode"])
def test_these_places_are_enough(tmp_path, edits, sources):
    assert compile_copies(tmp_path, edits, sources) == ""


@pytest.mark.parametrize("forgotten", ["capture/guard.cpp", "ext/guards/guard_program.cpp"])
def test_the_compiler_asks_for_what_was_forgotten(tmp_path, forgotten):
    edits = {name: edit for name, edit in GUARD.items() if name != forgotten}
    assert re.search(r"IsEven.* not handled in switch", compile_copies(tmp_path, edits, [forgotten]))


def test_the_readmes_name_the_places():
    text = (ROOT / "ext" / "README.md").read_text(encoding="utf-8")
    (recipe,) = re.findall(r"^- \*\*a kind of guard\*\*(.*?)\*\*a kind of source", text, re.MULTILINE | re.DOTALL)
    assert all(Path(name).name in recipe for name in GUARD)
    text = (ROOT / "capture" / "README.md").read_text(encoding="utf-8")
    (recipe,) = re.findall(r"^- \*\*an opcode\*\*(.*?)^- \*\*", text, re.MULTILINE | re.DOTALL)
    assert all(Path(name).name in recipe for name in OPCODE)
