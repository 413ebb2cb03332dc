"""`eventlib prove diff` and `bisect`: what two versions of the code decide differently on a recorded log, which lines do, what it comes to."""

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from xml.etree import ElementTree as ET

import pytest

from eventlib.cli import run
from tests.commands import ended
from tests.integration.repository import FOR_A_REASON, RAISES, REFUNDS, SURCHARGE, WAIVES, Repository
from tests.saga.shop_runs import ROOT

Diff = Callable[..., tuple[int, str]]


@pytest.fixture
def diff(filled: str) -> Diff:
    """Run the command; return its exit code, and what it prints."""

    def compared(*arguments: str) -> tuple[int, str]:
        done = ended("prove", "diff", *arguments, "--log", filled, by=run)
        return done.returncode, done.stdout + done.stderr

    return compared


def test_what_a_change_comes_to_and_the_lines_that_do_it(repository: Repository, diff: Diff) -> None:
    code, text = diff("recorded")
    assert code == 0
    assert text.startswith("Nothing differs from recorded, in ")
    repository.change(SURCHARGE)
    code, text = diff("recorded", "--format", "json")
    found = json.loads(text)
    assert code == 1
    (group,) = found["groups"]
    assert (group["handler"], group["input"], group["kind"], group["delta"]) == (
        *("payment/payment.charge", "StockReserved", "other"),
        ["~ChargeRequested"],
    )
    assert sorted(group["sagas"]) == ["broken", "completed", "declined", "large"]
    assert found["totals"] == [{"type": "ChargeRequested", "events": 0, "measures": {"EUR": "19.80"}}]
    assert group["lines"] == [f"{repository.line('+ (495 if')} in charge"]
    example = group["example"]
    (before,), (after,) = example["before"], example["after"]
    assert after["facts"] == {**before["facts"], "amount_cents": before["facts"]["amount_cents"] + 495}


def test_differences_are_grouped_and_each_has_its_smallest_example(repository: Repository, diff: Diff) -> None:
    repository.change(
        RAISES,
        REFUNDS,
        FOR_A_REASON,
    )
    code, text = diff("recorded")
    assert code == 1
    headline, *rest = text.splitlines()
    assert headline.startswith("2 sagas differ, in 3 of ")
    assert headline.endswith(": 1 ChargeRequested less (-30.00 EUR), 2 RefundRequested more (+32.50 EUR), 1 parked.")
    told = "\n".join(rest)
    assert "payment/payment.charge on StockReserved raises, so that the input is parked (-ChargeRequested)" in told
    assert "  KeyError: 'MT'" in told
    assert "payment/payment.taken on PaymentTaken emits something now (+RefundRequested)" in told
    assert f"changed and run: {repository.line('raise KeyError')} in charge" in told
    assert "the smallest: large, " in told
    command = next(line for line in rest if "eventlib debug large" in line).split()
    assert command[:3] == ["eventlib", "debug", "large"]


@pytest.mark.extended
def test_two_revisions_are_compared_with_each_other_not_with_the_past(repository: Repository, diff: Diff) -> None:
    repository.change(SURCHARGE)
    repository.commit("surcharge")
    repository.change(("# no money is kept", "# as it was"))
    repository.commit("same")
    assert diff("surcharge..same")[0] == 0
    repository.change(RAISES)
    repository.commit("raises")
    repository.git("checkout", "--quiet", "recorded")
    assert diff("recorded")[0] == 0
    (parked,) = json.loads(diff("same..raises", "--format", "json")[1])["groups"]
    assert (parked["kind"], parked["sagas"], parked["delta"]) == ("raises", ["large"], ["-ChargeRequested"])
    assert parked["example"]["before"][0]["facts"]["amount_cents"] == 12 * 250 + 495
    back = json.loads(diff("raises..recorded", "--format", "json")[1])["groups"]
    assert {(each["kind"], *each["sagas"]) for each in back} == {
        ("recovers", "large"),
        ("other", "broken", "completed", "declined"),
    }


def test_a_line_that_changes_the_state_is_named_too(repository: Repository, diff: Diff) -> None:
    repository.change(
        ("                amount_cents=event.amount_cents,\n", "                amount_cents=event.amount_cents + 1,\n")
    )
    repository.change(REFUNDS, FOR_A_REASON)
    (group,) = json.loads(diff("recorded", "--format", "json")[1])["groups"]
    assert group["lines"] == [
        f"{repository.line('amount_cents + 1')} in follow",
        f"{repository.line('money.order_id')} in taken",
        f"{repository.line('a change')} in _refund",
    ]


