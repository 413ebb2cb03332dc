"""Manifests of a cluster as files: Kubernetes, Strimzi, Prometheus's rules, or commands of Kafka's own tools."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from shlex import join
from typing import Any

import yaml

from eventlib.contracts.view_manifest import Viewing
from eventlib.errors import WiringError
from eventlib.ground.variables import read_settings
from eventlib.log.kafka.options import KafkaOptions
from eventlib.manifests.acls import Right, User, users_of
from eventlib.manifests.connectors import SUBSCRIBERS, ConnectorProgram
from eventlib.manifests.kubernetes import Cluster
from eventlib.manifests.pods import METRICS, METRICS_HOST, connecting, stops_s
from eventlib.manifests.strimzi import topic_resources, user_resources
from eventlib.manifests.topics import TopicSpec, topic_specs
from eventlib.model.choreography import Choreography
from eventlib.telemetry.alerts import rule_groups

_SERVER = '--bootstrap-server "$BOOTSTRAP" --command-config "$CONFIG"'
HEAD = '#!/bin/sh\n# BOOTSTRAP is host:port, CONFIG a file of client properties for a user who may do this.\nset -eu\n: "${BOOTSTRAP:?}" "${CONFIG:?}"\n'


def topic_commands(topics: Iterable[TopicSpec]) -> Iterator[str]:
    """Return a `kafka-topics.sh` for each topic; run again, they change nothing."""
    for topic in topics:
        counts = ["--partitions", str(topic.partitions), "--replication-factor", str(topic.replicas)]
        configs = [part for each in sorted(topic.configs.items()) for part in ("--config", "=".join(each))]
        what = join(["--create", "--if-not-exists", "--topic", topic.name, *counts, *configs])
        yield f"kafka-topics.sh {_SERVER} {what}"


def right_commands(users: Iterable[User]) -> Iterator[str]:
    """Return a `kafka-acls.sh` for each right of each user; run again, they change nothing."""
    for user in users:
        yield f"# {user.name}: {user.about}"
        for right in user.rights:
            yield f"kafka-acls.sh {_SERVER} {join(right_arguments(user.name, right))}"


def right_arguments(user: str, right: Right) -> list[str]:
    """Return the arguments with which `kafka-acls.sh` gives a user a right."""
    operations = [part for operation in right.operations for part in ("--operation", operation.value)]
    pattern = ["--resource-pattern-type", "prefixed"] if right.is_prefix else []
    what = [f"--{right.kind.value}", right.name, *pattern]
    return ["--add", "--force", "--allow-principal", f"User:{user}", *operations, *what]


def script(user: User, topics: Sequence[TopicSpec] = ()) -> str:
    """Return a script of Kafka's tools that makes topics and gives a user its rights."""
    return HEAD + "\n".join([*topic_commands(topics), *right_commands([user])])


def for_strimzi(
    choreography: Choreography, views: Sequence[Viewing], connectors: Sequence[ConnectorProgram] = ()
) -> dict[str, str]:
    """Return KafkaTopics and KafkaUsers of the cluster `kafka`. Raises: SettingsError."""
    topics, users = _needed(choreography, views, connectors)
    files = {
        "topics.yaml": documents(topic_resources(topics, _CLUSTER)),
        "users.yaml": documents(user_resources(users, _CLUSTER)),
    }
    return {**files, **_kustomization(files)}


def for_kubernetes(
    choreography: Choreography, views: Sequence[Viewing], connectors: Sequence[ConnectorProgram] = ()
) -> dict[str, str]:
    """Return what runs each service and scales it, its live views, sinks and webhooks, and the alerts. Raises: SettingsError."""
    place = Cluster(read_settings(KafkaOptions, {}), _CLUSTER)
    files = {f"{service.name}.yaml": documents(place.resources(service)) for service in choreography.services}
    files |= {f"{viewing.name}.yaml": documents(place.views(viewing)) for viewing in views}
    files |= {f"{each.name}.yaml": documents(place.connector(each)) for each in connectors}
    files["scaler.yaml"] = documents(place.scaler())
    files["alerts.yaml"] = documents([place.alerts(choreography)])
    return {**files, **_kustomization(files)}


