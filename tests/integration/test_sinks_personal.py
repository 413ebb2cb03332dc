"""Who is forgotten is forgotten by sinks, too: their hook is called, and what comes later comes erased."""

from pathlib import Path

import pytest
from sqlalchemy import Engine, MetaData, delete, text
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from eventlib import open_log
from eventlib.sinks import SqlSink
from eventlib.sinks.applying import Sinking
from eventlib.sinks.database import SinkDatabase
from examples.letters import LetterSubmitted, app
from tests.integration.planted_people import erased


class Base(DeclarativeBase):
    metadata = MetaData()


class Address(Base):
    __tablename__ = "addresses"
    letter_id: Mapped[str] = mapped_column(primary_key=True)
    customer_id: Mapped[str]
    name: Mapped[str]


book = SqlSink("book", app, tables=Base.metadata)


@book.on
def enter(letter: LetterSubmitted, session: Session) -> None:
    session.merge(Address(letter_id=letter.letter_id, customer_id=letter.customer_id, name=letter.name))


@book.on_erasure
def strike(subject: str, session: Session) -> None:
    session.execute(delete(Address).where(Address.customer_id == subject))


def letter(number: int) -> LetterSubmitted:
    return LetterSubmitted(letter_id=f"{number}", customer_id=f"c{number % 2}", name="Ada", street="S", city="C")


async def written(work: Sinking, database: Engine) -> list[tuple[str, str]]:
    while await work.step(0.1):
        pass
    with database.connect() as connection:
        found = connection.execute(text("SELECT letter_id, name FROM book.addresses ORDER BY letter_id")).all()
    return [(row.letter_id, row.name) for row in found]


@pytest.mark.usefixtures("master_key")
async def test_a_forgotten_person_goes_from_the_tables(database_url: str, database: Engine, tmp_path: Path) -> None:
    log_url = f"sqlite:///{tmp_path}/letters.db"
    async with open_log(log_url, app) as log:
        work = Sinking(log, SinkDatabase(database_url, book))
        await work.begin(range(8))
        await log.publish_many([letter(1), letter(2)])
        assert await written(work, database) == [("1", "Ada"), ("2", "Ada")]
        await erased(log, log_url, "c1")
        assert await written(work, database) == [("2", "Ada")]
        await log.publish_many([letter(3), letter(4)])
        assert await written(work, database) == [("2", "Ada"), ("3", "[erased]"), ("4", "Ada")]
        await work.end()
        await work.database.close()
