"""Events folded into an application's own PostgreSQL database, each once, within its transactions: `eventlib sink run`.

It knows the event log. Begin with `consuming`.
"""

from typing import TYPE_CHECKING

from eventlib.ground.facade import lazy

if TYPE_CHECKING:
    from eventlib.sinks.declaration import SqlSink
    from eventlib.sinks.django import DjangoInbox
    from eventlib.sinks.simulated import SimulatedSink

__all__ = ["DjangoInbox", "SimulatedSink", "SqlSink"]

if not TYPE_CHECKING:
    __getattr__ = lazy(__name__)
