"""A corpus: few sagas that cover what a log has, with pseudonyms; pytest decides them again, and shows what differs."""

import asyncio
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import CompletedProcess
from typing import Annotated

import pytest

from eventlib import Event, open_log
from eventlib.model.event import Meta, key_of
from eventlib.personal import Personal
from eventlib.proof.corpus import Corpus, CorpusDecision
from eventlib.proof.corpus.files import Values
from eventlib.proof.corpus.renaming import Renamer
from services import shop
from services.payment.decider import payments
from services.stock.events import StockReserved
from tests import forked
from tests.commands import NO_PLUGINS, ended, said
from tests.integration.repository import FOR_A_REASON, REFUNDS, Repository

KEYS = {"completed", "declined", "broken", "large"}
Pytest = Callable[..., CompletedProcess[str]]


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    (tmp_path / "shop").mkdir()
    return Repository(tmp_path / "shop")


@pytest.fixture
def corpus(filled: str, tmp_path: Path) -> Path:
    said("prove", "corpus", "--from", filled, "--out", str(tmp_path / "corpus"))
    return tmp_path / "corpus"


@pytest.fixture
def tested(repository: Repository, corpus: Path) -> Pytest:
    """Run pytest in a repository of the shop's code with the corpus."""
    settings = repository.directory / "pyproject.toml"
    settings.write_text(f'{settings.read_text()}corpus = "{corpus}"\n[tool.pytest.ini_options]\ntestpaths = ["."]\n')

    def run(*arguments: str) -> CompletedProcess[str]:
        plugins = ("-p", "no:cacheprovider", *NO_PLUGINS.split())
        # pytest's own summary repeats whole messages where CI is set
        command = [sys.executable, "-m", "pytest", "-q", "-r", "N", *plugins, *arguments]
        return forked.run(command, cwd=repository.directory, capture_output=True)

    return run


def decisions_in(corpus: Path) -> list[CorpusDecision]:
    return [each for _, each in Corpus.open(corpus).decisions(shop) if isinstance(each, CorpusDecision)]


def test_few_sagas_cover_all_that_the_log_has(filled: str, tmp_path: Path) -> None:
    (found,) = json.loads(f"[{said('prove', 'corpus', '--from', filled, '--out', str(tmp_path), '--json')}]")
    assert found["whole"]
    assert found["sagas"] < found["of"]
    kinds = {each[0]: each[1] for each in found["covered"]}
    assert kinds.keys() == {"handler", "line", "outcome", "end", "order"}
    assert kinds["end"] == 2
    assert kinds["line"] > 50
    handlers = {(each.source, each.input) for each in decisions_in(tmp_path)}
    assert ("payment/payment", "StockReserved") in handlers
    assert len(handlers) == kinds["handler"]
    assert found["size"] == sum(file.stat().st_size for file in tmp_path.iterdir())


def test_what_too_few_sagas_leave_out_is_told(filled: str, tmp_path: Path) -> None:
    text = said("prove", "corpus", "--from", filled, "--out", str(tmp_path), "--sagas", "1")
    assert text.startswith("1 saga of ")
    assert text.endswith("Allow more sagas with --sagas, and all of it is covered.\n")


def test_one_key_has_one_pseudonym_and_none_its_own(corpus: Path) -> None:
    found = decisions_in(corpus)
    values = (value for each in found for value in (each.state, each.event, *each.events, each.key))
    assert not any(key in repr(value) for value in values for key in (f"'{key}'" for key in KEYS))
    by_saga: dict[str, set[str]] = {}
    for each in found:
        if each.decider.key == "order_id":
            by_saga.setdefault(each.saga, set()).add(each.key)
            assert each.event is None or key_of(each.event) == each.key
    assert by_saga
    assert all(len(keys) == 1 for keys in by_saga.values())


def test_each_difference_fails_and_is_shown_until_it_is_accepted(
    tested: Pytest, repository: Repository, corpus: Path
) -> None:
    done = tested()
    assert done.returncode == 0, done.stdout
    assert f"{len(decisions_in(corpus))} passed" in done.stdout
    repository.change(REFUNDS, FOR_A_REASON)
    done = tested()
    assert done.returncode == 1
    assert "payment/payment.taken on PaymentTaken emits something now (+RefundRequested), for key" in done.stdout
    assert "- (nothing was emitted)" in done.stdout
    assert "+ RefundRequested" in done.stdout
    assert done.stdout.count("intended? --accept-difference REASON") == int(done.stdout.split(" failed")[0].split()[-1])
    assert tested("--accept-difference", " ").returncode == 4
    accepted = tested("--accept-difference", "refunds for all")
    assert accepted.returncode == 0, accepted.stdout
    assert "1 kind of difference declared in" in accepted.stdout
    declared = (repository.directory / "expected-differences.toml").read_text()
    assert 'reason = "refunds for all"' in declared
    done = tested()
    assert done.returncode == 0, done.stdout
    assert "xfailed" in done.stdout


