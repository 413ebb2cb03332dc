"""Events put within a transaction of an application's own PostgreSQL database, which `eventlib outbox relay` brings to the log.

It knows operations and the loop of sinks. Begin with `relay`.
"""

from typing import TYPE_CHECKING

from eventlib.ground.facade import lazy

if TYPE_CHECKING:
    from eventlib.outbox.django.outbox import DjangoOutbox
    from eventlib.outbox.rows import TABLE_SQL, rows_of
    from eventlib.outbox.sqlalchemy import SqlAlchemyOutbox

__all__ = ["TABLE_SQL", "DjangoOutbox", "SqlAlchemyOutbox", "rows_of"]

if not TYPE_CHECKING:
    __getattr__ = lazy(__name__)
