"""Choreographies that a seed makes: events of every kind, keyed by their saga or by a part of it, that end, fail, reverse, wait and park."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from random import Random
from types import new_class
from typing import Any, Union

from eventlib import Choreography, Decider, Event, Runtime, Service, open_log
from eventlib.model.event import contract_of

_FAR = datetime(2100, 1, 1, tzinfo=UTC)
SEEDS = range(4)


@dataclass(frozen=True)
class Known:
    """What a decider knows of a saga or of a part of one."""

    seen: int = 0
    waits: bool = False


class World:
    """The outside world, which answers some questions, and others never."""

    async def answer(self, text: str) -> str:
        """Return an answer, raise, or wait."""
        if text.endswith("0"):
            await asyncio.Event().wait()
        if text.endswith("1"):
            raise TypeError("nobody foresaw this")
        return text


def _event(name: str, topic: str, key: str, reason: type | None = None, **declared: Any) -> Any:
    """Return a class of events; each has the saga, the part, and maybe a reason."""
    fields: dict[str, Any] = {"story_id": str, "part_id": str} | ({} if reason is None else {"reason": reason})

    def body(namespace: dict[str, Any]) -> None:
        namespace |= {"__annotations__": fields, "__module__": __name__, "__doc__": f"{name} happened."}

    return new_class(name, (Event,), {"topic": topic, "key": key, **declared}, body)


def _made(event: Any, cause: Any, reason: str = "") -> Any:
    values: dict[str, Any] = {"story_id": cause.story_id, "part_id": cause.part_id}
    if "reason" in event.model_fields:
        values["reason"] = len(reason) if event.model_fields["reason"].annotation is int else reason
    return event(**values)


def _steps(name: str, chance: Random) -> list[Any]:
    """Return events of every kind, some with the saga as their key, some with a part of it."""
    ends = chance.random() < 0.8
    steps = list[Any]()
    for number in range(chance.randint(3, 6)):
        declared: dict[str, Any] = {}
        if chance.random() < 0.4:
            declared["failure"] = True
        if steps and chance.random() < 0.3:
            declared["reverses"] = chance.choice(steps)
        if ends and (chance.random() < 0.3 or number == 2):
            declared["final"] = True
        key = "part_id" if not declared.get("final") and chance.random() < 0.4 else "story_id"
        reason = chance.choice([None, str, str, int])
        steps.append(_event(f"Step{number}", f"{name}.{key}", key, reason, **declared))
    return steps


def choreography(seed: int) -> tuple[Choreography, Any]:
    """Return a choreography, and the class of its requests, whose part says what is to happen: `012` is three events."""
    chance, name = Random(seed), f"made{seed}"
    asked = _event("Asked", f"{name}.requests", "story_id", request=True)
    steps = _steps(name, chance)
    question = _event("Questioned", f"{name}.questions", "story_id")
    answered = _event("Answered", f"{name}.questions", "story_id", str)
    stories = Decider(f"{name}-story", state=Known, key="story_id")

    def act(_known: Known, request: Any) -> Any:
        if "bug" in request.part_id:
            raise KeyError(request.part_id)
        wanted = [steps[int(digit) % len(steps)] for digit in request.part_id if digit.isdigit()]
        asks = [_made(question, request)] if "q" in request.part_id else []
        return [*(_made(event, request, f"for {request.part_id}") for event in wanted), *asks]

    def evolved(known: Known, event: Event) -> Known:
        return replace(known, seen=known.seen + 1, waits=isinstance(event, question) or known.waits)

    def give_up_at(known: Known) -> datetime | None:
        return _FAR if known.waits else None

    async def ask_world(request: Any, world: World) -> Any:
        return _made(answered, request, await world.answer(request.story_id))

    def expire(_known: Known) -> None:
        return

    act.__annotations__ = {"_known": Known, "request": asked, "return": list[Union[(*steps, question)]]}  # type: ignore[valid-type]  # made as it runs
    ask_world.__annotations__ = {"request": question, "world": World, "return": answered}
    stories.evolve(evolved)
    stories.on(act)
    stories.effect(question)(ask_world)
    stories.deadline(give_up_at).passed(expire)  # type: ignore[arg-type]  # it emits nothing
    return Choreography(name, [_stories(name, stories), *_parts(name, steps)], ports=outside), asked


def _stories(name: str, decider: Decider[Any]) -> Service:
    return Service(f"{name}-stories", deciders=[decider], effects="all")


def _parts(name: str, steps: list[Any]) -> list[Service]:
    """Return a service that goes on by the part's key, if an event has that one; what it says is a step of the saga, too."""
    told = next((each for each in steps if contract_of(each).key == "part_id"), None)
    if told is None:
        return []
    closed = _event("Closed", f"{name}.closed", "part_id", str, final=True, failure=True)
    parts = Decider(f"{name}-part", state=Known, key="part_id")

    def close(_known: Known, heard: Any) -> Any:
        if "bug" in heard.part_id:
            raise KeyError(heard.part_id)
        return [_made(closed, heard, "closed")]

    close.__annotations__ = {"_known": Known, "heard": told, "return": list[closed]}  # type: ignore[valid-type]  # as above
    parts.on(close)
    return [Service(f"{name}-parts", deciders=[parts])]


@asynccontextmanager
async def outside(_url: str) -> AsyncIterator[Mapping[str, object]]:
    """Open the outside world."""
    yield {"world": World()}


MADE = {f"made{seed}": choreography(seed) for seed in SEEDS}
globals().update({name: app for name, (app, _) in MADE.items()})


async def filled(name: str, url: str, count: int = 24) -> None:
    """Make a log of a choreography: sagas that end, fail, wait for the world, and are parked."""
    app, asked = MADE[name]
    chance = Random(name)
    async with open_log(url, app) as log, Runtime(log, ports={"world": World()}) as runtime:
        for number in range(count):
            part = "".join(chance.choice("01234q") for _ in range(chance.randint(0, 4)))
            part += "bug" * (chance.random() < 0.15)
            await log.publish(asked(story_id=f"s{number}", part_id=f"{part}-{number // 2}"))
        with suppress(TimeoutError):
            async with asyncio.timeout(8):
                await runtime.idle()
