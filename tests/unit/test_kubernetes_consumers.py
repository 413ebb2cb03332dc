"""Sinks and webhooks among the manifests of a cluster: what Kubernetes' schemas say, and who may do and reach what."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.commands import said
from tests.unit.test_kubernetes import NEWEST, OLDEST, validate

SINK = "tests.integration.sink_app:totals"
SUBSCRIBERS = '[subscribers.billing]\nurl = "https://example.com"\nevents = ["Counted"]\nsecrets = ["env:BILLING"]\n'


@pytest.fixture
def named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("EVENTLIB_KAFKA_APPLICATION", "counting")
    (tmp_path / "webhooks.toml").write_text(SUBSCRIBERS)
    app = ("--app", "tests.integration.outbox_app:APP", "--sink", SINK)
    return [*app, "--subscribers", str(tmp_path / "webhooks.toml"), "--out", str(tmp_path / "out")]


def exported(form: str, named: list[str]) -> dict[str, list[dict[str, Any]]]:
    said("export", form, *named)
    files = Path(named[-1]).glob("*.yaml")
    return {file.stem: [*yaml.safe_load_all(file.read_text())] for file in files}


def test_they_run_on_kubernetes(named: list[str]) -> None:
    files = exported("kubernetes", named)
    assert {"totals-sink.yaml", "webhooks.yaml"} <= set(files["kustomization"][0]["resources"])
    found = {name: {each["kind"]: each for each in files[name]} for name in ("totals-sink", "webhooks")}
    for each in [resource for resources in found.values() for resource in resources.values()]:
        validate(each, OLDEST)
        validate(each, NEWEST)
    sink, webhooks = (found[name]["StatefulSet"]["spec"] for name in ("totals-sink", "webhooks"))
    (container,) = sink["template"]["spec"]["containers"]
    assert (sink["replicas"], container["command"]) == (2, ["eventlib", "sink", "run", SINK])
    assert {"secretRef": {"name": "counting-totals-sink-secrets"}} in container["envFrom"]
    (container,) = webhooks["template"]["spec"]["containers"]
    assert {"name": "EVENTLIB_WEBHOOKS", "value": "/etc/eventlib/webhooks.toml"} in container["env"]
    assert {"name": "files", "mountPath": "/etc/eventlib", "readOnly": True} in container["volumeMounts"]
    assert found["webhooks"]["ConfigMap"]["data"] == {"webhooks.toml": SUBSCRIBERS}
    (database,) = (each for each in ways(found["totals-sink"]) if each["ports"][0]["port"] == 5432)
    assert "to" not in database  # it may be anywhere
    (outside,) = (each for each in ways(found["webhooks"]) if each["ports"][0]["port"] == 443)
    assert "10.0.0.0/8" in outside["to"][0]["ipBlock"]["except"]


def ways(resources: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = resources["NetworkPolicy"]["spec"]["egress"]
    return found


def test_they_have_users_and_topics_on_kafka(named: list[str]) -> None:
    files = exported("strimzi", named)
    users = {each["metadata"]["name"] for each in files["users"]}
    assert {"counting-totals-sink", "counting-webhooks"} <= users
    assert any(each["spec"].get("topicName", "").endswith("_webhooks") for each in files["topics"])
    said("export", "kafka", *named)
    rights = (Path(named[-1]) / "rights.sh").read_text()
    assert "# counting-totals-sink: runs the sink totals" in rights
