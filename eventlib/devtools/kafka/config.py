"""What a cluster for development is like, and the settings of Kafka that follow."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from eventlib.devtools.kafka.security import Security
from eventlib.errors import BrokerFailed

HOST = "127.0.0.1"
SIZES = (1, 3)


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """A cluster: 1 node, or 3 that keep three copies of everything and acknowledge with two.

    `port` is the first node's, the others follow it; 0 takes any that are free. `properties` are Kafka's own broker
    settings, and win over ours. `java_options` win over ours, too: without `-XX:TieredStopAtLevel=1` a node starts
    more slowly and runs faster.
    """

    nodes: int = 1
    port: int = 0
    security: Security = field(default_factory=Security)
    properties: Mapping[str, str] = field(default_factory=dict)
    java_options: tuple[str, ...] = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

    def __post_init__(self) -> None:
        """Refuse what cannot be had. Raises: BrokerFailed."""
        if self.nodes not in SIZES:
            raise BrokerFailed(f"a cluster for development has 1 node, or 3 of which one may fail; not {self.nodes}")
        if not 0 <= self.port <= 65_535 - self.nodes:
            raise BrokerFailed(
                f"{self.port} is no port: expected 1 to {65_535 - self.nodes}, or 0 for any that is free"
            )


@dataclass(frozen=True, slots=True)
class Ports:
    """Where a node listens: for clients, for the other nodes, and for the quorum of controllers."""

    client: int
    internal: int
    controller: int

    @property
    def all(self) -> tuple[int, ...]:
        """All of them."""
        return (self.client, self.internal, self.controller)


def node_directory(directory: Path, number: int) -> Path:
    """Return where a node of the cluster in a directory keeps what it has."""
    return directory / f"node-{number}"


def key_store(directory: Path) -> Path:
    """Return the file with the key of the cluster in a directory, and its certificate."""
    return directory / "tls" / "key.p12"


def certificate(directory: Path) -> Path:
    """Return the file with the certificate alone, for clients."""
    return directory / "tls" / "certificate.pem"


def server_properties(config: ClusterConfig, number: int, ports: tuple[Ports, ...], directory: Path) -> dict[str, str]:
    """Return the settings of node `number`, which is broker and controller at once, of the cluster in a directory."""
    own = ports[number - 1]
    copies = str(config.nodes)
    needed = str(config.nodes // 2 + 1)
    listeners = [f"CLIENT://{HOST}:{own.client}", f"INTERNAL://{HOST}:{own.internal}"]
    return {
        "process.roles": "broker,controller",
        "node.id": str(number),
        "controller.quorum.voters": ",".join(f"{n}@{HOST}:{each.controller}" for n, each in enumerate(ports, 1)),
        "listeners": ",".join([*listeners, f"CONTROLLER://{HOST}:{own.controller}"]),
        "advertised.listeners": ",".join(listeners),
        "listener.security.protocol.map": f"CLIENT:{config.security.protocol},INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "INTERNAL",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(node_directory(directory, number) / "data"),
        "auto.create.topics.enable": "false",
        "default.replication.factor": copies,
        "min.insync.replicas": needed,
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": needed,
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": needed,
        # A few clients instead of thousands: fewer partitions of Kafka's own, no waiting for members that may come.
        "offsets.topic.num.partitions": "8",
        "transaction.state.log.num.partitions": "8",
        "group.initial.rebalance.delay.ms": "0",
        "num.network.threads": "2",
        "num.io.threads": "4",
        # The cleaner's default buffer is 128 MB, a quarter of this heap.
        "log.cleaner.dedupe.buffer.size": str(16 * 1024 * 1024),
        # A node that dies is noticed, and may come back, after 4 s instead of 9: soon, and not because it was only busy.
        "broker.heartbeat.interval.ms": "500",
        "broker.session.timeout.ms": "4000",
        **config.security.properties(key_store(directory)),
        **config.properties,
    }
