"""What takes its process down, each time that it is handled, is parked, and all else goes on."""

import os
from pathlib import Path

import pytest

from eventlib import open_log
from eventlib.operations.complaints import Limits, complaints
from eventlib.operations.status import StatusReader
from eventlib.queries.parked import parkings
from eventlib.replay import replay
from tests import forked
from tests.integration.losing_app import Asked, Over, app
from tests.operators import request_retry

pytestmark = pytest.mark.heavy

MOST = 12
WORDS = "its owner was lost 3 times while handling it alone"
TOGETHER = 2
"""So many owners are lost before what they had in hand is handled one by one."""


class Place:
    """A log, and the processes that run its service one after the other."""

    def __init__(self, directory: Path) -> None:
        self.url = f"sqlite:///{directory}/log.db"
        self._directory = directory
        (directory / "marks").mkdir()

    async def ask(self, *names: str) -> None:
        async with open_log(self.url, app) as log:
            await log.publish_many([Asked(name=name) for name in names])

    def run(self, **settings: str) -> int:
        """Run processes until one has done all that it can; return how many died before."""
        environment = {**os.environ, "MARKS": str(self._directory / "marks"), **settings}
        command = ["python", "-m", "tests.integration.losing_app", self.url]
        for died in range(MOST):
            if forked.run(command, env=environment, capture_output=True).returncode == 0:
                return died
        return MOST

    async def parked(self) -> dict[str, str]:
        """Return why each errand is parked."""
        async with open_log(self.url, app) as log:
            return {each.key: each.reason for each in await parkings(log)}

    async def over(self) -> set[str]:
        """Return the errands that are over, and check that a replay does what was done."""
        async with open_log(self.url, app) as log:
            ends = [log.decode(record) for record in await log.port.read("got", 0, 0, 10_000)]
            report = await replay(log)
            assert report.same, report
            assert not report.unknown
            return {each.name for each in ends if isinstance(each, Over)}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.parametrize("how", ["exit", pytest.param("segv", marks=pytest.mark.extended)])
@pytest.mark.parametrize("where", ["handler", "effect", "deadline"])
async def test_what_takes_three_owners_down_alone_is_parked_and_others_go_on(
    place: Place, where: str, how: str
) -> None:
    good = {f"good-{number}" for number in range(30)}
    bad = f"{where}-{how}"
    await place.ask(*sorted(good)[:20], bad, *sorted(good)[20:])
    assert place.run() == TOGETHER + 3
    assert await place.over() == good
    ((key, reason),) = (await place.parked()).items()
    assert (key, WORDS in reason) == (bad, True)


async def test_an_effect_that_waits_at_a_limit_is_parked_when_its_turn_takes_three_owners_down(place: Place) -> None:
    await place.ask("good-1", "effect-exit", "good-2")
    assert place.run(A_SECOND="0.8") <= TOGETHER + 2 + 3  # while two are lost, good ones have their turns
    assert await place.over() == {"good-1", "good-2"}
    ((key, reason),) = (await place.parked()).items()
    assert (key, WORDS in reason) == ("effect-exit", True)


@pytest.mark.parametrize("where", ["handler", "effect", "deadline"])
async def test_owners_lost_together_and_twice_alone_park_nothing(place: Place, where: str) -> None:
    bad = f"{where}-times-{TOGETHER + 2}"
    await place.ask("good-1", bad, "good-2")
    assert place.run() == TOGETHER + 2
    assert await place.over() == {"good-1", bad, "good-2"}
    assert await place.parked() == {}


async def test_losses_of_different_inputs_are_not_added_up(place: Place) -> None:
    names = [f"handler-times-{TOGETHER + number}" for number in (2, 4)]
    await place.ask(*names)
    assert place.run() == TOGETHER + 4
    assert (await place.over(), await place.parked()) == ({*names}, {})


@pytest.mark.parametrize("where", ["handler", "effect"])
async def test_a_retry_runs_it_again_and_a_guilty_one_is_not_run_for_ever(place: Place, where: str) -> None:
    bad = f"{where}-times-{TOGETHER + 3}"
    await place.ask(bad)
    assert place.run() == TOGETHER + 3
    assert [*await place.parked()] == [bad]
    async with open_log(place.url, app) as log:
        await request_retry(log, (await parkings(log))[0], "ada")
    assert place.run() == 0
    assert (await place.over(), await place.parked()) == ({bad}, {})


@pytest.mark.parametrize("where", ["handler", "effect"])
async def test_a_retry_of_a_guilty_one_parks_it_again(place: Place, where: str) -> None:
    await place.ask(f"{where}-exit", "good")
    assert place.run() == TOGETHER + 3
    async with open_log(place.url, app) as log:
        await request_retry(log, (await parkings(log))[0], "ada")
    assert place.run() == TOGETHER + 3
    assert [*await place.parked()] == [f"{where}-exit"]
    assert await place.over() == {"good"}


async def test_the_number_of_owners_is_a_setting(place: Place) -> None:
    await place.ask("handler-exit")
    assert place.run(EVENTLIB_LOST_OWNERS="0") == MOST
    assert place.run(EVENTLIB_LOST_OWNERS="2") == TOGETHER - 1 + 2  # and one before
    assert [*await place.parked()] == ["handler-exit"]


async def test_it_is_shown_with_its_reason(place: Place) -> None:
    await place.ask("effect-exit", "handler-exit")
    place.run()
    async with open_log(place.url, app) as log:
        status = await StatusReader(log).read()
        assert any("parked" in each for each in complaints(status, Limits()))
