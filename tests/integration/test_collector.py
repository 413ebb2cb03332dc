"""The collector itself with the configuration of deploy: it takes it, and hands on whole traces."""

import time
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

import tests.integration.test_traces as traces
from tests.integration.collecting import DEPLOYED, Jaeger, collector, has_go, jaeger, validated
from tests.integration.otlp import spans_of

PATIENCE_S = 120
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not has_go(), reason="no Go 1.23 here, and the collector has to be built"),
]


def test_it_takes_what_is_deployed_and_not_what_it_does_not_know(tmp_path: Path) -> None:
    assert validated(DEPLOYED) == ""
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(DEPLOYED.read_text(encoding="utf-8").replace("limit_mib", "limit_mb"), encoding="utf-8")
    assert "limit_mb" in validated(wrong)


async def test_sagas_come_out_as_the_traces_that_went_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with jaeger() as (kept, address), collector(tmp_path, address) as (takes, metrics):
        monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", takes)
        monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "1")
        told = await traces.orders_of(f"sqlite:///{tmp_path}/shop.db", tmp_path, kept)
        accepted = counted(metrics, "otelcol_receiver_accepted_spans")
        assert accepted > 100
        wait_for_spans(kept, accepted)
        assert counted(metrics, "otelcol_exporter_sent_spans") == accepted
        assert counted(metrics, "otelcol_receiver_refused_spans") == 0
    await traces.test_a_saga_with_its_compensation_is_one_trace_with_every_hop(replace(told, spans=spans_of(kept)))


def counted(metrics: str, name: str) -> float:
    """Return a counter of the collector's own, over all its labels."""

    from prometheus_client.parser import text_string_to_metric_families

    families = text_string_to_metric_families(httpx.get(metrics, trust_env=False).text)
    return sum(each.value for family in families for each in family.samples if each.name.removesuffix("_total") == name)


def wait_for_spans(kept: Jaeger, count: float) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while len(spans_of(kept)) < count:
        assert time.monotonic() < deadline, f"{len(spans_of(kept))} of {count} spans have come"
        time.sleep(0.1)
    assert len(spans_of(kept)) == count
