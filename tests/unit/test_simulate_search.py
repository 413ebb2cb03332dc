"""A search shared by processes: it plays the same schedules, and finds the same failure, as in one process."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from eventlib import Choreography, Event
from eventlib.cli import run
from eventlib.errors import ContractError, TerminalError
from eventlib.ground.fork_pool import in_processes
from eventlib.invariants import Fold, invariant
from eventlib.simulation.scenario import Choices, Scenario
from eventlib.simulation.search import Case, Extent, Played, search
from eventlib.simulation.stage import Stage
from tests.apps.bank import APP, Account, Credited, Deposited

pytestmark = pytest.mark.heavy


arrivals = Fold("arrivals", state=Account, key="account")


@arrivals.evolve
def count(account: Account, event: Event) -> Account:
    return replace(account, credited=account.credited + isinstance(event, Credited))


@invariant(arrivals)
def accounts_get_one(account: Account) -> bool:
    """No account gets more than one deposit, which it does when somebody asks again under another id."""
    return account.credited <= 1


@invariant(arrivals)
def accounts_get_a_hundred(account: Account) -> bool:
    """No account gets more than a hundred."""
    return account.credited <= 100


narrow, wide = (
    Choreography("bank", APP.services, invariants=[each]) for each in (accounts_get_one, accounts_get_a_hundred)
)


class Deposits(Scenario):
    def requests(self, orders: int, choose: Choices) -> Sequence[Event]:  # noqa: ARG002  nothing to choose
        return [Deposited(account=f"account {number}", cents=1) for number in range(orders)]

    def ports(self, choose: Choices) -> Mapping[str, object]:  # noqa: ARG002  no outside
        return {}


def found_with(app: Choreography, extent: Extent) -> tuple[object, ...]:
    found = search(Case(Stage(app), Deposits), extent, lambda _played, _shrinks: None)
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
    application = ["--app", f"{__name__}:narrow", "--scenario", f"{__name__}:Deposits", "--json"]
    searched = ["--schedules", "200", "--orders", "3", "--seed", "0", "--workers", "2", "--save", str(path)]
    assert run(["simulate", *searched, *application]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["failure"]["law"] == "accounts_get_one"
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
