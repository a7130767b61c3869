"""Messages of programs on standard error, as MindSpore's module of that name writes them.

The level is that of the environment variable GLOG_v when the module is imported: 0 for all messages, to 4 for the critical ones only.
"""

from __future__ import annotations

import logging
import os
from typing import Any

__all__ = ["critical", "debug", "error", "get_level", "get_log_config", "info", "warning"]

_LEVELS = {"0": logging.DEBUG, "1": logging.INFO, "2": logging.WARNING, "3": logging.ERROR, "4": logging.CRITICAL}
_DEFAULT = "2"
_FORMAT = "[%(levelname)s] ME(%(process)d:%(thread)d,%(processName)s):%(asctime)s.%(msecs)03d.000 [%(pathname)s:%(lineno)d] %(message)s"


def get_level() -> str:
    """The level of GLOG_v, as a digit."""
    level = os.environ.get("GLOG_v", _DEFAULT)  # noqa: SIM112  MindSpore's name
    return level if level in _LEVELS else _DEFAULT


def get_log_config() -> dict[str, str]:
    """The settings: the level, and that messages go to standard error."""
    return {"GLOG_v": get_level(), "GLOG_logtostderr": "1"}


def _made() -> logging.Logger:
    made = logging.getLogger("ME")
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(_FORMAT, "%Y-%m-%d-%H:%M:%S"))
    made.addHandler(handler)
    made.setLevel(_LEVELS[get_level()])
    made.propagate = False
    return made


_logger = _made()


def _message(level: int, text: Any, args: tuple[Any, ...], options: dict[str, Any]) -> None:
    _logger.log(level, text, *args, **{"stacklevel": 3, **options})


def debug(msg: Any, *args: Any, **kwargs: Any) -> None:
    """Write a message of the level 0; `args` are put into the text."""
    _message(logging.DEBUG, msg, args, kwargs)


def info(msg: Any, *args: Any, **kwargs: Any) -> None:
    """Write a message of the level 1; `args` are put into the text."""
    _message(logging.INFO, msg, args, kwargs)


def warning(msg: Any, *args: Any, **kwargs: Any) -> None:
    """Write a message of the level 2; `args` are put into the text."""
    _message(logging.WARNING, msg, args, kwargs)


def error(msg: Any, *args: Any, **kwargs: Any) -> None:
    """Write a message of the level 3; `args` are put into the text."""
    _message(logging.ERROR, msg, args, kwargs)


def critical(msg: Any, *args: Any, **kwargs: Any) -> None:
    """Write a message of the level 4; `args` are put into the text."""
    _message(logging.CRITICAL, msg, args, kwargs)
