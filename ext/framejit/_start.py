"""The effects of importing framejit, other than defining names: reads the environment and connects the compiled half."""

from __future__ import annotations

import os

from framejit._api import _config, _errors, _moved, _plain, _platform, _threads


def _logs(text: str) -> None:
    from framejit._reporting._logs import configure

    configure(text)


def _stress(text: str) -> None:
    from framejit._api._stress import check_stress

    check_stress(text, "config")


def _perf(text: str) -> None:
    if text not in ("", "map", "jitdump"):
        raise ValueError(f"config.perf must be '', 'map' or 'jitdump', not {text!r}")


def _profitability(text: str) -> None:
    if text not in ("measure", "estimate", "off"):
        raise ValueError(f"config.profitability must be 'measure', 'estimate' or 'off', not {text!r}")


def _trace(file: str) -> None:
    from framejit._reporting._trace import close_running, trace

    close_running()
    if file:
        trace(file)


def start() -> None:
    """Run once, at the end of the import."""
    _moved.find_moved_modules()
    if _platform.core is not None:
        _platform.core.set_exceptions(
            _errors.GraphBreakError, _errors.PerformanceWarning, _errors.RecompileLimitWarning
        )
        _threads.register_controller()
    elif _platform.is_incomplete():
        _plain.say_once(_platform.reason or "")
    _config.config._on_change("logs", _logs)
    for name, hook in (("stress", _stress), ("perf", _perf), ("profitability", _profitability), ("trace", _trace)):
        _config.config._on_change(name, hook)
    _config.read_environment()
    glog = os.environ.get("GLOG_v")  # noqa: SIM112
    if glog is not None:
        from framejit._reporting._logs import configure_glog

        configure_glog(glog)
    patterns = [pattern for pattern in map(str.strip, _config.config.mark.split(",")) if pattern]
    if patterns:
        from framejit._api._mark import mark_targets

        mark_targets(tuple(patterns), None, {})
