"""Errands, some of which take their process down: `python -m tests.integration.losing_app URL`.

A name says how its errand ends in a WHERE (`handler`, `effect` or `deadline`): `WHERE-exit`, `WHERE-segv` and `WHERE-block`
do each time, `WHERE-times-N` does in the first N processes, which files in the directory of `MARKS` count. `A_SECOND` is
how many effects go out each second, if that is limited.
"""

import asyncio
import os
import signal
import sys
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from eventlib import Choreography, Decider, Event, Meta, Runtime, Service, Topic, open_log
from eventlib.config.settings import runtime_config
from eventlib.limits import Limit

GOT = Topic("got", partitions=1)


class Asked(Event, topic=Topic("asked", partitions=1), key="name", request=True):
    """An errand is asked for."""

    name: str


class Wanted(Event, topic=Topic("wanted", partitions=1), key="name"):
    """Something is to be got."""

    name: str


class Got(Event, topic=GOT, key="name"):
    """It was got."""

    name: str


class Over(Event, topic=GOT, key="name", final=True):
    """The errand is over."""

    name: str


@dataclass(frozen=True)
class Errand:
    """What is known of an errand."""

    got: bool = False


BLOCKS_S = float(os.environ.get("BLOCKS_S", "3600"))
errands: Decider[Errand] = Decider("errand", state=Errand, key="name")


def end_in(where: str, name: str) -> None:
    """End, or block, the process if an errand's name says so."""
    here, _, how = name.partition("-")
    if here != where:
        return
    if how.startswith("times-") and "MARKS" in os.environ:
        marks = Path(os.environ["MARKS"])
        before = len([*marks.iterdir()])
        if before < int(how.split("-")[1]):
            (marks / str(before)).touch()
            os._exit(3)
    elif how.startswith("segv"):
        os.kill(os.getpid(), signal.SIGSEGV)
    elif how.startswith("exit"):
        os._exit(3)
    elif how.startswith("block"):
        time.sleep(BLOCKS_S)


@errands.evolve
def _evolve(errand: Errand, event: Event) -> Errand:
    return replace(errand, got=isinstance(event, Got))


@errands.on(Asked)
def _ask(_errand: Errand, asked: Asked) -> list[Wanted]:
    end_in("handler", asked.name)
    return [Wanted(name=asked.name)]


errands.follows(Got)


@errands.deadline
def late(errand: Errand) -> datetime | None:
    """Return when an errand is over: long ago, once it was done."""
    return datetime(2020, 1, 1, tzinfo=UTC) if errand.got else None


@late.passed
def _end(_errand: Errand, meta: Meta) -> list[Over]:
    end_in("deadline", meta.subject)
    return [Over(name=meta.subject)]


@errands.effect(Wanted)
async def _get(wanted: Wanted) -> Got:
    end_in("effect", wanted.name)
    return Got(name=wanted.name)


LIMITS: dict[str | type[Event], Limit] = (
    {Wanted: Limit(per_second=float(os.environ["A_SECOND"]))} if "A_SECOND" in os.environ else {}
)
app = Choreography("losing", [Service("errands", deciders=[errands], limits=LIMITS)])


async def run(url: str) -> None:
    """Run the service until all is done."""
    async with open_log(url, app) as log, Runtime(log, config=runtime_config()) as runtime:
        await runtime.idle()


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1]))