def test_what_a_change_declares_is_expected_and_nothing_else(repository: Repository, diff: Diff) -> None:
    repository.change(SURCHARGE)
    code, text = diff("recorded", "--accept", "France pays the postage")
    assert (code, text.split(" declared in ")[0]) == (0, "1 kind of difference")
    code, text = diff("recorded")
    assert code == 0
    assert "expected: France pays the postage" in text
    repository.change(WAIVES)
    code, text = diff("recorded", "--format", "junit")
    assert code == 1
    suite = ET.fromstring(text)[0]  # noqa: S314  our own
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    failed = [case.get("name") for case in suite if case.find("failure") is not None]
    assert failed == ["payment/payment.charge on StockReserved emits nothing now (-ChargeRequested)"]
    repository.git("checkout", "--quiet", "--", "services")
    code, text = diff("recorded")
    assert code == 0
    assert "Expected, and not there: payment/payment.charge on StockReserved, other ~ChargeRequested" in text
    (repository.directory / "expected-differences.toml").write_text('[[difference]]\nhandler = "payment"\n')
    code, text = diff("recorded")
    assert (code, "difference 1 needs 'input', a text" in text) == (1, True)


def test_a_pull_request_and_a_code_scanner_can_read_it(repository: Repository, diff: Diff) -> None:
    repository.change(SURCHARGE)
    code, text = diff("recorded", "--format", "markdown")
    assert code == 1
    assert text.startswith("## Differences: <code>the working tree</code> against <code>recorded</code>\n")
    assert "| payment/payment.charge on StockReserved emits other events (~ChargeRequested) | 4 | 4 | <code>" in text
    assert "-   amount_cents: 250\n+   amount_cents: 745\n```" in text
    sarif = json.loads(diff("recorded", "--format", "sarif")[1])
    (run_,) = sarif["runs"]
    (result,) = run_["results"]
    assert run_["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "other"
    place = result["locations"][0]["physicalLocation"]
    told = f"{place['artifactLocation']['uri']}:{place['region']['startLine']}"
    assert told == repository.line("+ (495 if")


def test_the_commit_that_first_decides_otherwise_is_found(repository: Repository, filled: str) -> None:
    repository.change(("# no money is kept", "# as it was"))
    repository.commit("still right")
    repository.change(("payments = Decider(", "payments = Decider)"))
    repository.commit("cannot be imported")
    repository.change(("payments = Decider)", "payments = Decider("), RAISES)
    repository.commit("wrong")
    for number in range(3):
        repository.change(("# as it was", f"# {number}\n# as it was"))
        repository.commit(f"later {number}")

    def bisected(*arguments: str) -> CompletedProcess[str]:
        return ended("prove", "bisect", *arguments, "--log", filled)

    found = json.loads(bisected("--from", "recorded", "--json").stdout)
    assert found["commit"]["subject"] == "wrong"
    assert (found["first"]["saga"], found["touched"], len(found["skipped"])) == ("large", [], 1)
    assert [group["kind"] for group in found["diff"]["groups"]] == ["raises"]
    assert found["tried"] <= 5
    backwards = bisected("--from", "later-2", "--to", "recorded")
    assert "no commit leads from later-2 to recorded" in backwards.stderr
    assert "decides as recorded does" in bisected("--from", "recorded", "--to", "still-right").stderr
    other = bisected("--from", "recorded", "--key", "completed")
    assert (other.returncode, "HEAD decides as recorded does" in other.stderr) == (1, True)


def test_what_cannot_be_compared_is_told_with_its_remedy(
    repository: Repository, diff: Diff, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert diff("nowhere") == (1, f"eventlib: {repository.directory}: there is no revision 'nowhere'\n")
    assert "names no two revisions" in diff("..main")[1]
    repository.change(("payments = Decider(", "payments = Decider)"))
    code, text = diff("recorded")
    assert code == 1
    assert "the working tree: app 'services:shop' cannot be imported" in text
    assert "services/payment/decider.py:" in text
    repository.git("rm", "-r", "--quiet", "--force", "services")
    repository.commit("elsewhere")
    code, text = diff("recorded..elsewhere")
    assert code == 1
    assert f"elsewhere: the application's module services comes from {ROOT}/services" in text
    (tmp_path / "alone").mkdir()
    monkeypatch.chdir(tmp_path / "alone")
    assert "not a git repository" in diff("recorded", "--app", "services:shop")[1]
