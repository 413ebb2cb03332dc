"""An application that counts in PostgreSQL, and puts each number into its outbox: `python -m tests.integration.outbox_app URL SEED`."""

import random
import sys
import threading
import time
from dataclasses import dataclass

from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

from eventlib import Choreography, Decider, Event, Service
from eventlib.outbox import SqlAlchemyOutbox

COUNTERS = "abcdefgh"


class Counted(Event, topic="counts", key="counter"):
    """A counter has come to a number."""

    counter: str
    number: int


class Noted(Event, topic="counts", key="counter"):
    """The service has seen it."""

    counter: str
    number: int


@dataclass(frozen=True)
class Highest:
    """The highest number of a counter."""

    number: int = 0


counts = Decider("counts", state=Highest, key="counter")


@counts.evolve
def rise(highest: Highest, event: Event) -> Highest:
    return Highest(event.number) if isinstance(event, Noted) else highest


@counts.on
def note(highest: Highest, event: Counted) -> list[Noted]:
    return [Noted(counter=event.counter, number=event.number)] if event.number > highest.number else []


APP = Choreography("counting", services=[Service("counts", deciders=[counts])])
"""Its service need not run: only the log is looked at."""


def count(url: str, seed: int) -> None:
    """Count until killed: transactions take turns on the counters' rows, wait in their middle, and are sometimes undone."""
    chosen, outbox = random.Random(seed), SqlAlchemyOutbox(APP)
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    while True:
        counter = chosen.choice(COUNTERS)
        try:
            with Session(engine) as session, session.begin():
                up = text("UPDATE counters SET number = number + 1 WHERE counter = :counter RETURNING number")
                number = session.execute(up, {"counter": counter}).scalar_one()
                outbox.put(session, Counted(counter=counter, number=number))
                time.sleep(chosen.choice([0, 0, 0, 0.001, 0.03]))
                if chosen.random() < 0.1:
                    session.rollback()
        except Exception:  # noqa: BLE001  the server may be killed at any moment
            time.sleep(0.05)


def main() -> None:
    """Count in several threads."""
    url, seed = sys.argv[1], int(sys.argv[2])
    for thread in range(4):
        threading.Thread(target=count, args=(url, seed * 10 + thread)).start()


if __name__ == "__main__":
    main()
