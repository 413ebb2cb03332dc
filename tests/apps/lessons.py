"""A stranger's choreography with a state that is worth asking about."""

from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from random import Random

from eventlib import Choreography, Decider, Event, EventLog, Meta, Runtime, Service, replace


class Grade(StrEnum):
    """How a pupil stands."""

    NEW = "new"
    GOOD = "good"
    BEST = "best"


class ExamMarked(Event, topic="tests", key="pupil", request=True):
    pupil: str
    school: str
    points: int


class Praised(Event, topic="praise", key="pupil"):
    pupil: str


class SchoolPraised(Event, topic="schools", key="school"):
    school: str
    pupil: str


@dataclass(frozen=True)
class Pupil:
    school: str | None = None
    points: int = 0
    since: datetime | None = None
    marks: tuple[int, ...] = ()
    average: Decimal = field(default_factory=Decimal)

    @property
    def grade(self) -> Grade:
        return Grade.NEW if len(self.marks) < 2 else Grade.BEST if self.points > 100 else Grade.GOOD


pupils = Decider("pupil", state=Pupil, key="pupil")


@pupils.evolve
def learn(pupil: Pupil, event: Event, meta: Meta) -> Pupil:
    match event:
        case ExamMarked():
            since = pupil.since or meta.recorded_at
            points, marks = pupil.points + event.points, (*pupil.marks, event.points)
            return replace(pupil, school=event.school, points=points, since=since, marks=marks)
        case _:
            return pupil


@pupils.on
def praise(pupil: Pupil, exam: ExamMarked, meta: Meta) -> list[Praised | SchoolPraised]:
    if pupil.grade is not Grade.BEST:
        return []
    key = meta.subject or ""
    return [Praised(pupil=exam.pupil), SchoolPraised(school=exam.school, pupil=exam.pupil or key)]


@pupils.forget
def has_left(pupil: Pupil) -> datetime | None:
    return pupil.since if pupil.points < 0 else None


APP = Choreography("lessons", [Service("lessons", deciders=[pupils])])
INDEXES = [("school", "points"), ("grade",), ("since",), ("school", "grade", "since")]


async def sit_tests(log: EventLog, count: int, seed: int = 1) -> dict[str, tuple[str, int, int]]:
    """Publish tests, let the service decide them, and return each pupil's school, points and number of tests."""
    random, expected = Random(seed), dict[str, tuple[str, int, int]]()
    async with Runtime(log) as runtime:
        for n in range(count):
            pupil = f"p{random.randrange(count // 4):03}"
            school, points = f"s{int(pupil[1:]) % 3}", random.randrange(60)
            await log.publish(ExamMarked(pupil=pupil, school=school, points=points), idempotency_key=f"{seed}/{n}")
            _, before, tests = expected.get(pupil, (school, 0, 0))
            expected[pupil] = school, before + points, tests + 1
        await runtime.idle()
    return expected
