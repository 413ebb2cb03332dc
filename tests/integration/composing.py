"""What deploy/compose/compose.yaml starts, started without Docker: each of our containers is a process.

It has its image's packages, the file's command and variables, and an address of its own on the loopback interface, so
that only names of hosts and directories differ from a container's.
"""

import ctypes
import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import httpx

from eventlib.devtools.kafka import Cluster, ClusterConfig, running_cluster
from eventlib.devtools.kafka.node import Node
from tests.composed import Composed, composed, image_environment
from tests.integration.images import Image

_STARTS_S = 120.0
_ENDS_S = 1_800.0
_LOOK_S = 2.0  # the file's start_interval
_PR_SET_PDEATHSIG = 1


def _ends_with_its_parent() -> None:
    """Let this process be killed when the one that has started it is gone."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Container:
    """One replica of a service: a process with its own address, directory and diary."""

    def __init__(self, stack: "Stack", service: Composed, number: int, address: str) -> None:
        self.service = service
        self.address = address
        self.home = stack.directory / f"{service.name}-{number}"
        self._stack = stack
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start its command."""
        self.home.mkdir(exist_ok=True)
        self._process = self._run(self.service.command)

    def done(self) -> int:
        """Wait until it has ended by itself, and return its exit code."""
        assert self._process is not None
        return self._process.wait(_ENDS_S)

    def is_healthy(self) -> bool:
        """Run its health check."""
        assert self._process is not None
        assert self._process.poll() is None, f"{self.service.name} has ended: {self.diary}"
        kind, *command = self.service.healthcheck
        assert kind == "CMD"
        return self._run(command).wait(120) == 0

    def end(self, number: signal.Signals) -> int | None:
        """Send it a signal, wait for its end, and return its exit code."""
        if self._process is None or self._process.poll() is not None:
            return None if self._process is None else self._process.returncode
        self._process.send_signal(number)
        return self._process.wait(120)

    @property
    def diary(self) -> str:
        """What it and its health checks have said."""
        return (self.home / "diary").read_text(encoding="utf-8", errors="replace")

    def _run(self, command: tuple[str, ...] | list[str]) -> "subprocess.Popen[bytes]":
        image = self._stack.images[self.service.target or ""]
        variables = {**image_environment(image.target), **self.service.environment}
        environment = {
            "PATH": f"{image.bin}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "SPARK_LOCAL_IP": self.address,  # what a container's only address is
            **{name: self.translated(value) for name, value in variables.items()},
        }
        translated = [self.translated(word) for word in command]
        program = image.bin / translated[0]
        with (self.home / "diary").open("ab") as diary:
            return subprocess.Popen(
                [program if program.exists() else translated[0], *translated[1:]],
                cwd=self.home,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=diary,
                stderr=diary,
                preexec_fn=_ends_with_its_parent,  # noqa: PLW1509  of what runs here, nothing holds a lock for long
            )

    def translated(self, text: str) -> str:
        """Return a text of the file with this machine's addresses and directories."""
        return self._stack.translated(text, self)