def for_compose(connectors: Sequence[ConnectorProgram]) -> dict[str, str]:
    """Return what runs sinks and webhooks beside an application's own Compose file. Raises: WiringError, SettingsError."""
    if not connectors:
        raise WiringError("compose is for sinks and webhooks: name some, with --sink or --subscribers")
    return {"connectors.yaml": documents([connector_services(connectors, read_settings(KafkaOptions, {}))])}


def for_tools(
    choreography: Choreography, views: Sequence[Viewing], connectors: Sequence[ConnectorProgram] = ()
) -> dict[str, str]:
    """Return scripts with `kafka-topics.sh` and `kafka-acls.sh`. Raises: SettingsError."""
    topics, users = _needed(choreography, views, connectors)
    return {
        "topics.sh": HEAD + "\n".join(topic_commands(topics)) + "\n",
        "rights.sh": HEAD + "\n".join(right_commands(users)) + "\n",
    }


def for_prometheus(choreography: Choreography) -> dict[str, str]:
    """Return the alerts as a file of rules for a Prometheus that has no operator."""
    return {f"{choreography.name}-alerts.yml": documents([{"groups": rule_groups(choreography)}])}


def documents(values: Iterable[Mapping[str, Any]]) -> str:
    """Return mappings as the documents of one YAML file."""
    text: str = yaml.dump_all(
        values, Dumper=_Dumper, allow_unicode=True, explicit_start=True, sort_keys=False, width=float("inf")
    )
    return text


class _Dumper(yaml.SafeDumper):
    """Writes no anchors, and quotes what YAML 1.2 (Kubernetes, Prometheus) reads as a number and YAML 1.1 does not."""

    def ignore_aliases(self, _data: object) -> bool:
        return True


_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"[-+]?\d+[eE][-+]?\d+$"), [*"+-0123456789"])
_Dumper.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"0o[0-7]+$"), ["0"])


def _kustomization(files: Iterable[str]) -> dict[str, str]:
    head = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    return {"kustomization.yaml": documents([{**head, "resources": sorted(files)}])}


def _needed(
    choreography: Choreography, views: Sequence[Viewing], connectors: Sequence[ConnectorProgram]
) -> tuple[list[TopicSpec], list[User]]:
    options = read_settings(KafkaOptions, {})
    topics = [*topic_specs(choreography, options, views), *(topic for each in connectors for topic in each.topics)]
    return topics, [*users_of(choreography, options, views), *(each.user for each in connectors)]


_CLUSTER = "kafka"


_READY = f"from urllib.request import urlopen; urlopen('http://127.0.0.1:{METRICS}/readyz', timeout=5)"


def connector_services(connectors: Iterable[ConnectorProgram], options: KafkaOptions) -> dict[str, Any]:
    """Return the file's content: each runs twice, and one takes over from the other."""
    found: dict[str, Any] = {"services": {}}
    for each in connectors:
        found["services"][each.name] = _service(each, options)
        if each.files:
            text = each.files[SUBSCRIBERS].replace("$", "$$")  # Compose puts variables in
            found.setdefault("configs", {})[each.name] = {"content": text}
    return found


def _service(connector: ConnectorProgram, options: KafkaOptions) -> dict[str, Any]:
    environment = {**connecting(connector).environment}
    del environment[METRICS_HOST]  # where others may ask for metrics, `settings.env` says who they are, too
    configs = [{"source": connector.name, "target": environment["EVENTLIB_WEBHOOKS"]}] if connector.files else []
    return {
        "image": f"{options.application}-services",
        "command": [*connector.command],
        "environment": environment,
        "env_file": ["settings.env", f"{connector.name}.env"],
        "configs": configs,
        "read_only": True,
        "tmpfs": ["/tmp"],  # noqa: S108  a container's own
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "init": True,
        "restart": "unless-stopped",
        "stop_grace_period": f"{stops_s()}s",
        "deploy": {"replicas": 2},
        "healthcheck": {
            "test": ["CMD", "python", "-c", _READY],
            "interval": "15s",
            "timeout": "10s",
            "retries": 4,
            "start_period": "60s",
        },
    }
