"""`eventlib diff`: what two versions of the code decide differently on a recorded log, which lines do, what it comes to."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from xml.etree import ElementTree as ET

import pytest

from eventlib.cli import run
from tests.commands import NO_PLUGINS, ended
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
    "return [_refund(payment, money.order_id)] if payment.called_off and is_held else []",
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
        self.git("tag", tag.replace(" ", "-"))

    def line(self, text: str, file: str = DECIDER) -> str:
        """Return the place of a line, as reports name it."""
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
        return ended("bisect", *arguments, "--log", filled)

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


def test_a_failure_becomes_a_test_that_fails_until_it_is_mended(repository: Repository, filled: str) -> None:
    whole = (repository.directory / DECIDER).read_text()
    repository.change(RAISES)
    done = subprocess_of("shrink", "payment", "large", "--out", "test_large.py", "--log", filled)
    assert (done.returncode, done.stderr) == (0, "1 event became 1 event\n")
    text = (repository.directory / "test_large.py").read_text()
    assert 'StockReserved(order_id="x", amount_cents=' in text
    assert "It raised KeyError in charge: 'MT'." in text
    failed = checked(repository.directory)
    assert (failed.returncode, "KeyError: 'MT'" in failed.stdout) == (1, True)
    (repository.directory / DECIDER).write_text(whole)
    assert checked(repository.directory).returncode == 0
    assert (
        "today's code fails on no input of payment large"
        in subprocess_of("shrink", "payment", "large", "--log", filled).stderr
    )


def test_what_led_to_a_failure_is_kept_and_nothing_else(repository: Repository, filled: str) -> None:
    ends = ("payments.follows(OrderCompleted, OrderCancelled)", ENDS_BADLY)
    repository.change(ends)
    done = subprocess_of("shrink", "payment", "completed", "--out", "test_completed.py", "--log", filled)
    assert (done.returncode, done.stderr) == (0, "4 events became 3 events\n")
    text = (repository.directory / "test_completed.py").read_text()
    assert "        PaymentTaken(" in text
    assert "        StockReserved(" not in text
    assert checked(repository.directory).returncode == 1


def test_what_was_decided_becomes_a_test_that_passes(repository: Repository, filled: str) -> None:
    done = subprocess_of("history", "payment", "completed", "--as-test", "--log", filled)
    assert done.returncode == 0, done.stderr
    (repository.directory / "test_completed.py").write_text(done.stdout)
    assert checked(repository.directory).returncode == 0
    for arguments in (("check", "--select", "E,F,I,D,ANN,W"), ("format", "--diff")):
        command = [sys.executable, "-m", "ruff", *arguments, "--isolated", "--line-length", "120", "test_completed.py"]
        clean = subprocess.run(command, cwd=repository.directory, check=False, capture_output=True, text=True)
        assert clean.returncode == 0, clean.stdout


ENDS_BADLY = """

@payments.on
def ended(payment: Payment, order: OrderCompleted) -> list[RefundRequested]:
    if payment.stage is Stage.TAKEN:
        raise ValueError(order.order_id)
    return []


payments.follows(OrderCancelled)"""


def subprocess_of(*arguments: str) -> CompletedProcess[str]:
    """Run a command in a process that imports the repository's code."""
    command = [sys.executable, "-m", "eventlib", *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def checked(directory: Path) -> CompletedProcess[str]:
    """Run the tests that stand in the repository."""
    plugins = ("-p", "no:cacheprovider", *NO_PLUGINS.split())
    command = [sys.executable, "-m", "pytest", "-q", *plugins, "-W", "ignore", "--rootdir", str(directory)]
    return subprocess.run(command, cwd=directory, check=False, capture_output=True, text=True)
