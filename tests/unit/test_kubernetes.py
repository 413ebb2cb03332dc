"""deploy/kubernetes: every file is what its schema says, overlays come together, and what services and consumers need is there."""

import importlib
import shutil
import subprocess
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from kubernetes_validate import utils

from eventlib.log.kafka.options import KafkaOptions
from eventlib.manifests.topics import topic_specs
from services import shop
from tests.commands import said
from tests.shop_rights import SERVICES, users, views
from tests.unit.kustomized import Resource, built, documents, loaded

ROOT = Path(__file__).parents[2] / "deploy" / "kubernetes"
OPTIONS = KafkaOptions(application="shop")
OLDEST, NEWEST = "1.34", "1.37"
"""Of Kubernetes: files are held against one's schemas, overlays against the other's."""

MODELS = {"keda.sh": "cloudcoil.models.keda", "monitoring.coreos.com": "cloudcoil.models.prometheus_operator"}
STRIMZI = "kafka.strimzi.io"
OVERLAYS = ("development", "production")
POD_KINDS = {"StatefulSet", "Deployment", "Job", "CronJob"}


def files() -> Iterator[Path]:
    for file in sorted(ROOT.rglob("*.yaml")):
        if file.name != "kustomization.yaml":
            yield file


# A file of definitions takes 0.3 s to read, and the package reads it for each resource.
utils.schema_contents = lru_cache(utils.schema_contents)


def validate(resource: Resource, version: str) -> None:
    group, _, of_group = resource["apiVersion"].rpartition("/")
    if group in MODELS:
        module = importlib.import_module(f"{MODELS[group]}.{of_group}")
        model = getattr(module, resource["kind"]).model_validate(resource)
        known = model.model_dump(mode="json", by_alias=True, exclude_unset=True)
        assert known == resource, "nothing is dropped"
    elif group != STRIMZI:
        kubernetes_validate.validate(resource, version, strict=True)


@pytest.mark.parametrize("file", [*files()], ids=lambda file: str(file.relative_to(ROOT)))
def test_a_file_is_what_its_schemas_say(file: Path) -> None:
    for resource in documents(file):
        validate(resource, OLDEST)


@pytest.mark.parametrize("kind", ["StatefulSet", "NetworkPolicy", "ScaledObject", "PrometheusRule"])
def test_what_a_schema_does_not_know_is_refused(kind: str) -> None:
    every = [each for file in files() for each in documents(file)]
    resource = next(each for each in every if each["kind"] == kind)
    resource["spec"]["podSelectr"] = {}
    with pytest.raises((AssertionError, kubernetes_validate.ValidationError)):
        validate(resource, OLDEST)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_an_overlay_comes_together(overlay: str) -> None:
    resources = built(ROOT / "overlays" / overlay)
    for resource in resources:
        validate(resource, NEWEST)
    names = [(resource["kind"], resource["metadata"]["name"]) for resource in resources]
    assert len({*names}) == len(names)
    wanted = {
        ("KafkaTopic", len(topic_specs(shop, OPTIONS, views()))),
        ("KafkaUser", len(users(OPTIONS))),
    }
    assert {(kind, [each for each, _ in names].count(kind)) for kind, _ in wanted} == wanted


def test_each_service_proves_its_next_version_in_production_before_it_takes_over() -> None:
    commands = {
        each["metadata"]["name"]: each["spec"]["template"]["spec"]["containers"][0]["command"]
        for each in built(ROOT / "overlays" / "production")
        if each["kind"] == "StatefulSet"
    }
    proving = {name for name, command in commands.items() if command[-2:] == ["--shadow-first", "10m"]}
    assert proving == {f"shop-{service.name}" for service in shop.services}


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl here")
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_kustomize_makes_the_same_of_it(overlay: str) -> None:
    place = ROOT / "overlays" / overlay
    done = subprocess.run(["kubectl", "kustomize", str(place)], capture_output=True, text=True, check=True)
    theirs, settings = loaded(done.stdout), "shop-settings"
    (hashed,) = (e["metadata"]["name"] for e in theirs if e["metadata"]["name"].startswith(settings))
    renamed = loaded(done.stdout.replace(hashed, settings))
    assert _sorted(renamed) == _sorted(built(place))


def _sorted(resources: list[Resource]) -> list[Resource]:
    return sorted(resources, key=lambda each: (each["kind"], each["metadata"]["name"]))


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_pods_have_no_rights_and_what_they_refer_to_is_there(overlay: str) -> None:
    resources = built(ROOT / "overlays" / overlay)
    names = {*users(OPTIONS)}
    settings = {each["metadata"]["name"] for each in resources if each["kind"] == "ConfigMap"}
    pods = [*_pods(resources)]
    assert len(pods) >= 2 * len(shop.services) + 6
    for name, pod in pods:
        secure = pod["securityContext"]
        assert secure["runAsNonRoot"], name
        assert secure["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert pod["automountServiceAccountToken"] is False, name
        volumes = {volume["name"] for volume in pod["volumes"]} | {"state"}
        for container in (*pod["containers"], *pod.get("initContainers", ())):
            assert container["securityContext"]["readOnlyRootFilesystem"], name
            assert container["securityContext"]["allowPrivilegeEscalation"] is False, name
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}, name
            assert container["resources"]["limits"]["memory"], name
            assert ":" in container["image"], f"{name}: an image without a tag"
            assert {mount["name"] for mount in container["volumeMounts"]} <= volumes, name
            froms = container.get("envFrom", ())
            assert {each["configMapRef"]["name"] for each in froms if "configMapRef" in each} <= settings, name
            assert {each["secretRef"]["name"] for each in froms if "secretRef" in each} <= {"shop-identity"}, name
            secrets = {
                each["valueFrom"]["secretKeyRef"]["name"]
                for each in container.get("env", ())
                if "secretKeyRef" in each.get("valueFrom", {})
            }
            assert secrets <= names, f"{name}: nobody makes the secret"


