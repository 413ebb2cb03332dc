"""A sink of the counting application: what was counted, and how often, in PostgreSQL."""

from collections.abc import Sequence

from sqlalchemy import MetaData, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from eventlib import Meta
from eventlib.outbox import SqlAlchemyOutbox
from eventlib.sinks import SqlSink
from tests.integration.outbox_app import APP, Counted, Noted


class Base(DeclarativeBase):
    metadata = MetaData()


class Total(Base):
    """How often a counter was counted, and the sum: an event that counts twice, or not, shows."""

    __tablename__ = "totals"
    counter: Mapped[str] = mapped_column(primary_key=True)
    events: Mapped[int]
    total: Mapped[int]
    trail: Mapped[str]


LEAST = 0
"""A number below it cannot be counted with."""

totals = SqlSink("totals", APP, tables=Base.metadata)


@totals.on
def counted(event: Counted, session: Session, meta: Meta) -> None:
    """Add to a counter's row; what is too small is no number."""
    if event.number < LEAST:
        raise ValueError(f"{event.number} is no number to count with")
    total = session.get(Total, event.counter) or Total(counter=event.counter, events=0, total=0, trail="")
    total.events += 1
    total.total += event.number
    total.trail += f"{meta.partition}/{meta.offset} "
    session.add(total)


many = SqlSink("many", APP, tables=Base.metadata)


@many.on
async def counted_many(events: Sequence[Counted], session: AsyncSession) -> None:
    """Add to the rows of several at once."""
    keys = {event.counter for event in events}
    found = {row.counter: row for row in await session.scalars(select(Total).where(Total.counter.in_(keys)))}
    for event in events:
        row = found.setdefault(event.counter, Total(counter=event.counter, events=0, total=0, trail=""))
        row.events += 1
        row.total += event.number
        session.add(row)


echo = SqlSink("echo", APP)
outbox = SqlAlchemyOutbox(APP, [Counted], name="answers")


@echo.on
def answered(event: Noted, session: Session) -> None:
    """Answer by the outbox, within the transaction in which the event is taken."""
    if event.number < 3:
        outbox.put(session, Counted(counter=event.counter, number=event.number + 1))