def test_a_handler_that_raises_or_is_gone_is_a_difference(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from eventlib.replay.comparison import Describer

    of_payments = [each for each in decisions_in(corpus) if each.decider is payments]
    (charged, *_) = [each for each in of_payments if isinstance(each.event, StockReserved)]
    assert charged.difference(Describer(shop)) is None
    handlers = {event: handler for event, handler in payments.handlers.items() if event is not StockReserved}
    monkeypatch.setattr(payments, "handlers", handlers)
    difference = charged.difference(Describer(shop))
    assert difference is not None
    assert (difference.kind, difference.why) == ("unhandled", "no decider handles this now")


def test_other_tests_that_are_named_run_alone_and_no_corpus_is_silent(
    tested: Pytest, repository: Repository, corpus: Path
) -> None:
    (repository.directory / "test_one.py").write_text("def test_it():\n    pass\n")
    assert "1 passed" in tested("test_one.py").stdout
    settings = repository.directory / "pyproject.toml"
    settings.write_text('[tool.eventlib]\napp = "services:shop"\n')
    assert "1 passed" in tested("--rootdir", ".").stdout
    (corpus / "corpus.json").unlink()
    done = tested("--eventlib-corpus", str(corpus))
    assert done.returncode == 4
    assert "there is no corpus in" in done.stderr


def test_a_line_that_is_no_decision_is_named(corpus: Path) -> None:
    with (corpus / "decisions.ndjson").open("a") as file:
        file.write("[]\n")
    with pytest.raises(Exception, match=r"decisions.ndjson, line \d+ is no decision .*: cut the corpus again"):
        decisions_in(corpus)


def test_a_log_without_a_decision_is_refused(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'shop.db'}"

    async def empty() -> None:
        async with open_log(url, shop) as log:
            await log.prepare()

    asyncio.run(empty())
    done = ended("prove", "corpus", "--from", url, "--out", str(tmp_path / "corpus"))
    assert done.returncode == 1
    assert "there is no decision on this log" in done.stderr


class Member(Event, topic="corpus.members", key="member_id"):
    """Somebody is a member."""

    member_id: str
    name: Annotated[str, Personal(subject="member_id")]
    invited_by: str = ""


@dataclass(frozen=True)
class Club:
    """Members by their ids."""

    members: dict[str, int] = field(default_factory=dict)


def test_pseudonyms_reach_personal_fields_and_all_that_quotes_a_key() -> None:
    event = Member(member_id="M-0815", name="Ada Lovelace", invited_by="M-4711")
    other = Member(member_id="M-4711", name="Ada Lovelace")
    club = Club({"M-4711": 1})
    made = [
        CorpusDecision("club/club", payments, each.member_id, "s", 0, club, each, "", Meta("m"), ())
        for each in (event, other)
    ]
    renamer = Renamer()
    renamer.learn(made)
    first, second = map(renamer.of, made)
    assert isinstance(first.event, Member)
    assert isinstance(second.event, Member)
    assert first.event.invited_by == second.event.member_id == second.key == next(iter(first.state.members))
    assert first.event.name == second.event.name
    assert not {"M-0815", "M-4711", "Ada Lovelace"} & {*map(str, dict(first.event).values())}
    assert [*map(len, first.event.name.split())] == [3, 8]
    assert first.event.member_id[1] == "-"
    assert Values().write(first.event) == Values().write(first.event)


def test_later_code_reads_what_earlier_code_has_written() -> None:
    def versions() -> tuple[type, type]:
        @dataclass(frozen=True)
        class Shelf:
            on_hand: int = 0
            colour: str = "red"

        before = Shelf

        @dataclass(frozen=True)
        class Shelf:  # type: ignore[no-redef]  # the next version of it
            on_hand: int = 0
            reserved: int = 7

        return before, Shelf

    old, new = versions()
    values = Values()
    text = values.write(old(on_hand=3))
    assert Values(values.schemas).read(new, text) == new(on_hand=3, reserved=7)
    with pytest.raises(Exception, match=r"schema 9 is not in schemas.json: cut the corpus again"):
        Values(values.schemas).read(new, "9:AA==")
