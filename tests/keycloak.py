"""Keycloak as it is distributed, on this machine: fetched, unpacked and prepared once for a user, and started by a run's tests."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from eventlib.devtools.kafka.jars import JarSet
from eventlib.devtools.kafka.java import Java, find_java
from tests.ports import free_port

KEYCLOAK = JarSet("Keycloak", "keycloak", "keycloak-quarkus-dist", Path(__file__).with_name("keycloak.lock"))
ADMIN = "admin"
_ADMIN_PASSWORD = "of-no-other-machine"  # noqa: S105  it is that of a server for tests, which answers this machine only
_SMALL = ("-Xms64m", "-Xmx320m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Duser.language=en")
_OPENS = tuple(
    f"--add-opens=java.base/{each}=ALL-UNNAMED"
    for each in ("java.lang", "java.security", "java.util", "java.util.concurrent")
)
_PROPERTIES = (
    "-Djava.util.concurrent.ForkJoinPool.common.threadFactory=io.quarkus.bootstrap.forkjoin.QuarkusForkJoinWorkerThreadFactory",
    "-Djava.util.logging.manager=org.jboss.logmanager.LogManager",
    "-Dpicocli.disable.closures=true",
)
_BUILT = "-Dkc.config.built=true"
_NEEDS_BUILD = 10
"""The exit code of a first start: the server has been built for its options, and is to be started again."""
_STARTS_S = 300.0
_ENDS_S = 300.0  # where it writes its classes, on a busy machine
_CLASSES = "classes.jsa"
_PRINTED = "printed"


@dataclass(frozen=True, slots=True)
class Keycloak:
    """A running server, its process, and how long it took to start."""

    port: int
    process: "subprocess.Popen[bytes]"
    started_in_s: float
    password: str = _ADMIN_PASSWORD

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def memory_bytes(self) -> int:
        """Its memory, without what is swapped out."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let it accept connections, and answer none."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)


@contextmanager
def running_keycloak() -> Iterator[Keycloak]:
    """Run a server until the context is left; neither a process nor a file of it stays."""
    java = find_java("Keycloak")
    prepared = _prepared(java)
    with tempfile.TemporaryDirectory(prefix="eventlib-keycloak-") as home:
        for each in prepared.iterdir():
            if each.name != "data":
                (Path(home) / each.name).symlink_to(each)
        shutil.copytree(prepared / "data", Path(home) / "data")
        with _running(java, Path(home), _BUILT, f"-XX:SharedArchiveFile={_CLASSES}") as found:
            yield found


def _prepared(java: Java) -> Path:
    """Return a directory with the server, built and with a database: what a first start spends most of its time on."""
    kept = KEYCLOAK.default_place()
    prepared = kept.with_name(f"{kept.name}-prepared-{java.build}")
    if prepared.is_dir():
        return prepared
    (archive,) = KEYCLOAK.pinned()
    fetched = KEYCLOAK.fetched(java, kept) / archive.file
    with tempfile.TemporaryDirectory(prefix=f"{prepared.name}-", dir=kept.parent) as scratch:
        with zipfile.ZipFile(fetched) as zipped:
            zipped.extractall(scratch)
        (home,) = Path(scratch).iterdir()
        with _process(java, home, free_port()) as first:
            assert first.wait(_STARTS_S) == _NEEDS_BUILD, _printed(home)
        with _running(java, home, _BUILT, f"-XX:ArchiveClassesAtExit={_CLASSES}") as second:
            second.process.terminate()
            second.process.wait(_ENDS_S)
        (home / _PRINTED).unlink()
        try:
            home.rename(prepared)
        except OSError:
            if not prepared.is_dir():  # else another process was faster
                raise
    return prepared


@contextmanager
def _running(java: Java, home: Path, *options: str) -> Iterator[Keycloak]:
    began, port = time.monotonic(), free_port()
    with _process(java, home, port, *options) as process:
        until = began + _STARTS_S
        while not _answers(port):
            assert process.poll() is None, _printed(home)
            assert time.monotonic() < until, _printed(home)
            time.sleep(0.05)
        yield Keycloak(port, process, time.monotonic() - began)


@contextmanager
def _process(java: Java, home: Path, port: int, *options: str) -> "Iterator[subprocess.Popen[bytes]]":
    command = [
        *(str(java.executable), *_SMALL, *options, *_OPENS, *_PROPERTIES),
        *(f"-Dkc.home.dir={home}", f"-Djboss.server.config.dir={home}/conf", "-cp", "lib/quarkus-run.jar"),
        *("io.quarkus.bootstrap.runner.QuarkusEntryPoint", "start-dev", "--db=dev-file", "--cache=local"),
        *("--http-host=127.0.0.1", f"--http-port={port}"),
    ]
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("KC_")},
        "KC_BOOTSTRAP_ADMIN_USERNAME": ADMIN,
        "KC_BOOTSTRAP_ADMIN_PASSWORD": _ADMIN_PASSWORD,
    }
    with (home / _PRINTED).open("ab") as out:
        process = subprocess.Popen(command, cwd=home, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/realms/master", timeout=10).status_code == 200
    except httpx.TransportError:
        return False


def _printed(home: Path) -> str:
    return (home / _PRINTED).read_text(encoding="utf-8", errors="replace")[-5_000:]
