"""Services as resources of Kubernetes: a StatefulSet each, what scales and protects it, and what it may connect to.

What differs between clusters (addresses, images, sizes) is not here: kustomize's overlays have it. Two facts are taken
from the operators around: Strimzi's names of what belongs to a cluster, and the scaler of KEDA that reads lags.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from eventlib.contracts.view_manifest import Viewing
from eventlib.log.kafka.options import KafkaOptions
from eventlib.manifests.acls import user_name
from eventlib.manifests.connectors import HTTPS, ConnectorProgram
from eventlib.manifests.pods import METRICS, VIEWS, Program, connecting, running, stateful_set, watching
from eventlib.manifests.strimzi import Resource
from eventlib.model.choreography import Choreography
from eventlib.model.service import Service
from eventlib.telemetry.alerts import rule_groups

_KAFKA, _REGISTRY = 9093, 8081
_LAG = 1_000
"""Records behind for each process that there should be: a few seconds' work."""

_PRIVATE = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"]


class Cluster:
    """Names in one application's namespace, with a Kafka cluster of Strimzi's in it."""

    def __init__(self, options: KafkaOptions, kafka: str) -> None:
        self.options = options
        self.kafka = kafka
        self.application = options.application

    @property
    def bootstrap(self) -> str:
        """Where clients inside find Kafka."""
        return f"{self.kafka}-kafka-bootstrap:{_KAFKA}"

    def labels(self, name: str) -> dict[str, str]:
        """Return the labels of one service's pods."""
        return {"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": self.application}

    def scaler(self) -> Iterator[Resource]:
        """Return how KEDA comes to Kafka: as a user who sees how far services lag, and nothing else."""
        user, labels = user_name(self.options, "scaler"), self.labels("scaler")
        yield {**_head("v1", "ConfigMap", user, labels), "data": {"user": user}}
        certificate = {"parameter": "ca", "name": f"{self.kafka}-cluster-ca-cert", "key": "ca.crt"}
        yield {
            **_head("keda.sh/v1alpha1", "TriggerAuthentication", user, labels),
            "spec": {
                "configMapTargetRef": [{"parameter": "username", "name": user, "key": "user"}],
                "secretTargetRef": [{"parameter": "password", "name": user, "key": "password"}, certificate],
            },
        }

    def alerts(self, choreography: Choreography) -> Resource:
        """Return the alerts as a rule of Prometheus's operator."""
        head = _head("monitoring.coreos.com/v1", "PrometheusRule", f"{self.application}-alerts", self.labels("alerts"))
        return {**head, "spec": {"groups": rule_groups(choreography)}}

    def resources(self, service: Service) -> Iterator[Resource]:
        """Return what runs one service."""
        name, labels = user_name(self.options, service.name), self.labels(service.name)
        specifications = {
            ("v1", "Service"): _headless(running(service, self.options), labels),
            ("apps/v1", "StatefulSet"): self._pods(running(service, self.options), labels),
            ("policy/v1", "PodDisruptionBudget"): {"maxUnavailable": 1, "selector": {"matchLabels": labels}},
            ("keda.sh/v1alpha1", "ScaledObject"): self._scaling(service, name),
            ("networking.k8s.io/v1", "NetworkPolicy"): self._speaks_to(service),
        }
        yield from _resources(specifications, name, labels)

    def views(self, viewing: Viewing) -> Iterator[Resource]:
        """Return what runs a service's live views; several pods share their partitions, and any of them answers."""
        program, labels = watching(viewing, self.options), self.labels(viewing.name)
        specifications = {
            ("v1", "Service"): _headless(program, labels),
            ("apps/v1", "StatefulSet"): {"replicas": 1, **self._pods(program, labels)},
            ("networking.k8s.io/v1", "NetworkPolicy"): self._watches(labels),
        }
        yield from _resources(specifications, program.user, labels)

    def connector(self, connector: ConnectorProgram) -> Iterator[Resource]:
        """Return what runs a connector: two pods, of which one takes over from the other."""
        program, labels = connecting(connector), self.labels(connector.name)
        if program.files is not None:
            yield {**_head("v1", "ConfigMap", program.files, labels), "data": {**connector.files}}
        specifications = {
            ("v1", "Service"): _headless(program, labels),
            ("apps/v1", "StatefulSet"): {"replicas": 2, **self._pods(program, labels)},
            ("policy/v1", "PodDisruptionBudget"): {"maxUnavailable": 1, "selector": {"matchLabels": labels}},
            ("networking.k8s.io/v1", "NetworkPolicy"): self._brings_out(connector, labels),
        }
        yield from _resources(specifications, program.user, labels)

    def _pods(self, program: Program, labels: dict[str, str]) -> dict[str, Any]:
        return stateful_set(program, self.options, self.kafka, labels)

    def _scaling(self, service: Service, name: str) -> dict[str, Any]:
        """Return how many processes there are: a task has one at a time, so never more than there are tasks."""
        slowly = {
            "stabilizationWindowSeconds": 300,
            "policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}],
        }
        authentication = {"name": user_name(self.options, "scaler")}
        return {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name},
            "minReplicaCount": min(2, service.partitions),
            "maxReplicaCount": service.partitions,
            "pollingInterval": 15,
            "cooldownPeriod": 300,
            "advanced": {"horizontalPodAutoscalerConfig": {"behavior": {"scaleDown": slowly}}},
            "triggers": [
                {"type": "kafka", "metadata": self._lag(service, topic.name), "authenticationRef": authentication}
                for topic in service.inputs
            ],
        }

    def _lag(self, service: Service, topic: str) -> dict[str, str]:
        return {
            "bootstrapServers": self.bootstrap,
            "consumerGroup": self.options.group(service.name),
            "topic": f"{self.options.prefix}{topic}",
            "lagThreshold": str(_LAG),
            "offsetResetPolicy": "earliest",
            "version": "2.8.0",  # of the protocol: Kafka 4 no longer supports what the scaler would begin with
            "tls": "enable",
            "sasl": "scram_sha512",
        }

    def _speaks_to(self, service: Service) -> dict[str, Any]:
        """Return what may connect to a service (Prometheus), and what it may connect to; other services are not among them."""
        outside = {"ipBlock": {"cidr": "0.0.0.0/0", "except": _PRIVATE}}
        egress = self._log()
        if service.ports:
            egress.append({"to": [outside], "ports": [_tcp(HTTPS)]})
        return {
            "podSelector": {"matchLabels": self.labels(service.name)},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [_scraped()],
            "egress": egress,
        }

    def _brings_out(self, connector: ConnectorProgram, labels: dict[str, str]) -> dict[str, Any]:
        """Return what may connect to a connector (Prometheus), and what it may connect to.

        A database may be anywhere; subscribers are outside.
        """
        way: dict[str, Any] = {"ports": [_tcp(connector.port)]}
        if connector.port == HTTPS:
            way = {"to": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": _PRIVATE}}], **way}
        return {
            "podSelector": {"matchLabels": labels},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [_scraped()],
            "egress": [*self._log(), way],
        }

    def _watches(self, labels: dict[str, str]) -> dict[str, Any]:
        """Return what may connect to live views, and what they may connect to: workers ask each other for rows."""
        others = [{"podSelector": {"matchLabels": labels}}]
        return {
            "podSelector": {"matchLabels": labels},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": others, "ports": [_tcp(VIEWS)]}, _scraped()],
            "egress": [*self._log(), {"to": others, "ports": [_tcp(VIEWS)]}],
        }

    def _log(self) -> list[dict[str, Any]]:
        """Return the way to Kafka, and to schemas."""
        brokers = {"strimzi.io/cluster": self.kafka, "strimzi.io/kind": "Kafka"}
        return [
            {"to": [{"podSelector": {"matchLabels": brokers}}], "ports": [_tcp(_KAFKA)]},
            {"to": [{"podSelector": {"matchLabels": self.labels("registry")}}], "ports": [_tcp(_REGISTRY)]},
        ]


def _headless(program: Program, labels: dict[str, str]) -> dict[str, Any]:
    ports = [{"name": name, "port": port, "targetPort": name} for name, port in program.ports.items()]
    return {"clusterIP": "None", "selector": labels, "ports": ports}


def _resources(specifications: Mapping[tuple[str, str], Any], name: str, labels: dict[str, str]) -> Iterator[Resource]:
    for (version, kind), specification in specifications.items():
        yield {**_head(version, kind, name, labels), "spec": specification}


def _head(version: str, kind: str, name: str, labels: dict[str, str]) -> Resource:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "labels": labels}}


def _scraped() -> dict[str, Any]:
    """Return Prometheus's way to metrics."""
    monitoring = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    return {"from": [monitoring], "ports": [_tcp(METRICS)]}


def _tcp(port: int) -> dict[str, Any]:
    return {"protocol": "TCP", "port": port}
