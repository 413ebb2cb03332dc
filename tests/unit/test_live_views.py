"""Live views where no broker is needed: what is refused, and which windows a time is in."""

import importlib
import logging

import pytest

from eventlib import cli
from eventlib.live.app import LiveApp
from services.order import views


def test_a_log_that_is_not_on_kafka_is_refused_with_the_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["live", "--log", "sqlite:///var/none.db"]) == 1
    said = capsys.readouterr().err
    assert "kafka://host:port" in said
    assert "eventlib copy --from sqlite:///var/none.db" in said


@pytest.mark.parametrize("service", ["order", "stock", "payment", "dispatch"])
def test_views_are_imported_without_a_broker(service: str) -> None:
    app = importlib.import_module(f"services.{service}.views").app
    assert isinstance(app, LiveApp)
    assert all(topic.name.startswith(f"live.{service}.") for topic in app.own_topics())


def test_a_service_without_views_is_told_where_they_belong(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENTLIB_LOG", "kafka://127.0.0.1:1")  # the command sets it, too
    assert cli.run(["live", "--app", "examples.loyalty:app", "--service", "loyalty"]) == 1
    assert "has no live views: write them into" in capsys.readouterr().err


@pytest.mark.parametrize("level", [logging.INFO, logging.DEBUG])
async def test_a_full_buffer_is_no_warning(level: int, caplog: pytest.LogCaptureFixture) -> None:
    buffer = views.app.transport.create_producer().buffer
    for _ in range(buffer.max_messages + 1):
        buffer.pending.put_nowait(None)
    with caplog.at_level(level), pytest.raises(RuntimeError, match="Producer not Running"):  # it waits where it runs
        await buffer.wait_until_ebb()
    seen = [record.levelname for record in caplog.records if "producer buffer full" in record.getMessage()]
    assert seen == (["DEBUG"] if level == logging.DEBUG else [])


def test_a_time_is_in_one_tumbling_window() -> None:
    assert [*views.outcomes.starts(59_999)] == [0]
    assert [*views.outcomes.starts(60_000)] == [60_000]


def test_a_time_is_in_as_many_hopping_windows_as_there_are_steps() -> None:
    from services.payment.views import failures

    minute = 60_000
    assert [*failures.starts(10 * minute)] == [n * minute for n in (6, 7, 8, 9, 10)]
    assert [*failures.starts(10 * minute + 59_999)] == [n * minute for n in (6, 7, 8, 9, 10)]
