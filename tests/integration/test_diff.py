"""`eventlib diff`: what two versions of the code decide differently on a recorded log, which lines do, what it comes to."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from eventlib.cli import run
from tests.commands import ended
from tests.saga.shop_runs import ROOT

Diff = Callable[..., tuple[int, str]]

DECIDER, ORDERS = "services/payment/decider.py", "services/order/evolve.py"
SURCHARGE = (
    "amount_cents=stock.amount_cents,",
    'amount_cents=stock.amount_cents + (495 if stock.country == "France" else 0),',
)
RAISES = (
    "    if payment.stage is not Stage.NEW:\n        return []\n",
    '    if payment.stage is not Stage.NEW:\n        return []\n    if stock.amount_cents > 1_000:\n        raise KeyError("MT")\n',
)
REFUNDS = (
    "return [_refund(payment, money.order_id)] if payment.called_off else []",
    "return [_refund(payment, money.order_id)]",
)
FOR_A_REASON = ("reason=payment.called_off,", 'reason=payment.called_off or "a change",')
WAIVES = ("if payment.stage is not Stage.NEW:", "if payment.stage is not Stage.NEW or stock.amount_cents > 1_000:")


class Repository:
    """A repository of the shop's code."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        shutil.copytree(ROOT / "services", directory / "services", ignore=shutil.ignore_patterns("__pycache__"))
        (directory / "pyproject.toml").write_text('[tool.eventlib]\napp = "services:shop"\n')
        self.git("init", "--quiet")
        self.commit("recorded")

    def git(self, *arguments: str) -> None:
        own = ("-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *own, *arguments], cwd=self.directory, check=True, capture_output=True)

    def change(self, *changes: tuple[str, str], file: str = DECIDER) -> None:
        path = self.directory / file
        text = path.read_text()
        for before, after in changes:
            assert text.count(before) == 1, before
            text = text.replace(before, after)
        path.write_text(text)

    def commit(self, tag: str) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", tag)
        self.git("tag", tag)

    def line(self, text: str, file: str = DECIDER) -> str:
        """Return where a line is, as it is told."""
        numbers = [n for n, line in enumerate((self.directory / file).read_text().splitlines(), 1) if text in line]
        assert len(numbers) == 1
        return f"{file}:{numbers[0]}"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    (tmp_path / "shop").mkdir()
    monkeypatch.chdir(tmp_path / "shop")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    return Repository(tmp_path / "shop")


@pytest.fixture
def diff(filled: str) -> Diff:
    """Run the command; return its exit code, and what it prints."""

    def compared(*arguments: str) -> tuple[int, str]:
        done = ended("diff", *arguments, "--log", filled, by=run)
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
    command = next(line for line in rest if "eventlib replay --key large" in line).split()
    assert command[:4] == ["eventlib", "replay", "--key", "large"]


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
