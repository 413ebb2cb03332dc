"""What a server shows of a rerun: one moment of it; without the right to personal fields no value, where an application has such."""

from pathlib import Path

import pytest

from eventlib import open_log
from eventlib.model.choreography import Choreography
from eventlib.operations.reprocessing.comparison import Difference, EventDifference, StateDifference
from eventlib.operations.reprocessing.jobs import RerunJob, RerunJobs
from eventlib.operations.reprocessing.metadata import RerunSpec
from eventlib.personal import MASKED
from eventlib.replay.comparison import Change
from examples.letters import app as letters
from services import shop

CHANGE = Change("name", "Grace Hopper", "Ada Lovelace")


@pytest.mark.parametrize(
    ("app", "sees_personal", "shown"),
    [(letters, True, CHANGE), (letters, False, Change("name", MASKED, MASKED)), (shop, False, CHANGE)],
    ids=["an operator", "an auditor", "an auditor, nothing personal"],
)
def test_values_that_differ_are_masked(app: Choreography, *, sees_personal: bool, shown: Change) -> None:
    event = EventDifference("other", "letter", "L1", "id", 0, "LetterSent", "LetterSent", [CHANGE])
    found = Difference([], [event], [StateDifference("letter", "L1", [CHANGE])], [], [], 0)
    job = RerunJob("letters", "again", RerunSpec("ada: a try"), difference=found)
    seen = job.difference_for(app, sees_personal=sees_personal)
    assert seen is not None
    assert [*seen.events[0].changes, *seen.states[0].changes] == [shown, shown]


async def test_what_is_shown_of_a_job_is_one_moment_of_it(tmp_path: Path) -> None:
    """A page that read a running job's outcome (none yet), and then its status (done), showed neither, and never looked again."""
    async with open_log(f"sqlite:///{tmp_path}/log.db", shop) as log:
        jobs = RerunJobs(log, str(tmp_path))
        job = await jobs.begin(RerunJob("stock", "again", RerunSpec("ada: a try")))
        shown = jobs.job("stock", "again")
        job.done = 7
        later = jobs.job("stock", "again")
        await jobs.close()
    assert shown is not None
    assert later is not None
    assert (shown.done, later.done) == (0, 7)
