"""Files that a cluster's Java makes once: its class archive, which halves the start of a node, and a certificate."""

import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from eventlib.devtools.kafka.config import ClusterConfig
from eventlib.devtools.kafka.java import Java
from eventlib.devtools.kafka.layout import Layout
from eventlib.devtools.kafka.node import Program
from eventlib.devtools.kafka.security import STORE_PASSWORD
from eventlib.errors import BrokerFailed

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
