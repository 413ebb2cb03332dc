"""A cluster's certificate, made by the keytool of the Java that runs it."""

import subprocess
from pathlib import Path

from eventlib.broker.java import Java
from eventlib.broker.security import STORE_PASSWORD
from eventlib.errors import BrokerFailed

_TAKES_S = 60


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
            [java.tool("keytool"), *arguments, *place], capture_output=True, text=True, timeout=_TAKES_S, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        said = (getattr(error, "stdout", "") or "").strip() or error
        raise BrokerFailed(f"{java.tool('keytool')} could not make a certificate: {said}") from error
