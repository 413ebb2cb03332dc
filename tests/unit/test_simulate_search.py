"""A search shared by processes: it plays the same schedules, and finds the same failure, as in one process."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from eventlib import Choreography, Decider, Event, Service
from eventlib.cli import run
from eventlib.errors import ContractError, TerminalError
from eventlib.ground.fork_pool import in_processes
from eventlib.invariants import Fold, invariant
from eventlib.simulation.scenario import Choices, Scenario
from eventlib.simulation.search import Case, Extent, search
from eventlib.simulation.shared import Played
from eventlib.simulation.stage import Stage

pytestmark = pytest.mark.heavy


class PostSubmitted(Event, topic="post", key="box", request=True):
    box: str


class PostArrived(Event, topic="arrivals", key="box"):
    box: str


@dataclass(frozen=True)
class Box:
    arrived: int = 0


boxes = Decider("box", state=Box, key="box")
arrivals = Fold("arrivals", state=Box, key="box")


@boxes.on(PostSubmitted)
def deliver(_box: Box, post: PostSubmitted) -> list[PostArrived]:
    return [PostArrived(box=post.box)]


@arrivals.evolve
def count(box: Box, event: Event) -> Box:
    return replace(box, arrived=box.arrived + isinstance(event, PostArrived))


@invariant(arrivals)
def boxes_hold_one(box: Box) -> bool:
    """No box gets more than one post, which it does when somebody asks again under another id."""
    return box.arrived <= 1


@invariant(arrivals)
def boxes_hold_much(box: Box) -> bool:
    """No box gets more than a hundred."""
    return box.arrived <= 100


narrow, wide = (
    Choreography("post", [Service("post", deciders=[boxes])], facts=[PostSubmitted], invariants=[each])
    for each in (boxes_hold_one, boxes_hold_much)
)


class Post(Scenario):
    def requests(self, orders: int, choose: Choices) -> Sequence[Event]:  # noqa: ARG002  nothing to choose
        return [PostSubmitted(box=f"box {number}") for number in range(orders)]

    def ports(self, choose: Choices) -> Mapping[str, object]:  # noqa: ARG002  no outside
        return {}


def found_with(app: Choreography, extent: Extent) -> tuple[object, ...]:
    found = search(Case(Stage(app), Post), extent, lambda _played, _shrinks: None)
    return found.played, found.failure


def test_of_two_failures_the_first_is_found_however_many_processes_look() -> None:
    extent = Extent(schedules=300, orders=3, seed=8)
    played, failure = alone = found_with(narrow, extent)
    assert isinstance(played, Played)
    assert failure is not None
    assert 100 < played.schedules < 200, "the first and the third hundred are played by others meanwhile"
    assert found_with(narrow, extent._replace(workers=3)) == alone


def test_schedules_without_a_failure_are_all_played_and_counted() -> None:
    extent = Extent(schedules=200, orders=2, seed=1)
    played, failure = alone = found_with(wide, extent)
    assert failure is None
    assert isinstance(played, Played)
    assert (played.schedules, played.orders) == (200, 300)
    assert played.steps > played.orders
    assert {"a process dies", "time passes", "a request comes again"} <= played.faults.keys()
    assert found_with(wide, extent._replace(workers=3)) == alone


def test_a_failure_is_saved_and_breaks_its_law_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "failure.json"
    application = ["--app", f"{__name__}:narrow", "--scenario", f"{__name__}:Post", "--json"]
    searched = ["--schedules", "200", "--orders", "3", "--seed", "0", "--workers", "2", "--save", str(path)]
    assert run(["simulate", *searched, *application]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["failure"]["law"] == "boxes_hold_one"
    assert run(["simulate", "--replay", str(path), *application]) == 1
    assert json.loads(capsys.readouterr().out) == {"file": str(path), "differs": None, "failure": found["failure"]}


def test_a_process_that_dies_is_told() -> None:
    with pytest.raises(TerminalError, match="has died"):
        in_processes(lambda index: os._exit(1) if index else None, 2)


def test_what_a_process_raises_is_raised_where_the_work_was_begun() -> None:
    def work(index: int) -> int:
        if index:
            raise ContractError("not this one")
        return index

    with pytest.raises(ContractError, match="not this one"):
        in_processes(work, 2)
