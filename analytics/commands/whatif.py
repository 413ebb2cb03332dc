"""`python -m analytics whatif`."""

import time
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import Any

from analytics.asking import spans
from analytics.commands.showing import JobProgress, ranges_json
from analytics.commands.starting import session_for
from analytics.reporting.whatif import Question, Summary, summary, whatif_page
from analytics.whatif import Hypothesis, what_if
from eventlib import command_line
from eventlib.log.base import TopicPartition
from eventlib.values import from_ms

_MOST_SHOWN = 20


@dataclass(frozen=True)
class Answer:
    """What would have been, and what was read for it; `first` are the first sagas that end otherwise."""

    result: Summary
    first: list[dict[str, Any]]
    read: dict[TopicPartition, range]
    parts: int
    seconds: float


def whatif_command(url: str, hypothesis: Hypothesis, out: Path, report: Path | None, *, as_json: bool) -> None:
    """Decide a log again by other rules, write the tables and the report, and print the result."""
    began = time.monotonic()
    hypothesis.load()
    with JobProgress("starting Spark", shown=not as_json) as steps:
        read = {place: span for place, span in spans(url).items() if place[0] in hypothesis.today.topics}
        spark = session_for("what-if", url, decoding=False)
        steps(f"deciding {command_line.counted(sum(map(len, read.values())), 'record')} again")
        done = what_if(spark, url, hypothesis, out)
        result = summary(done.sagas, hypothesis.figures)
        otherwise = done.sagas.where("outcome_then != outcome_now").orderBy("first_difference.at", "saga")
        first = [row.asDict(recursive=True) for row in otherwise.limit(_MOST_SHOWN).collect()]
        answer = Answer(result, first, read, done.parts, time.monotonic() - began)
        if report is not None:
            question = Question(url, _rules(hypothesis), hypothesis.figures, read, answer.seconds)
            report.parent.mkdir(parents=True, exist_ok=True)
            report.write_text(whatif_page(done.events, done.sagas, result, question), encoding="utf-8")
    if as_json:
        _print_json(url, answer)
    else:
        _print(answer, out, report)


def _rules(hypothesis: Hypothesis) -> list[tuple[str, str]]:
    """Return what was supposed, as facts for the report."""
    facts = [
        ("Rules then", hypothesis.today.named or "the application of pyproject.toml"),
        ("Rules now", hypothesis.tomorrow.named or "the application of pyproject.toml"),
        ("Never-asked questions", hypothesis.model or "nothing answers them"),
        ("External events", hypothesis.change or "as recorded"),
    ]
    if hypothesis.since_ms:
        facts.append(("From", f"{from_ms(hypothesis.since_ms):%Y-%m-%d %H:%M:%S} UTC"))
    return facts


def _print_json(url: str, answer: Answer) -> None:
    numbers = answer.result._asdict()
    seconds = round(answer.seconds, 3)
    first = [{**each, "first_difference": _isoed(each["first_difference"])} for each in answer.first]
    summed = {"log": url, **numbers, "first": first, "parts": answer.parts, "seconds": seconds}
    command_line.print_json([{**summed, "read": ranges_json(answer.read)}])


def _first_of(row: dict[str, Any]) -> tuple[object, object]:
    return row["first_difference"]["type"], row["first_difference"]["handler"]


def _isoed(difference: dict[str, Any]) -> dict[str, object]:
    return {**difference, "at": command_line.iso(difference["at"].astimezone(UTC))}


def _print(answer: Answer, out: Path, report: Path | None) -> None:
    result = answer.result
    if answer.first:
        shown = command_line.table("saga", "then", "now", "first difference", "decided by", whole=["saga"])
        for each in answer.first:
            shown.add_row(*map(str, (each["saga"], each["outcome_then"], each["outcome_now"], *_first_of(each))))
        command_line.terminal().print(shown)
    if result.otherwise > len(answer.first):
        print(f"… and {result.otherwise - len(answer.first):,} more: {out / 'whatif_sagas'} has them all")
    for row in result.sums:
        currency = "" if row["currency"] is None else f" {row['currency']}"
        print(f"{row['name']}{currency}: {row['then']:,} then, {row['now']:,} now")
    if result.failed:
        print(f"{command_line.counted(result.failed, 'saga')} have a handler that raised.")
    records = command_line.counted(sum(map(len, answer.read.values())), "record")
    print(
        f"\nDecided {records} again in {answer.seconds:.1f} s: {result.otherwise:,} of "
        f"{command_line.counted(result.sagas, 'saga')} end otherwise, {result.differing:,} differ; "
        f"{command_line.counted(result.modelled_answers, 'answer')} from the model."
    )
    if report is not None:
        print(f"The report is in {report}.")
