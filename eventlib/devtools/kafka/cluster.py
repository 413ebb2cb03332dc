"""A cluster in a directory: its nodes are started, stopped, killed and paused by the process that has the directory."""

import json
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Self

from eventlib.devtools.kafka.config import HOST, ClusterConfig, certificate, key_store
from eventlib.devtools.kafka.jars import KAFKA
from eventlib.devtools.kafka.java import Java, find_java
from eventlib.devtools.kafka.layout import Layout, choose_ports, forget
from eventlib.devtools.kafka.node import Node, PortTaken, Program
from eventlib.devtools.kafka.security import STORE_PASSWORD
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


_TAKES_S = 120.0


def with_class_archive(program: Program) -> Program:
    """Return the program with the archive of its Java, which is made when there is none yet.

    A Java that makes none, or a place that takes none, costs time at each start and nothing else.
    """
    archive = program.jars / f"classes-{program.java.build}.jsa"
    with suppress(OSError):
        if not archive.exists():
            _make(program, archive)
        if archive.stat().st_size:
            return replace(program, options=(f"-XX:SharedArchiveFile={archive}", *program.options))
    return program


def _make(program: Program, archive: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="classes-", dir=archive.parent) as scratch:
        made = Path(scratch) / archive.name
        with suppress(BrokerFailed):  # the cluster itself will say what is wrong
            _run_once(replace(program, options=(f"-XX:ArchiveClassesAtExit={made}", *program.options)), Path(scratch))
        made.touch()  # empty: this Java is not asked again
        made.replace(archive)


def _run_once(program: Program, directory: Path) -> None:
    layout = Layout.new(ClusterConfig())
    layout.write(directory)
    (node,) = layout.nodes(directory)
    try:
        node.format(program, ["-t", layout.cluster_id]).wait()
        node.launch(program)
        node.wait_until_up(time.monotonic() + _TAKES_S)
        node.stop(_TAKES_S)
    finally:
        node.kill()


_CERTIFICATE_TAKES_S = 60


def make_certificate(java: Java, key_store: Path, certificate: Path) -> None:
    """Make a key with a certificate for this machine's own names, signed by itself, unless they are there.

    Clients trust it by `certificate`, in PEM. Raises: BrokerFailed.
    """
    if certificate.is_file():
        return
    key_store.parent.mkdir(exist_ok=True)
    key_store.unlink(missing_ok=True)
    names = "SAN=dns:localhost,ip:127.0.0.1,ip:::1"
    _keytool(
        *(java, key_store, "-genkeypair", "-keyalg", "EC", "-groupname", "secp256r1", "-validity", "3650"),
        *("-dname", "CN=Kafka for development", "-ext", names, "-ext", "BC:critical=ca:true"),
    )
    _keytool(java, key_store, "-exportcert", "-rfc", "-file", str(certificate))


def _keytool(java: Java, key_store: Path, *arguments: str) -> None:
    place = ("-alias", "broker", "-keystore", str(key_store), "-storetype", "PKCS12", "-storepass", STORE_PASSWORD)
    try:
        subprocess.run(  # noqa: S603  a tool of this machine's Java, with arguments of our own
            [java.tool("keytool"), *arguments, *place],
            capture_output=True,
            text=True,
            timeout=_CERTIFICATE_TAKES_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        said = (getattr(error, "stdout", "") or "").strip() or error
        raise BrokerFailed(f"{java.tool('keytool')} could not make a certificate: {said}") from error
