"""The files of deploy/compose: valid by the published schema, pinned, closed to the outside, and at one with each other."""

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from eventlib import cli
from tests.composed import COMPOSE, VARIABLE, compose_file, composed, example, image_environment

# As the package check-jsonschema 0.39.0 carries it, byte for byte (sha256 d549057e…, of the Compose Specification).
SCHEMA = Path(__file__).parents[1] / "golden" / "compose-spec.json.gz"
OURS = {name: service for name, service in composed().items() if service.target is not None}
OTHERS = {name: service for name, service in composed().items() if service.target is None}
DIRECTORY = COMPOSE.parent


def config(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DIRECTORY / name).read_text(encoding="utf-8"))
    return found


def faults_of(file: dict[str, Any]) -> list[str]:
    """Return what the published schema says against a file."""
    schema = json.loads(gzip.decompress(SCHEMA.read_bytes()))
    Draft202012Validator.check_schema(schema)
    return [error.message for error in Draft202012Validator(schema).iter_errors(file)]


def test_the_file_is_valid_by_the_published_schema() -> None:
    assert faults_of(compose_file()) == []


def test_what_is_needed_for_a_start_is_there() -> None:
    for service in composed().values():
        for needed, how in service.content.get("depends_on", {}).items():
            other = composed()[needed]
            assert how["condition"] != "service_healthy" or other.healthcheck, f"{service.name}: {needed} tells nothing"
        for mount in service.content.get("volumes", ()):
            source = mount.split(":")[0]
            place = DIRECTORY / source if source.startswith(".") else None
            assert place.exists() if place else source in compose_file()["volumes"], f"{service.name}: {source}"


def test_every_image_of_others_is_pinned_by_version_and_digest() -> None:
    for service in OTHERS.values():
        image = service.content["image"]
        assert re.fullmatch(r"[\w./-]+:v?\d+\.\d+\.\d+@sha256:[0-9a-f]{64}", image), image


def test_ours_have_no_rights_and_write_where_they_may() -> None:
    for service in OURS.values():
        content = service.content
        assert content["read_only"], service.name
        assert content["cap_drop"] == ["ALL"], service.name
        assert content["security_opt"] == ["no-new-privileges:true"], service.name
        assert content["tmpfs"] == ["/tmp"], service.name  # noqa: S108  a directory of the container's own
        assert {mount.split(":")[1] for mount in content.get("volumes", ())} <= {
            "/var/lib/shop",
            "/var/lib/identity",
        }, service.name


def test_nothing_is_open_to_other_machines() -> None:
    ports = [port for service in composed().values() for port in service.content.get("ports", ())]
    assert len(ports) > 5
    assert all(port.startswith("127.0.0.1:") for port in ports)
    assert len({port.split(":", 1)[1] for port in ports}) == len(ports)


