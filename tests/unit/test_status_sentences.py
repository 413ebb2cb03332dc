"""What the status says about effects without an answer, by the status alone."""

from datetime import UTC, datetime, timedelta

from eventlib.operations.complaints import Limits, complaints
from eventlib.operations.status import Status, Unanswered, without_answer

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


def status(*ages_s: float) -> Status:
    asked = [Unanswered("payment", "ChargeRequested", 3, "A", NOW - timedelta(seconds=age_s)) for age_s in ages_s]
    return Status(NOW, [], True, {}, [], None, unanswered=asked)


def test_effects_without_an_answer_for_more_than_a_minute_are_named_and_no_complaint() -> None:
    assert without_answer(status(59, 61, 3600)) == [
        f"payment: 3 ChargeRequested without an answer, that of A since 2026-01-31 {at} UTC; why is in the service's log, "
        "at its fifth failed attempt"
        for at in ("11:58:59", "11:00:00")
    ]
    assert complaints(status(3600), Limits()) == []
