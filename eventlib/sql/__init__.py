"""SQL over what is on a log now: the tables of the analytics, as far as they exist live, kept in SQLite beside the log.

It knows the index. Begin with `asking`.
"""

from typing import TYPE_CHECKING

from eventlib.ground.facade import lazy

if TYPE_CHECKING:
    from eventlib.index.tables import LiveTable, live_tables
    from eventlib.sql.asking import Answer, SqlQuery, ask

__all__ = ["Answer", "LiveTable", "SqlQuery", "ask", "live_tables"]

if not TYPE_CHECKING:  # a type checker would take it for a sign that any name is there
    __getattr__ = lazy(__name__)
