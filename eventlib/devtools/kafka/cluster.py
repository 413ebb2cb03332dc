"""A cluster in a directory: its nodes are started, stopped, killed and paused by the process that has the directory."""

import json
import shutil
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Self

from eventlib.devtools.kafka.config import HOST, ClusterConfig, certificate, key_store
from eventlib.devtools.kafka.jars import KAFKA
from eventlib.devtools.kafka.java import find_java
from eventlib.devtools.kafka.layout import Layout, choose_ports, forget
from eventlib.devtools.kafka.node import Node, PortTaken, Program
from eventlib.devtools.kafka.prepared import make_certificate, with_class_archive
from eventlib.errors import BrokerFailed

_STARTS_S = 90.0
_STOPS_S = 15.0
_ATTEMPTS = 5


class Cluster:
    """One or three nodes of Apache Kafka, with all that they write in one directory."""

    def __init__(self, directory: Path, layout: Layout) -> None:
        """Use `create` or `open`."""
        self.directory = directory
        self._layout = layout
        self.nodes = layout.nodes(directory)

    @classmethod
    def create(cls, directory: Path, config: ClusterConfig | None = None) -> Self:
        """Make a cluster in a directory that is empty or not there; `start` starts it.

        Raises: BrokerFailed when something is there already.
        """
        directory = directory.absolute()
        directory.mkdir(parents=True, exist_ok=True)
        if any(directory.iterdir()):
            raise BrokerFailed(f"{directory} is not empty, so no cluster can be made there: name another directory")
        layout = Layout.new(config or ClusterConfig())
        layout.write(directory)
        return cls(directory, layout)

    @classmethod
    def open(cls, directory: Path) -> Self | None:
        """Return the cluster in a directory, running or not; None when there is none. Raises: BrokerFailed."""
        layout = Layout.read(directory.absolute())
        return None if layout is None else cls(directory.absolute(), layout)

    def adopt(self, port: int) -> None:
        """Let clients find it at another port from the next start on (0: any). Raises: BrokerFailed when it runs."""
        if any(node.pid is not None for node in self.nodes):
            raise BrokerFailed(
                f"it runs already, at {self.url}: stop it with `eventlib broker stop --keep` before it gets another port"
            )
        self._layout = replace(self._layout, config=replace(self.config, port=port))
        self._move()

    @property
    def config(self) -> ClusterConfig:
        """What it was made with."""
        return self._layout.config

    @property
    def cluster_id(self) -> str:
        """Kafka's name for it."""
        return self._layout.cluster_id

    @property
    def bootstrap(self) -> str:
        """Where clients begin: `host:port` of each node."""
        return ",".join(f"{HOST}:{node.ports.client}" for node in self.nodes)

    @property
    def url(self) -> str:
        """The URL of the log on it."""
        return f"kafka://{self.bootstrap}"

    def environment(self, user: str | None = None) -> dict[str, str]:
        """Return the variables EVENTLIB_KAFKA_… for a client that comes as a user, by default the one who may everything."""
        return self.config.security.environment(user, certificate(self.directory))

    @property
    def is_running(self) -> bool:
        """Whether every node runs."""
        return all(node.pid is not None for node in self.nodes)

    def start(self) -> None:
        """Start the nodes that do not run, and return when all serve; data that is there stays.

        Raises: BrokerFailed, with the end of its log, when a node does not start; what was started is ended again.
        """
        for attempts_left in reversed(range(_ATTEMPTS)):
            resting = [node for node in self.nodes if node.pid is None]
            try:
                self._start(resting)
            except PortTaken:
                known_to_clients = self.config.port or any(node.is_formatted for node in self.nodes)
                if known_to_clients or not attempts_left:
                    raise
                self._move()
            else:
                return

    def stop(self) -> None:
        """Stop the nodes as a person does, and keep their data for the next start."""
        for node in self.nodes:
            with suppress(BrokerFailed):
                node.send(signal.SIGTERM)
        deadline = time.monotonic() + _STOPS_S
        for node in self.nodes:
            node.stop(max(0.0, deadline - time.monotonic()))

    def destroy(self) -> None:
        """End the nodes at once, and delete all that they have written."""
        for node in self.nodes:
            node.kill()
            shutil.rmtree(node.directory, ignore_errors=True)
        shutil.rmtree(key_store(self.directory).parent, ignore_errors=True)
        forget(self.directory)

    def node(self, number: int) -> Node:
        """Return a node by its number, from 1. Raises: BrokerFailed."""
        if not 1 <= number <= len(self.nodes):
            raise BrokerFailed(f"there is no node {number}: this cluster has {len(self.nodes)}")
        return self.nodes[number - 1]

    def kill(self, number: int) -> None:
        """Kill a node (SIGKILL)."""
        self.node(number).kill()

    def pause(self, number: int) -> None:
        """Stop a node in the middle of what it does (SIGSTOP), until `resume`."""
        self.node(number).send(signal.SIGSTOP)

    def resume(self, number: int) -> None:
        """Let a paused node go on (SIGCONT)."""
        self.node(number).send(signal.SIGCONT)

    def restart(self, number: int) -> None:
        """Start a node on its data, and return when it serves; one that still runs is stopped before."""
        node = self.node(number)
        node.stop(_STOPS_S)
        self._start([node])

    def controller(self) -> int | None:
        """Return the number of the node that leads the quorum of controllers, from the nodes' own files.

        None while they elect one.
        """
        _, leader = max(map(_leader, self.nodes))
        return None if leader < 1 else leader

    def _start(self, nodes: Sequence[Node]) -> None:
        if not nodes:
            return
        java = find_java()
        program = with_class_archive(
            Program(java, KAFKA.fetched(java, KAFKA.default_place()), self.config.java_options)
        )
        if self.config.security.tls:
            make_certificate(java, key_store(self.directory), certificate(self.directory))
        try:
            for node in nodes:
                node.refuse_taken_ports()
            self._format(program, [node for node in nodes if not node.is_formatted])
            for node in nodes:
                node.launch(program)
            deadline = time.monotonic() + _STARTS_S
            for node in nodes:
                node.wait_until_up(deadline)
        except BaseException:  # also on Ctrl-C meanwhile
            for node in nodes:
                node.kill()
            raise

    def _format(self, program: Program, nodes: Sequence[Node]) -> None:
        arguments = ["-t", self.cluster_id, *self.config.security.format_arguments()]
        formatting = [(node, node.format(program, arguments)) for node in nodes]
        try:
            for node, process in formatting:
                if process.wait():
                    raise BrokerFailed(f"node {node.number} could not be prepared; {node.tail()}")
        finally:
            for _, process in formatting:
                process.kill()
                process.wait()

    def _move(self) -> None:
        self._layout = replace(self._layout, ports=choose_ports(self.config))
        self._layout.write(self.directory)
        self.nodes = self._layout.nodes(self.directory)


def _leader(node: Node) -> tuple[int, int]:
    """Return the epoch of the quorum that a node knows of, and who leads in it; -1 for what it does not know."""
    try:
        said = json.loads((node.directory / "data" / "__cluster_metadata-0" / "quorum-state").read_text("utf-8"))
    except (OSError, ValueError):
        return -1, -1
    return said["leaderEpoch"], said["leaderId"]
