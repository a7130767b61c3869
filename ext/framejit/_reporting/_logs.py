"""Logs: ``FRAMEJIT_LOGS`` and ``config.logs`` choose what goes to the loggers ``framejit.<channel>``."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from framejit._reporting._events import CHANNELS, listen
from framejit._reporting._format import format_event, source_line

TOKENS = {
    **CHANNELS,
    "all": "every channel",
    "filter=<regex>": "only functions whose name matches",
    "dir=<path>": "also write each channel to <path>/<channel>.log",
    "help": "print this table",
}


class Wanted(NamedTuple):
    """What a comma list of tokens asks for."""

    channels: tuple[str, ...]
    pattern: re.Pattern[str] | None
    folder: Path | None


def parse(text: str) -> Wanted:
    """Read the tokens; raises `ValueError` that lists them for one that is unknown."""
    channels: dict[str, None] = {}
    pattern, folder = None, None
    for token in filter(None, (part.strip() for part in text.split(","))):
        if token in CHANNELS:
            channels[token] = None
        elif token == "all":
            channels.update(dict.fromkeys(CHANNELS))
        elif token.startswith("filter="):
            try:
                pattern = re.compile(token.removeprefix("filter="))
            except re.error as error:
                raise ValueError(f"{token!r} is not a regular expression: {error}") from None
        elif token.startswith("dir="):
            folder = Path(token.removeprefix("dir="))
        elif token == "help":
            sys.stderr.write(help_text())
        else:
            raise ValueError(f"{token!r} is not a token of FRAMEJIT_LOGS; there are: {', '.join(TOKENS)}")
    return Wanted(tuple(channels), pattern, folder)


def help_text() -> str:
    """The table of tokens."""
    width = max(map(len, TOKENS))
    rows = (f"  {token:<{width}}  {meaning}\n" for token, meaning in TOKENS.items())
    return "FRAMEJIT_LOGS, a comma list of:\n" + "".join(rows)


_stop: Callable[[], None] | None = None
_handlers: list[tuple[Any, Any]] = []


def configure(text: str) -> None:
    """Switch the channels of `text` on and all others off."""
    global _stop
    wanted = parse(text)
    if _stop is not None:
        _stop()
        _stop = None
    while _handlers:
        logger, handler = _handlers.pop()
        logger.removeHandler(handler)
        handler.close()
    if not wanted.channels:
        return
    import logging

    if wanted.folder is not None:
        wanted.folder.mkdir(parents=True, exist_ok=True)
    for channel in wanted.channels:
        logger = logging.getLogger("framejit." + channel)
        logger.setLevel(logging.INFO)
        formatter = logging.Formatter("%(name)s: %(message)s")
        if wanted.folder is not None:
            _attach(logger, logging.FileHandler(wanted.folder / f"{channel}.log", "w", "utf-8"), formatter)
        elif not logger.hasHandlers():
            # Nobody has set logging up, so the text goes where warnings go.
            _attach(logger, logging.StreamHandler(), formatter)

    def log(channel: str, record: dict[str, Any]) -> None:
        if wanted.pattern is None or wanted.pattern.search(str(record.get("function", ""))):
            logging.getLogger("framejit." + channel).info("%s", format_event(channel, record))

    _stop = listen(log, wanted.channels)


GLOG_LEVELS = {"0": "DEBUG", "1": "INFO", "2": "WARNING", "3": "ERROR", "4": "CRITICAL"}


def configure_glog(level: str) -> None:
    """Set the level of the logger ``framejit`` as ``GLOG_v`` asks; on info it tells what falls back to the interpreter."""
    if level not in GLOG_LEVELS:
        raise ValueError(f"GLOG_v must be one of {', '.join(GLOG_LEVELS)}, not {level!r}")
    import logging

    logger = logging.getLogger("framejit")
    logger.setLevel(GLOG_LEVELS[level])
    if not logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
        logger.addHandler(handler)
    if logger.isEnabledFor(logging.INFO):
        listen(_log_fallback, ("graph_breaks",))


def _log_fallback(_: str, record: dict[str, Any]) -> None:
    if record.get("capture_mode") != "ast":
        return
    import logging

    logging.getLogger("framejit").info(
        "Found unsupported syntax in Graph mode, those codes would be fallen back to Python interpreter:\n%s",
        source_line(str(record["file"]), int(record["line"])).strip(),
    )


def _attach(logger: Any, handler: Any, formatter: Any) -> None:
    handler.setFormatter(formatter)
    logger.addHandler(handler)
    _handlers.append((logger, handler))
