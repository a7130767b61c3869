"""Settings: fields, environment variables, and what is said about wrong ones."""

from __future__ import annotations

import os
import subprocess
import sys

import framejit as fj
import pytest
from framejit._api._config import FIELDS


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


@pytest.fixture
def restored():
    before = dict(fj.config)
    yield
    for field in FIELDS:
        if not field.at_import:
            setattr(fj.config, field.name, before[field.name])


def test_defaults_are_those_of_the_table():
    code = "import framejit; print([v for _, v in framejit.config])"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("FRAMEJIT_") or k == "FRAMEJIT_DISABLE"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str([field.default for field in FIELDS])


@pytest.mark.parametrize("field", [f for f in FIELDS if not f.at_import], ids=lambda f: f.name)
def test_every_field_can_be_set_and_read(field, restored):
    text = {
        "cache_dir": "/nowhere/cache",
        "cpu": "avx2",
        "passes": "-cse,-dce",
        "logs": "recompiles",
        "stats_file": "",
        "stress": "guards,break=3",
        "repro_dir": "repros",
        "perf": "map",
        "profitability": "estimate",
        "trace": os.devnull,
    }
    value = text[field.name] if isinstance(field.default, str) else type(field.default)(1)
    setattr(fj.config, field.name, value)
    assert getattr(fj.config, field.name) == value
    assert type(getattr(fj.config, field.name)) is type(field.default)


@pytest.mark.parametrize("field", FIELDS, ids=lambda f: f.name)
def test_wrong_types(field):
    before = getattr(fj.config, field.name)
    with pytest.raises((TypeError, AttributeError), match=field.name):
        setattr(fj.config, field.name, [1])
    assert getattr(fj.config, field.name) == before


def test_negative_number():
    with pytest.raises(ValueError, match="recompile_limit.*-1"):
        fj.config.recompile_limit = -1
    with pytest.raises(TypeError, match="recompile_limit"):
        fj.config.recompile_limit = True


def test_instruction_sets_that_there_are_not():
    with pytest.raises(ValueError, match="config.cpu must be 'avx2', 'avx512' or empty, not 'sse'"):
        fj.config.cpu = "sse"


def test_unknown_field_lists_the_known_ones():
    with pytest.raises(AttributeError, match="recompile_limit"):
        fj.config.recompile_limits = 3
    with pytest.raises(AttributeError, match="nothing.*num_threads"):
        _ = fj.config.nothing


def test_fields_read_at_import_only():
    with pytest.raises(AttributeError, match="FRAMEJIT_DISABLE"):
        fj.config.disable = True


def test_repr_and_dir():
    assert "recompile_limit = " in repr(fj.config)
    assert "num_threads" in dir(fj.config)


def test_environment():
    done = python(
        "import framejit as fj; print(fj.config.recompile_limit, fj.config.strict, fj.config.passes)",
        FRAMEJIT_RECOMPILE_LIMIT="3",
        FRAMEJIT_STRICT="1",
        FRAMEJIT_PASSES="-cse",
    )
    assert (done.stdout.split(), done.stderr) == (["3", "True", "-cse"], "")


def test_unknown_variable_is_warned_about():
    done = python("import framejit", FRAMEJIT_RECOMPILE_LIMITS="3")
    assert "FRAMEJIT_RECOMPILE_LIMITS" in done.stderr
    assert "FRAMEJIT_RECOMPILE_LIMIT," in done.stderr
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("RECOMPILE_LIMIT", "many"),
        ("STRICT", "perhaps"),
        ("LOGS", "graphs"),
        ("LOGS", "filter=("),
        ("NUM_THREADS", "-2"),
        ("CPU", "sse4"),
    ],
)
def test_unreadable_variable_is_warned_about(variable, text):
    done = python("import framejit; print('imported')", **{f"FRAMEJIT_{variable}": text})
    assert f"FRAMEJIT_{variable}" in done.stderr
    assert text in done.stderr
    assert done.stdout.strip() == "imported"


def test_import_is_silent_and_starts_nothing():
    code = """
import os, signal, sys, threading
import numpy
threads = len(os.listdir("/proc/self/task"))
handlers = [signal.getsignal(s) for s in signal.valid_signals()]
environment = dict(os.environ)
hooks = sys.gettrace(), sys.getprofile(), sys.excepthook, sys.displayhook
modules = set(sys.modules)
import framejit
new = {name.partition(".")[0] for name in sys.modules.keys() - modules}
assert new <= {"framejit", "numpy", *sys.stdlib_module_names}
assert not new & {"difflib", "pathlib", "shutil", "tempfile", "urllib"}  # their import takes as long as that of framejit
assert len(os.listdir("/proc/self/task")) == threads and threading.active_count() == 1
assert handlers == [signal.getsignal(s) for s in signal.valid_signals()]
assert environment == dict(os.environ)
assert hooks == (sys.gettrace(), sys.getprofile(), sys.excepthook, sys.displayhook)
"""
    # threadpoolctl sets this variable.
    environment = {name: value for name, value in os.environ.items() if name != "KMP_DUPLICATE_LIB_OK"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


def test_disable_gives_plain_python():
    code = """
import framejit as fj, types
@fj.jit
def f(x):
    return x + 1
assert isinstance(f, types.FunctionType) and f(1) == 2 and f.cache_entries() == [] and fj.config.disable
assert fj.unsupported_reason() == "FRAMEJIT_DISABLE is set"
assert fj.stats()["frames_marked"] == 0
with fj.mark(f):
    assert f(2) == 3
assert "plain Python" in str(fj.explain(f)(3))
"""
    done = python(code, FRAMEJIT_DISABLE="1")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("plain Python") == 1


@pytest.mark.capture
@pytest.mark.parametrize("text", ["fuse", "-fuse", "-cse;-dce", "-cse, -dce", "-"])
def test_passes_that_there_are_not(text, restored):
    with pytest.raises(ValueError, match=r"config.passes must be a comma list of -canonicalize, .*, not '"):
        fj.config.passes = text
    assert fj.config.passes == ""
