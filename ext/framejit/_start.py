"""What importing framejit does beside defining names: reads the environment and connects the compiled half."""

from __future__ import annotations

from framejit import _config, _errors, _platform


def _logs(text: str) -> None:
    from framejit._logs import configure

    configure(text)


def start() -> None:
    """Run once, at the end of the import."""
    if _platform.core is not None:
        _platform.core.set_exceptions(
            _errors.GraphBreakError, _errors.PerformanceWarning, _errors.RecompileLimitWarning
        )
    _config.config._on_change("logs", _logs)
    _config.config._on_change("stress", _config.check_stress)
    _config.read_environment()
    patterns = [pattern for pattern in map(str.strip, _config.config.mark.split(",")) if pattern]
    if patterns:
        from framejit._mark import mark

        mark(*patterns)
