"""The directory of a cluster: what describes it, and each node's settings."""

import os
import random
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pydantic import TypeAdapter, ValidationError

from eventlib.devtools.kafka.config import ClusterConfig, Ports, node_directory, server_properties
from eventlib.devtools.kafka.node import Node, is_free
from eventlib.errors import BrokerFailed
from eventlib.ground.posix import fcntl

_FILE = "cluster.json"
_FREE = range(20_000, 30_000)
"""Below the ports of outgoing connections (32768 and up): those come and go, and one that looks for a node that is
down could meet itself there."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A cluster as its directory describes it."""

    cluster_id: str
    config: ClusterConfig
    ports: tuple[Ports, ...]

    @classmethod
    def new(cls, config: ClusterConfig) -> Self:
        """Return a new cluster, with a name for Kafka and with ports that are free just now."""
        return cls(new_cluster_id(), config, choose_ports(config))

    @classmethod
    def read(cls, directory: Path) -> Self | None:
        """Return what a directory describes, None when there is no cluster in it. Raises: BrokerFailed."""
        try:
            return TypeAdapter(cls).validate_json((directory / _FILE).read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            raise BrokerFailed(f"{directory / _FILE} cannot be read: delete {directory} with what is in it") from error

    def write(self, directory: Path) -> None:
        """Describe the cluster, and write its nodes' settings."""
        (directory / _FILE).write_bytes(TypeAdapter(type(self)).dump_json(self, indent=1))
        for node in self.nodes(directory):
            node.directory.mkdir(exist_ok=True)
            settings = server_properties(self.config, node.number, self.ports, directory)
            node.properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), "utf-8")

    def nodes(self, directory: Path) -> list[Node]:
        """Return the nodes, running or not."""
        return [Node(number, node_directory(directory, number), each) for number, each in enumerate(self.ports, 1)]


def new_cluster_id() -> str:
    """Return a name as Kafka gives them: 16 random bytes, and no dash in front, which would make an option of it."""
    name = "-"
    while name.startswith("-"):
        name = urlsafe_b64encode(os.urandom(16)).decode().rstrip("=")
    return name


def choose_ports(config: ClusterConfig) -> tuple[Ports, ...]:
    """Return ports that are free just now, except that clients' ports are those that were asked for."""
    free = (port for port in iter(lambda: random.choice(_FREE), None) if is_free(port))  # noqa: S311  no secret
    chosen: list[Ports] = []
    for number in range(config.nodes):
        client = config.port + number if config.port else next(free)
        chosen.append(Ports(client, next(free), next(free)))
    every = [port for ports in chosen for port in ports.all]
    return tuple(chosen) if len(set(every)) == len(every) else choose_ports(config)


def forget(directory: Path) -> None:
    """Delete a cluster's description, and its directory unless something else is in it."""
    (directory / _FILE).unlink(missing_ok=True)
    with suppress(OSError):
        directory.rmdir()


@contextmanager
def alone_in(directory: Path) -> Iterator[None]:
    """Make a directory, and keep other programs out of it that ask for the same. Raises: BrokerFailed."""
    while True:
        try:
            directory.mkdir(parents=True, exist_ok=True)
            held = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise BrokerFailed(f"{directory} cannot be used ({error.strerror}): name another with --dir") from error
        try:
            fcntl.flock(held, fcntl.LOCK_EX)
            if _is_still(directory, held):
                yield
                return
        finally:
            os.close(held)


def _is_still(directory: Path, held: int) -> bool:
    """Tell whether the directory was not deleted, and made again, by its previous owner."""
    try:
        return os.path.samestat(directory.stat(), os.fstat(held))
    except FileNotFoundError:
        return False
