"""Logs of a process: text for people, or one JSON object a line for machines, with the saga that a line is about.

What an event holds is never in them by itself: ids, types and names are.
"""

import json
import logging
import os
import sys
from datetime import UTC, datetime
from typing import Any, Literal

from eventlib.errors import EventlibError
from eventlib.eventlog import CALLER, SAGA

LogFormat = Literal["text", "json"]
LogLevel = Literal["DEBUG", "INFO", "WARNING", "ERROR"]

_TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_TOLD = logging.getLogger("eventlib.told")
"""Messages of commands to their users."""


class JsonFormatter(logging.Formatter):
    """One line of JSON for each record; `trace_id`, `span_id` and `correlation_id` where something is done for a saga."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as a line."""
        found: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "process": os.getpid(),
        }
        traceparent, saga = CALLER.get(), SAGA.get()
        if traceparent is not None:
            found |= {"trace_id": traceparent[3:35], "span_id": traceparent[36:52]}
        if saga is not None:
            found["correlation_id"] = saga
        if record.exc_info:
            found["exception"] = self.formatException(record.exc_info)
        return json.dumps(found, ensure_ascii=False)


class TextFormatter(logging.Formatter):
    """A line for each record; a traceback below it, but for errors of ours: their sentence is what helps."""

    def formatException(self, ei: Any) -> str:  # noqa: N802  logging's name
        """Return what stands below a record's line."""
        return "" if isinstance(ei[1], EventlibError) else super().formatException(ei)


def set_up_logging(form: LogFormat, level: LogLevel) -> None:
    """Let this process log to stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter(_TEXT))
    logging.basicConfig(level=level, handlers=[handler])
    if form == "json":
        _TOLD.setLevel(logging.INFO)


def is_json() -> bool:
    """Tell whether this process logs for machines."""
    return _TOLD.level == logging.INFO


def tell(sentence: str) -> None:
    """Print a sentence on stderr for the user of a command."""
    if is_json():
        _TOLD.info(sentence)
    else:
        sys.stderr.write(sentence + "\n")
        sys.stderr.flush()
