"""Certificate authorities of a test's own, and what they sign, as Kafka and its clients take it."""

import subprocess
from pathlib import Path

from eventlib.devtools.kafka.security import STORE_PASSWORD

_NAMES = "subjectAltName=DNS:localhost,IP:127.0.0.1"


class Authority:
    """One that signs certificates for `broker` and for clients; whoever has `certificate` trusts them."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory = directory / name
        self._directory.mkdir()
        self._name = name
        self.certificate = self._directory / "ca.pem"
        self._key = self._directory / "ca.key"
        signs = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")  # Python 3.13 trusts no authority without it
        self._openssl("req", "-x509", *_new(self._key), "-subj", f"/CN={name}", *signs, "-out", self.certificate)

    def signed(self, subject: str) -> tuple[Path, Path]:
        """Return a new certificate in PEM, and its key."""
        certificate, key = self._directory / f"{subject}.pem", self._directory / f"{subject}.key"
        extensions = ("-addext", _NAMES, "-addext", "basicConstraints=critical,CA:FALSE")
        by = ("-CA", self.certificate, "-CAkey", self._key)
        self._openssl("req", "-x509", *_new(key), "-subj", f"/CN={subject}", *extensions, *by, "-out", certificate)
        return certificate, key

    def key_store(self) -> Path:
        """Return a new certificate of the broker's with its key, in PKCS #12."""
        certificate, key = self.signed("broker")
        store = self._directory / "broker.p12"
        chain = ("-in", certificate, "-inkey", key, "-certfile", self.certificate)
        self._openssl("pkcs12", "-export", *chain, "-out", store, "-passout", f"pass:{STORE_PASSWORD}")
        return store

    def _openssl(self, *arguments: str | Path) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True)


def together(file: Path, *authorities: Authority) -> Path:
    """Write a file that trusts several authorities, and return it."""
    file.write_text("".join(each.certificate.read_text(encoding="ascii") for each in authorities), encoding="ascii")
    return file


def _new(key: Path) -> tuple[str | Path, ...]:
    curve = "ec_paramgen_curve:prime256v1"
    return ("-newkey", "ec", "-pkeyopt", curve, "-nodes", "-days", "30", "-keyout", key)
