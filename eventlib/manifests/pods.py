"""What runs a service, or its live views, on Kubernetes: a StatefulSet, whose pods have a volume each for what they keep.

They need no rights: they run as an unprivileged user, on a file system that is read-only but for that volume and /tmp.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eventlib.contracts.view_manifest import Viewing
from eventlib.log.kafka.options import KafkaOptions
from eventlib.manifests.acls import user_name
from eventlib.manifests.connectors import SUBSCRIBERS, ConnectorProgram
from eventlib.model.service import Service
from eventlib.runtime.config import RuntimeConfig

METRICS, VIEWS = 9464, 6066
_EVERYWHERE = "0.0.0.0"  # noqa: S104  a network policy restricts it
METRICS_HOST = "OTEL_EXPORTER_PROMETHEUS_HOST"
_TELLS = {METRICS_HOST: _EVERYWHERE, "OTEL_EXPORTER_PROMETHEUS_PORT": str(METRICS)}
_USER_ID = 10_001
_STATE, _CA, _REGISTRY_CA, _TMP = "/var/lib/shop", "/etc/kafka", "/etc/registry", "/tmp"  # noqa: S108  a container's own
_FILES = "/etc/eventlib"
_HANDS_OVER_S = 25
"""How long a process that stops needs besides its effects' grace: others are notified, appends are finished, spans sent."""


@dataclass(frozen=True, slots=True)
class Program:
    """What pods run: as which user, by which command, and where it reports whether it is ready: at the first of its ports."""

    user: str
    command: tuple[str, ...]
    ports: Mapping[str, int]
    environment: Mapping[str, str]
    ready: str = "/readyz"
    secret: str | None = None
    """A Secret with variables of its own."""
    files: str | None = None
    """A ConfigMap with files that it reads, in a directory of that name."""


def stops_s() -> int:
    """Return how long a process may take to stop (s)."""
    return math.ceil(RuntimeConfig().grace_s) + _HANDS_OVER_S


def running(service: Service, options: KafkaOptions) -> Program:
    """Return what runs a service."""
    command = ("eventlib", "run", "--service", service.name)
    return Program(user_name(options, service.name), command, {"metrics": METRICS}, _TELLS)


def watching(viewing: Viewing, options: KafkaOptions) -> Program:
    """Return what runs a service's live views."""
    command = ("eventlib", "live", "--service", viewing.service, "--http", f"{_EVERYWHERE}:{VIEWS}")
    ports = {"views": VIEWS, "metrics": METRICS}
    return Program(user_name(options, viewing.name), command, ports, _TELLS)


def connecting(connector: ConnectorProgram) -> Program:
    """Return what runs a connector."""
    user = connector.user.name
    environment = dict(_TELLS)
    if connector.files:
        environment["EVENTLIB_WEBHOOKS"] = f"{_FILES}/{SUBSCRIBERS}"
    files = f"{user}-files" if connector.files else None
    return Program(user, connector.command, {"metrics": METRICS}, environment, secret=f"{user}-secrets", files=files)


def stateful_set(program: Program, options: KafkaOptions, kafka: str, labels: dict[str, str]) -> dict[str, Any]:
    """Return the specification of a StatefulSet, but for how many pods there are."""
    volume = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}}
    return {
        "serviceName": program.user,
        "podManagementPolicy": "Parallel",
        "minReadySeconds": 5,
        "selector": {"matchLabels": labels},
        # The local store is a cache: no pod comes back to what was scaled down.
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Delete"},
        "template": {"metadata": {"labels": labels}, "spec": _pod(program, options, kafka, labels)},
        "volumeClaimTemplates": [{"metadata": {"name": "state"}, "spec": volume}],
    }


def _pod(program: Program, options: KafkaOptions, kafka: str, labels: dict[str, str]) -> dict[str, Any]:
    ca = {"secretName": f"{kafka}-cluster-ca-cert", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": labels},
    }
    return {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": stops_s(),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER_ID,
            "runAsGroup": _USER_ID,
            "fsGroup": _USER_ID,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "topologySpreadConstraints": [spread],
        "containers": [_container(program, options)],
        "volumes": [
            {"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}},
            {"name": "kafka-ca", "secret": ca},
            {"name": "registry-ca", "secret": {**ca, "secretName": f"{options.application}-registry-tls"}},
            *([{"name": "files", "configMap": {"name": program.files}}] if program.files else []),
        ],
    }


def _container(program: Program, options: KafkaOptions) -> dict[str, Any]:
    port = next(iter(program.ports))
    alive = {"httpGet": {"path": "/healthz", "port": "metrics"}}  # it answers there while the rest waits for the log
    return {
        "name": "service",
        "image": f"{options.application}-services",
        "command": [*program.command],
        "envFrom": [
            {"configMapRef": {"name": f"{options.application}-settings"}},
            {"secretRef": {"name": f"{options.application}-identity"}},  # its key and its tokens
            *([{"secretRef": {"name": program.secret}}] if program.secret else []),
        ],
        "env": _environment(program),
        "ports": [{"name": name, "containerPort": number} for name, number in program.ports.items()],
        "startupProbe": {**alive, "periodSeconds": 2, "failureThreshold": 60},
        "livenessProbe": {**alive, "periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 6},
        "readinessProbe": {"httpGet": {"path": program.ready, "port": port}, "periodSeconds": 2},
        "resources": {
            "requests": {"cpu": "250m", "memory": "384Mi", "ephemeral-storage": "64Mi"},
            "limits": {"memory": "1Gi", "ephemeral-storage": "256Mi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "state", "mountPath": _STATE},
            {"name": "tmp", "mountPath": _TMP},
            {"name": "kafka-ca", "mountPath": _CA, "readOnly": True},
            {"name": "registry-ca", "mountPath": _REGISTRY_CA, "readOnly": True},
            *([{"name": "files", "mountPath": _FILES, "readOnly": True}] if program.files else []),
        ],
    }


def _environment(program: Program) -> list[dict[str, Any]]:
    password = {"secretKeyRef": {"name": program.user, "key": "password"}}  # Strimzi puts it there
    return [
        {"name": "EVENTLIB_KAFKA_USER", "value": program.user},
        {"name": "EVENTLIB_KAFKA_PASSWORD", "valueFrom": password},
        *({"name": name, "value": value} for name, value in program.environment.items()),
    ]
