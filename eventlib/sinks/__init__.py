"""Events folded into an application's own PostgreSQL database, each once, within its transactions: `eventlib sink run`."""

from typing import TYPE_CHECKING

from eventlib.facade import lazy

if TYPE_CHECKING:
    from eventlib.sinks.declaration import SqlSink

__all__ = ["SqlSink"]

if not TYPE_CHECKING:
    __getattr__ = lazy(__name__, {"sinks.declaration": ["SqlSink"]})