class Stack:
    """The file's services of ours and its brokers; `elsewhere` are addresses of what does not run as a container."""

    def __init__(self, directory: Path, images: Mapping[str, Image], elsewhere: Mapping[str, str]) -> None:
        self.directory = directory
        self.images = images
        self.services = composed()
        self._identity = directory / "volumes" / "identity"
        self._elsewhere = elsewhere
        self._network = f"127.{random.randint(1, 250)}.{random.randint(1, 250)}"
        self._started = dict[str, list[Container]]()
        self._has_brokers = False
        self._addresses = {name: f"{self._network}.{number}" for number, name in enumerate(self.services, start=1)}
        self._endings = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave nothing behind."""
        for container in [each for replicas in self._started.values() for each in replicas]:
            container.end(signal.SIGKILL)
        self._endings.close()

    def up(self, *names: str) -> None:
        """Start services when what they depend on is as they want it, and wait until all are healthy."""
        self._start_brokers()
        for name in names:
            for needed, how in self.services[name].content.get("depends_on", {}).items():
                if not needed.startswith("kafka-"):
                    self._wait(needed, how["condition"])
            self.start(name)
        for name in names:
            if self.services[name].healthcheck:
                self._wait(name, "service_healthy")

    def start(self, name: str) -> None:
        """Start a service's replicas."""
        service = self.services[name]
        addresses = [self._addresses[name], *(f"{self._network}.{100 + n}" for n in range(1, service.replicas))]
        self._started[name] = [Container(self, service, n, address) for n, address in enumerate(addresses, start=1)]
        for container in self._started[name]:
            container.start()

    def run(self, name: str) -> str:
        """Run a job to its end, which has to be a good one, and return what it said."""
        self.start(name)
        (container,) = self._started[name]
        assert container.done() == 0, container.diary
        return container.diary

    def containers(self, name: str) -> list[Container]:
        """Return a service's replicas."""
        return self._started[name]

    def stop(self, *names: str) -> dict[str, list[int | None]]:
        """Stop services as Compose does, and return their exit codes."""
        return {name: [each.end(signal.SIGTERM) for each in self._started.pop(name)] for name in names}

    def get(self, name: str, place: str, replica: int = 0) -> str:
        """Ask a service over HTTP, as an operator: `place` is port and path."""
        token = {"Authorization": f"Bearer {(self._identity / 'operator.token').read_text()}"}
        address = self._started[name][replica].address
        return (
            httpx.get(f"http://{address}:{place}", headers=token, timeout=30, trust_env=False).raise_for_status().text
        )

    def translated(self, text: str, container: Container) -> str:
        """Return a text of the file with this machine's addresses and directories."""
        for place in self._elsewhere:
            text = text.replace(place, f"elsewhere({place.replace(':', ' ')})")
        names = "|".join(sorted(self._addresses, key=len, reverse=True))
        text = re.sub(rf"(?<![\w-])(?:{names})(?=:\d)", lambda found: self._addresses[found[0]], text)
        if text == container.service.content.get("hostname"):
            return container.address
        for there, here in (
            ("0.0.0.0", container.address),  # noqa: S104  it is replaced
            ("127.0.0.1", container.address),
            ("localhost", container.address),
            ("/var/lib/shop", str(self._volume(container))),
            ("/var/lib/identity", str(self._identity)),
            ("/opt", str(self.images[container.service.target or ""].opt)),
        ):
            text = text.replace(there, here)
        for place, here in self._elsewhere.items():
            text = text.replace(f"elsewhere({place.replace(':', ' ')})", here)
        return text

    def _volume(self, container: Container) -> Path:
        """Return what is mounted at /var/lib/shop: a volume of the container's own, or a named one that several share."""
        mounts = [mount.split(":") for mount in container.service.content.get("volumes", ())]
        named = [source for source, there, *_ in mounts if there == "/var/lib/shop"]
        place = self.directory / "volumes" / named[0] if named else container.home / "var"
        place.mkdir(parents=True, exist_ok=True)
        return place

    def _wait(self, name: str, condition: str) -> None:
        for container in self._started[name]:
            if condition == "service_completed_successfully":
                assert container.done() == 0, container.diary
            elif condition == "service_healthy":
                deadline = time.monotonic() + _STARTS_S
                while not container.is_healthy():
                    assert time.monotonic() < deadline, f"{name} does not get healthy: {container.diary}"
                    time.sleep(_LOOK_S)

    def _start_brokers(self) -> None:
        """Start the brokers with the file's variables, as the image of Kafka makes settings of them."""
        if self._has_brokers:
            return
        brokers = [service for name, service in self.services.items() if name.startswith("kafka-")]

        def configure(cluster: Cluster) -> None:
            for service, node in zip(brokers, cluster.nodes, strict=True):
                settings = self._kafka_settings(service, node)
                node.properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))

        self._endings.enter_context(running_cluster(ClusterConfig(nodes=3), configure))
        self._has_brokers = True

    def _kafka_settings(self, service: Composed, node: Node) -> dict[str, str]:
        given = {name: value for name, value in service.environment.items() if name.startswith("KAFKA_")}
        found = dict[str, str]()
        for name, value in given.items():
            text = value.replace("0.0.0.0", service.name).replace("localhost", service.name)  # noqa: S104  replaced
            text = re.sub(r"kafka-\d(?=:)", lambda match: self._addresses[match[0]], text)
            found[name.removeprefix("KAFKA_").lower().replace("_", ".")] = text
        return found | {"log.dirs": str(node.directory / "data")}