def test_the_example_is_what_may_be_changed() -> None:
    assert dict(VARIABLE.findall(COMPOSE.read_text(encoding="utf-8"))) == example()
    assert "${" not in VARIABLE.sub("", COMPOSE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", OURS)
def test_every_variable_of_ours_is_a_setting_that_fits(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    service = OURS[name]
    given = {**image_environment(service.target or ""), **service.environment}
    given = {name: value for name, value in given.items() if name.startswith(("EVENTLIB_", "SHOP_", "OTEL_"))}
    assert given.keys() >= service.environment.keys()
    for variable, value in given.items():
        monkeypatch.setenv(variable, value)
    assert cli.run(["config", "--json"]) == 0, capsys.readouterr().err
    shown = {each["variable"]: each for each in map(json.loads, capsys.readouterr().out.splitlines())}
    assert given.keys() <= shown.keys()
    assert {shown[variable]["source"] for variable, value in given.items() if value} == {"environment"}


def test_all_of_ours_meet_on_one_log() -> None:
    logs = {service.environment["EVENTLIB_LOG"] for service in OURS.values() if "EVENTLIB_LOG" in service.environment}
    brokers = [name for name in composed() if name.startswith("kafka-")]
    assert logs == {f"kafka://{','.join(f'{name}:19092' for name in brokers)}/"}
    for service in OURS.values():
        if "EVENTLIB_LOG" in service.environment:
            assert service.environment["EVENTLIB_KAFKA_REPLICATION_FACTOR"] == str(len(brokers)) == "3"
            assert service.environment["EVENTLIB_KAFKA_MIN_INSYNC_REPLICAS"] == "2"


def test_every_service_runs_and_payment_twice() -> None:
    runs = {s.command[3]: s.replicas for s in OURS.values() if s.command[:3] == ("eventlib", "run", "--service")}
    assert runs == {"order": 1, "stock": 1, "payment": 2, "dispatch": 1}


def test_prometheus_asks_everybody_who_tells() -> None:
    told = config("prometheus.yml")
    asked = {
        (name, each["port"])
        for job in told["scrape_configs"]
        for each in job.get("dns_sd_configs", ())
        for name in each["names"]
    }
    telling = {(s.name, 9464) for s in OURS.values() if s.environment.get("OTEL_EXPORTER_PROMETHEUS_PORT") == "9464"}
    assert asked == telling | {("order", 8000)}
    reader = config("collector.yaml")["service"]["telemetry"]["metrics"]["readers"][0]["pull"]["exporter"]["prometheus"]
    targets = [
        target for job in told["scrape_configs"] for s in job.get("static_configs", ()) for target in s["targets"]
    ]
    assert targets == [f"collector:{reader['port']}"]
    mounts = dict(mount.split(":")[:2] for mount in composed()["prometheus"].content["volumes"])
    (rules,) = told["rule_files"]
    assert mounts["../prometheus"] == rules.removesuffix("/*.yml")
    assert [*(DIRECTORY.parent / "prometheus").glob("*.yml")]


def test_the_collector_is_wired() -> None:
    collector = config("collector.yaml")
    for pipeline in collector["service"]["pipelines"].values():
        for kind in ("receivers", "processors", "exporters"):
            assert {*pipeline[kind]} <= collector[kind].keys()
            assert pipeline[kind]
        assert pipeline["processors"][0] == "memory_limiter", "it has to refuse before anything is kept"
        assert pipeline["processors"][-1] == "batch"
    port = collector["receivers"]["otlp"]["protocols"]["http"]["endpoint"].rpartition(":")[2]
    endpoints = {s.environment.get("OTEL_EXPORTER_OTLP_ENDPOINT") for s in OURS.values()} - {None}
    assert endpoints == {f"http://collector:{port}"}
    assert collector["exporters"]["otlp_grpc"]["endpoint"] == "jaeger:4317"
    version = config("compose.yaml")["services"]["collector"]["image"].partition("@")[0].rpartition(":")[2]
    built = (DIRECTORY.parents[1] / "tests" / "integration" / "collector" / "go.mod").read_text(encoding="ascii")
    assert f"collector/otelcol v{version}\n" in built, "it is not the collector that the tests run"


def test_grafana_has_the_dashboards_and_what_they_ask() -> None:
    mounts = dict(mount.split(":")[:2] for mount in composed()["grafana"].content["volumes"])
    (provider,) = config("grafana/dashboards.yaml")["providers"]
    assert mounts["../../eventlib/telemetry/grafana"] == provider["options"]["path"]
    home = composed()["grafana"].environment["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert (DIRECTORY.parents[1] / "eventlib/telemetry/grafana" / Path(home).name).is_file()
    for source in config("grafana/datasources.yaml")["datasources"]:
        host, port = re.fullmatch(r"http://(\w+):(\d+)", source["url"]).groups()  # type: ignore[union-attr]  # else it fails
        assert any(published.endswith(f":{port}") for published in composed()[host].content["ports"])
