"""One node of a cluster: a process that may be killed, paused, and started again on its data."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from eventlib.devtools.kafka.config import HOST, Ports
from eventlib.devtools.kafka.java import Java
from eventlib.errors import BrokerFailed
from eventlib.log.processes import started

_UP = b"Kafka Server started"
"""What a node logs when it serves: Kafka's own system tests wait for it, too."""

_LOOK_S = 0.05
_TAIL_LINES = 15
_LOGGING = (
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd HH:mm:ss.SSS",
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.common.config.AbstractConfig=warn",
)


@dataclass(frozen=True, slots=True)
class Program:
    """What runs Kafka: a Java, Kafka's jars, and the options for the Java."""

    java: Java
    jars: Path
    options: tuple[str, ...]

    def command(self, main: str, directory: Path, *arguments: str) -> list[str]:
        """Return a command that leaves files nowhere but in `directory`."""
        java = [
            str(self.java.executable),
            "-XX:-UsePerfData",
            f"-Djava.io.tmpdir={directory / 'tmp'}",
            f"-XX:ErrorFile={directory / 'crash.log'}",
        ]
        return [*java, *_LOGGING, *self.options, "-cp", f"{self.jars}/*", main, *arguments]


class Node:
    """A node in its directory: `server.properties`, `data/`, `broker.log`, `tmp/` and, while it runs, `pid`."""

    def __init__(self, number: int, directory: Path, ports: Ports) -> None:
        self.number = number
        self.directory = directory
        self.ports = ports
        self._child: subprocess.Popen[bytes] | None = None
        self._log_before = 0  # bytes of the log that an earlier life has written

    @property
    def log(self) -> Path:
        """Its output."""
        return self.directory / "broker.log"

    @property
    def properties(self) -> Path:
        """Its settings."""
        return self.directory / "server.properties"

    @property
    def is_formatted(self) -> bool:
        """Whether it has data to go on from."""
        return (self.directory / "data" / "meta.properties").is_file()

    @property
    def pid(self) -> int | None:
        """The process that runs this node, also one that another program has started; None when it does not run."""
        if self._child is not None:
            self._child.poll()  # one of ours that has ended is there until it is asked
        try:
            pid, _, then = self._pid_file.read_text(encoding="ascii").partition(" ")
            os.kill(int(pid), 0)
        except (OSError, ValueError):
            return None
        return int(pid) if then == started(int(pid)) else None

    def format(self, program: Program, arguments: Sequence[str]) -> "subprocess.Popen[bytes]":
        """Begin to write the files that a new node starts with."""
        (self.directory / "tmp").mkdir(parents=True, exist_ok=True)
        command = program.command(
            "kafka.tools.StorageTool", self.directory, "format", "-c", str(self.properties), *arguments
        )
        return self._spawn(command)

    def refuse_taken_ports(self) -> None:
        """Look whether another program listens where it wants to. Raises: PortTaken."""
        taken = [str(port) for port in self.ports.all if not is_free(port)]
        if taken:
            raise PortTaken(
                f"node {self.number} cannot start: port {', '.join(taken)} of {HOST} is taken; "
                "`eventlib broker start --port N` takes another one, and --port 0 any that is free"
            )

    def launch(self, program: Program) -> None:
        """Start the process; `wait_until_up` waits until it serves."""
        self._log_before = self.log.stat().st_size if self.log.exists() else 0
        (self.directory / "tmp").mkdir(parents=True, exist_ok=True)
        self._child = self._spawn(program.command("kafka.Kafka", self.directory, str(self.properties)))
        self._pid_file.write_text(f"{self._child.pid} {started(self._child.pid)}", encoding="ascii")

    def wait_until_up(self, deadline: float) -> None:
        """Wait until it serves. Raises: BrokerFailed with the end of its log when it dies, or takes too long."""
        while _UP not in self._output():
            if self.pid is None:
                raise BrokerFailed(f"node {self.number} has ended at its start; {self.tail()}")
            if time.monotonic() > deadline:
                raise BrokerFailed(f"node {self.number} does not get ready; {self.tail()}")
            time.sleep(_LOOK_S)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to its process. Raises: BrokerFailed when it does not run."""
        pid = self.pid
        if pid is None:
            raise BrokerFailed(f"node {self.number} does not run")
        os.kill(pid, number)

    def kill(self) -> None:
        """Kill its process at once, if it runs, and wait until it is gone."""
        self._end(signal.SIGKILL, 0)

    def stop(self, grace_s: float) -> None:
        """Ask its process to end, if it runs, and kill it when that takes too long."""
        self._end(signal.SIGTERM, grace_s)

    def tail(self) -> str:
        """Return the end of its log, as a part of a sentence."""
        lines = self._output().decode(errors="replace").splitlines()[-_TAIL_LINES:]
        return f"the end of {self.log}:\n  " + "\n  ".join(lines or ["(nothing)"])

    def _end(self, number: signal.Signals, grace_s: float) -> None:
        pid = self.pid
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
                os.kill(pid, signal.SIGCONT)  # one that is paused would not hear of it
            if not self._gone(time.monotonic() + grace_s):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                self._gone(time.monotonic() + 60)
        if self._child is not None:
            self._child.wait()
            self._child = None
        self._pid_file.unlink(missing_ok=True)

    def _gone(self, deadline: float) -> bool:
        while self.pid is not None:
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOOK_S / 5)
        return True

    def _output(self) -> bytes:
        if not self.log.exists():
            return b""
        with self.log.open("rb") as stream:
            stream.seek(self._log_before)
            return stream.read()

    def _spawn(self, command: list[str]) -> "subprocess.Popen[bytes]":
        with self.log.open("ab") as said:  # a session of its own: Ctrl-C at a terminal is not for the broker
            return subprocess.Popen(  # noqa: S603  a Java of this machine, with arguments of our own
                command, cwd=self.directory, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
            )

    @property
    def _pid_file(self) -> Path:
        return self.directory / "pid"


class PortTaken(BrokerFailed):
    """A port that a node needs is another program's."""


def is_free(port: int) -> bool:
    """Tell whether a port of the loopback interface can be listened on just now."""
    try:
        socket.create_server((HOST, port)).close()
    except OSError:
        return False
    return True
