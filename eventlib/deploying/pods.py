"""What runs a service on Kubernetes: a StatefulSet, whose pods have a volume each for the local store.

They need no rights: they run as nobody in particular, on a file system that is read-only but for that volume and /tmp.
"""

import math
from typing import Any

from eventlib.deploying.rights import user_name
from eventlib.log.kafka.options import KafkaOptions
from eventlib.runtime.host import RuntimeConfig
from eventlib.service import Service

METRICS = 9464
_USER_ID = 10_001
_STATE, _CA, _TMP = "/var/lib/shop", "/etc/kafka", "/tmp"  # noqa: S108  a container's own
_HANDS_OVER_S = 25
"""How long a process that stops needs besides its effects' grace: others are told, appends are finished, spans sent."""


def stateful_set(service: Service, options: KafkaOptions, kafka: str, labels: dict[str, str]) -> dict[str, Any]:
    """Return the specification of a service's StatefulSet; how many pods there are is up to what scales it."""
    name = user_name(options, service.name)
    volume = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}}
    return {
        "serviceName": name,
        "podManagementPolicy": "Parallel",
        "minReadySeconds": 5,
        "selector": {"matchLabels": labels},
        # The local store is a cache: nobody comes back to what was scaled down.
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Delete"},
        "template": {"metadata": {"labels": labels}, "spec": _pod(service, options, kafka, labels)},
        "volumeClaimTemplates": [{"metadata": {"name": "state"}, "spec": volume}],
    }


def _pod(service: Service, options: KafkaOptions, kafka: str, labels: dict[str, str]) -> dict[str, Any]:
    ca = {"secretName": f"{kafka}-cluster-ca-cert", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": labels},
    }
    return {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": math.ceil(RuntimeConfig().grace_s) + _HANDS_OVER_S,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER_ID,
            "runAsGroup": _USER_ID,
            "fsGroup": _USER_ID,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "topologySpreadConstraints": [spread],
        "containers": [_container(service, options)],
        "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}}, {"name": "kafka-ca", "secret": ca}],
    }


def _container(service: Service, options: KafkaOptions) -> dict[str, Any]:
    return {
        "name": "service",
        "image": f"{options.application}-services",
        "command": ["eventlib", "run", "--service", service.name],
        "envFrom": [{"configMapRef": {"name": f"{options.application}-settings"}}],
        "env": _environment(user_name(options, service.name)),
        "ports": [{"name": "metrics", "containerPort": METRICS}],
        "startupProbe": {**_probe("/healthz"), "periodSeconds": 2, "failureThreshold": 60},
        "livenessProbe": {**_probe("/healthz"), "periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 6},
        "readinessProbe": {**_probe("/readyz"), "periodSeconds": 2},
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
        ],
    }


def _environment(user: str) -> list[dict[str, Any]]:
    password = {"secretKeyRef": {"name": user, "key": "password"}}  # Strimzi puts it there
    return [
        {"name": "EVENTLIB_KAFKA_USER", "value": user},
        {"name": "EVENTLIB_KAFKA_PASSWORD", "valueFrom": password},
        {"name": "OTEL_EXPORTER_PROMETHEUS_HOST", "value": "0.0.0.0"},  # noqa: S104  a network policy says for whom
        {"name": "OTEL_EXPORTER_PROMETHEUS_PORT", "value": str(METRICS)},
    ]


def _probe(path: str) -> dict[str, Any]:
    return {"httpGet": {"path": path, "port": "metrics"}}
