"""A recorded log on which inputs were gone before they were read: today's code reads, shows, replays and continues it."""

from pathlib import Path

import pytest

from eventlib import EventLog, open_log
from eventlib.operations.complaints import Limits, complaints
from eventlib.operations.status import StatusReader
from eventlib.replay import replay
from eventlib.replay.key_history import key_history
from tests.commands import said
from tests.golden.losses.record import unpacked
from tests.integration.test_losses import APP, hear, lost, settle, times

WHY = "heard/0: retention, or an operator, has dropped offsets 0 to 4 before they were read; the task was at 0, and goes on at 5"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return unpacked(tmp_path)


async def test_the_loss_is_read_as_it_was_written(url: str) -> None:
    async with open_log(url, APP) as log:
        (step,) = await lost(log)
        assert (step.topic, step.first, step.last, step.detail) == ("heard", 0, 5, WHY)
        assert any(WHY in each for each in complaints(await StatusReader(log).read(), Limits(may_stop=True)))
        await _is_exact(log, 3)
        await hear(log, 1)
        await settle(log)
        await _is_exact(log, 4)


async def _is_exact(log: EventLog, count: int) -> None:
    report = await replay(log)
    assert report.same
    assert report.notes == (f"hears went on without inputs that were gone before it read them: {WHY}",)
    history = await key_history(log, APP.deciders[0], "k")
    assert (len(history.steps), history.doubt, await times(log)) == (count, "", count)


def test_commands_show_what_is_there(url: str) -> None:
    named = "--app", "tests.integration.test_losses:APP", "--log", url
    assert WHY in " ".join(said("replay", *named).split())
    assert '"times":3' in said("state", "hears", "k", "--json", *named)