_SECURE_POD = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
_SECURE_CONTAINER = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
_VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}
_SHARED = ("hostNetwork", "hostPID", "hostIPC")


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_namespaces_enforce_the_restricted_standard_and_pods_comply(overlay: str) -> None:
    """Source: Kubernetes, "Pod Security Standards", restricted."""
    resources = built(ROOT / "overlays" / overlay)
    namespaces = [each["metadata"]["labels"] for each in resources if each["kind"] == "Namespace"]
    assert [each["pod-security.kubernetes.io/enforce"] for each in namespaces] == ["restricted"]
    for name, pod in _pods(resources):
        assert pod["securityContext"].items() >= _SECURE_POD.items(), name
        assert not any(pod.get(each) for each in _SHARED), name
        assert all(each.keys() - {"name"} <= _VOLUMES for each in pod["volumes"]), name
        for container in (*pod["containers"], *pod.get("initContainers", ())):
            assert container["securityContext"].items() >= _SECURE_CONTAINER.items(), name
            assert not any("hostPort" in port for port in container.get("ports", ())), name
    pools = [each["spec"]["template"] for each in resources if each["kind"] == "KafkaNodePool"]
    operators = [each["spec"]["entityOperator"]["template"] for each in resources if each["kind"] == "Kafka"]
    for template in (*pools, *operators):
        assert template["pod"]["securityContext"].items() >= _SECURE_POD.items()
    containers = [pool["kafkaContainer"] for pool in pools]
    containers += [each[f"{kind}OperatorContainer"] for each in operators for kind in ("topic", "user")]
    assert [each["securityContext"] for each in containers] == [_SECURE_CONTAINER] * 3


def _pods(resources: list[Resource]) -> Iterator[tuple[str, dict[str, Any]]]:
    for each in resources:
        if each["kind"] in POD_KINDS:
            spec = each["spec"].get("jobTemplate", each)["spec"]
            yield each["metadata"]["name"], spec["template"]["spec"]


@pytest.mark.parametrize("service", shop.services, ids=lambda service: service.name)
def test_a_service_scales_on_the_lag_of_its_group_and_speaks_to_no_other_service(service: Any) -> None:
    of_kind = {each["kind"]: each["spec"] for each in documents(ROOT / "services" / f"{service.name}.yaml")}
    triggers = [trigger["metadata"] for trigger in of_kind["ScaledObject"]["triggers"]]
    assert {trigger["topic"] for trigger in triggers} == {topic.name for topic in service.inputs}
    assert {trigger["consumerGroup"] for trigger in triggers} == {f"shop.{service.name}"}
    assert of_kind["ScaledObject"]["maxReplicaCount"] == service.partitions
    egress = of_kind["NetworkPolicy"]["egress"]
    peers = {
        peer["podSelector"]["matchLabels"].get("app.kubernetes.io/name", "kafka")
        for rule in egress
        for peer in rule["to"]
        if "podSelector" in peer
    }
    assert peers == {"kafka", "registry"}
    assert any("ipBlock" in peer for rule in egress for peer in rule["to"]) == bool(service.ports)


@pytest.mark.parametrize("service", SERVICES)
def test_live_views_come_as_their_own_user_and_speak_to_each_other_only(service: str) -> None:
    name = f"{service}-views"
    of_kind = {each["kind"]: each["spec"] for each in documents(ROOT / "services" / f"{name}.yaml")}
    (container,) = of_kind["StatefulSet"]["template"]["spec"]["containers"]
    assert container["command"] == ["eventlib", "live", "--service", service, "--http", "0.0.0.0:6066"]
    assert {"name": "EVENTLIB_KAFKA_USER", "value": f"shop-{name}"} in container["env"]
    policy = of_kind["NetworkPolicy"]
    allowed, scraped = policy["ingress"]
    assert scraped["ports"] == [{"protocol": "TCP", "port": 9464}]
    assert {"name": "OTEL_EXPORTER_PROMETHEUS_PORT", "value": "9464"} in container["env"]
    assert allowed == {"from": [{"podSelector": policy["podSelector"]}], "ports": [{"protocol": "TCP", "port": 6066}]}
    assert not any("ipBlock" in peer for rule in policy["egress"] for peer in rule["to"])
    port, metrics = of_kind["Service"]["ports"]
    assert (port["port"], metrics["port"], metrics["name"]) == (6066, 9464, "metrics")
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": port["targetPort"]}


def test_the_console_comes_as_an_operator_and_answers_on_its_port() -> None:
    of_kind = {each["kind"]: each["spec"] for each in documents(ROOT / "base" / "console.yaml")}
    (container,) = of_kind["Deployment"]["template"]["spec"]["containers"]
    assert container["command"] == ["eventlib", "console", "--http", "0.0.0.0:9000"]
    assert {"name": "EVENTLIB_KAFKA_USER", "value": "shop-operator"} in container["env"]
    assert of_kind["Deployment"]["replicas"] == 1
    (port,) = container["ports"]
    assert port == {"name": of_kind["Service"]["ports"][0]["targetPort"], "containerPort": 9000}
    (rule,) = of_kind["NetworkPolicy"]["ingress"]
    assert rule["ports"] == [{"protocol": "TCP", "port": 9000}]
    (log,) = [each for each in documents(ROOT / "base" / "network.yaml") if each["metadata"]["name"] == "shop-log"]
    assert "console" in log["spec"]["podSelector"]["matchExpressions"][1]["values"]


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
