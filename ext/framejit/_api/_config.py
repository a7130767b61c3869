"""Settings: each is a field of ``framejit.config`` and an environment variable of the same name."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from framejit._api._platform import core


class Field(NamedTuple):
    """One setting: a row of the generated page docs/config.md."""

    name: str
    default: int | bool | str
    meaning: str
    in_core: bool = False
    at_import: bool = False  # read from the environment at import only

    @property
    def variable(self) -> str:
        """The environment variable."""
        return "FRAMEJIT_" + self.name.upper()


FIELDS = (
    Field(
        "recompile_limit",
        8,
        "how often one function or region is compiled again because values change; other types, dtypes and ranks of arguments "
        "do not count",
        True,
    ),
    Field(
        "num_threads",
        0,
        "threads for kernels; 0: all that CPU affinity, cgroup limits and `OMP_NUM_THREADS` allow",
        True,
    ),
    Field("cpu", "", "instruction set to generate code for: `avx2`, `avx512` (no AMX); empty: what there is", True),
    Field("strict", False, "internal errors raise instead of falling back to the interpreter", True),
    Field("code_bytes_limit", 64 << 20, "machine code to keep, in bytes", True),
    Field(
        "cache_dir",
        "",
        "folder that keeps machine code for other processes: see the page on the [disk cache](disk_cache.md); empty: none, except"
        " for `jit(cache=True)`",
        True,
    ),
    Field(
        "cache_bytes_limit",
        256 << 20,
        "size of the files in `cache_dir`, in bytes, beyond which the oldest ones are removed",
        True,
    ),
    Field(
        "instruction_limit", 20000, "bytecode instructions of one capture; each graph node allows a hundred more", True
    ),
    Field(
        "capture_time_limit",
        50,
        "milliseconds of processor time that one capture may take before it ends where it is, and 100 microseconds more for "
        "each graph node; a fifth of it if no array operation was found; 0, `fullgraph=True` and gradients: no limit",
        True,
    ),
    Field(
        "profitability",
        "measure",
        "what keeps compiled code that is slower than the bytecode from being run: `measure` (an estimate, then the time of some runs of"
        " both), `estimate` or `off`",
        True,
    ),
    Field("passes", "", "passes over the graph that are switched off, as in `-cse,-dce`", True),
    Field("perf", "", "names of kernels for Linux perf: `map` (/tmp/perf-PID.map) or `jitdump` (jit-PID.dump)", True),
    Field("trace", "", "where to write a Chrome trace of the process, as by `trace()`"),
    Field(
        "repro_dir", "", "where the stress mode `verify` writes programs that show a difference; empty: standard error"
    ),
    Field("stress", "", "rare paths made common, for tests: see the page on [stress modes](stress.md)", True),
    Field(
        "progress",
        True,
        "a line on standard error while a compilation takes longer than a second, in terminals and notebooks only",
    ),
    Field("logs", "", "what to log: see the page on logs"),
    Field("stats_file", "", "where to write the counters of `stats()` as JSON at exit"),
    Field("mark", "", "comma list of patterns to mark in place, as by `mark()`", at_import=True),
    Field("disable", False, "marked functions run as plain Python", at_import=True),
)
_MOST = {"num_threads": 2**31 - 1}  # of other numbers: what 64 bits hold
_CPUS = ("", "none", "avx2", "avx512")  # none: tests of a machine that framejit generates no code for
_BY_NAME = {field.name: field for field in FIELDS}
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("", "0", "false", "no", "off")


def _parse(field: Field, text: str) -> int | bool | str:
    if isinstance(field.default, bool):
        if text.lower() not in _TRUE + _FALSE:
            raise ValueError("must be 0 or 1")
        return text.lower() in _TRUE
    if isinstance(field.default, int):
        return int(text)
    return text


def _check(field: Field, value: Any) -> None:
    wanted = type(field.default)
    if wanted is bool and value in (0, 1):
        return
    if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
        raise TypeError(f"config.{field.name} must be {wanted.__name__}, not {type(value).__name__}")
    if isinstance(value, int) and value < 0:
        raise ValueError(f"config.{field.name} must be at least 0, not {value}")
    most = _MOST.get(field.name, 2**63 - 1)
    if isinstance(value, int) and value > most:
        raise ValueError(f"config.{field.name} must be at most {most}, not {value}")
    if field.name == "cpu" and value not in _CPUS:
        raise ValueError(f"config.cpu must be 'avx2', 'avx512' or empty, not {value!r}")
    if field.name == "passes" and core is not None:
        allowed = ["-" + name for name in core.pass_names()]
        for token in str(value).split(",") if value else ():
            if token not in allowed:
                raise ValueError(f"config.passes must be a comma list of {', '.join(allowed)}, not {token!r}")


class Config:
    """The settings of this process.

    Examples
    --------
    >>> import framejit as fj
    >>> fj.config.recompile_limit
    8
    >>> fj.config.recompile_limit = 4
    >>> fj.config.recompile_limit = 8
    """

    if TYPE_CHECKING:  # the settings, for type checkers: as FIELDS has them
        _hooks: dict[str, Callable[[Any], None]]
        _values: dict[str, int | bool | str]
        recompile_limit: int
        num_threads: int
        cpu: str
        strict: bool
        code_bytes_limit: int
        instruction_limit: int
        capture_time_limit: int
        profitability: Literal["measure", "estimate", "off"]
        passes: str
        perf: Literal["", "map", "jitdump"]
        trace: str
        repro_dir: str
        stress: str
        logs: str
        stats_file: str
        progress: bool

        @property
        def mark(self) -> str: ...
        @property
        def disable(self) -> bool: ...

    def __init__(self) -> None:
        object.__setattr__(self, "_values", {field.name: field.default for field in FIELDS})
        object.__setattr__(self, "_hooks", {})

    if not TYPE_CHECKING:  # other names are errors to them
        __slots__ = ("_hooks", "_values")

        def __getattr__(self, name: str) -> Any:
            field = _BY_NAME.get(name)
            if field is None:
                raise AttributeError(f"framejit.config has no setting {name!r}; there are: {', '.join(_BY_NAME)}")
            if field.in_core and core is not None:
                return core.config_get(name)
            return self._values[name]

        def __setattr__(self, name: str, value: Any) -> None:
            field = _BY_NAME.get(name)
            if field is None:
                raise AttributeError(f"framejit.config has no setting {name!r}; there are: {', '.join(_BY_NAME)}")
            if field.at_import:
                raise AttributeError(f"config.{name} is read from {field.variable} when framejit is imported")
            _check(field, value)
            self._set(field, type(field.default)(value))

    def _set(self, field: Field, value: Any) -> None:
        if field.name == "cache_dir" and value:
            value = os.path.abspath(os.path.expanduser(value))  # noqa: PTH100, PTH111  (pathlib takes longer to import)
        hook: Callable[[Any], None] | None = self._hooks.get(field.name)
        if hook is not None:
            hook(value)
        if field.in_core and core is not None:
            core.config_set(field.name, value)
        self._values[field.name] = value

    def _on_change(self, name: str, hook: Callable[[Any], None]) -> None:
        """Calls `hook` with each new value of a setting, before it is stored; it may raise."""
        self._hooks[name] = hook

    def __dir__(self) -> list[str]:
        return list(_BY_NAME)

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return ((name, getattr(self, name)) for name in _BY_NAME)

    def __repr__(self) -> str:
        return "\n".join(f"{name} = {value!r}" for name, value in self)


config: Config = Config()


def set_from_text(name: str, text: str) -> None:
    """Change a setting to what its environment variable would say; raises as an assignment does."""
    setattr(config, name, _parse(_BY_NAME[name], text) if name in _BY_NAME else text)


def changed() -> dict[str, Any]:
    """The settings that are not at their defaults."""
    return {name: value for name, value in config if value != _BY_NAME[name].default}


def read_environment() -> None:
    """Takes the settings from the environment; a variable that is unknown or cannot be read is warned about."""
    known = {field.variable: field for field in FIELDS}
    for variable, text in os.environ.items():
        # FRAMEJIT_TEST_*: of the project's own tests.
        if not variable.startswith("FRAMEJIT_") or variable.startswith("FRAMEJIT_TEST_"):
            continue
        field = known.get(variable)
        if field is None:
            warnings.warn(
                f"{variable} is not a setting of framejit; there are: {', '.join(known)}", UserWarning, stacklevel=3
            )
            continue
        try:
            value = _parse(field, text)
            _check(field, value)
            config._set(field, value)
        except (TypeError, ValueError, OSError) as error:
            warnings.warn(f"ignoring {variable}={text!r}: {error}", UserWarning, stacklevel=3)
