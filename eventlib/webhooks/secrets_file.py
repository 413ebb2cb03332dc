"""The signing secrets of an external system's callbacks in a file: they are replaced without a restart."""

from collections.abc import Callable, Sequence
from pathlib import Path

from eventlib.errors import WiringError
from eventlib.ground.arguments import check_each
from eventlib.ground.watched_file import WatchedFile, read_trusted
from eventlib.webhooks.signing import STANDARD_WEBHOOKS, SignatureScheme, SigningSecret

Secrets = Sequence[SigningSecret] | Callable[[], Sequence[SigningSecret]]
"""Secrets, the newest first; or what returns those of just now."""


class SecretsFile:
    """The secrets in a file, one in a line, the newest first; a call returns those that are there now.

    Empty lines, and those that begin with `#`, are skipped. Guarantee: a change counts a second later; a file that is invalid for the
    moment changes nothing, and is reported on the log of this process.
    Raises: WiringError for a file that cannot be read, that others than its owner may write to, without a secret, or with
    one that cannot sign.
    """

    def __init__(self, path: Path, scheme: SignatureScheme = STANDARD_WEBHOOKS) -> None:
        self._scheme = scheme
        self._file = WatchedFile(path, self._read, "the signing secrets of before stay valid")

    def __call__(self) -> Sequence[SigningSecret]:
        """Return the secrets, the newest first."""
        return self._file.content

    def _read(self, path: Path) -> Sequence[SigningSecret]:
        text = read_trusted(path, "the secrets file", "write one secret in a line, the newest first")
        found = list[SigningSecret]()
        for number, line in enumerate(map(str.strip, text.splitlines()), 1):
            if line and not line.startswith("#"):
                try:
                    found += usable([SigningSecret(line)], self._scheme, "")
                except WiringError as error:
                    raise WiringError(f"line {number} of the secrets file {path}: {error}") from error
        return usable(found, self._scheme, f"the secrets file {path}")


def usable(secrets: Secrets, scheme: SignatureScheme, where: str) -> tuple[SigningSecret, ...]:
    """Return secrets that deliveries can be verified with. Raises: WiringError for none, or of another form."""
    found = secrets() if callable(secrets) else secrets
    given = check_each(found, SigningSecret, "secrets", "give SigningSecret(...) objects, the newest first")
    if not given:
        raise WiringError(f"{where}: no secret is given, so no signature could be right")
    scheme.sign(given, "wired", 0, b"")
    return given


def as_call(secrets: Secrets, scheme: SignatureScheme, where: str) -> Callable[[], Sequence[SigningSecret]]:
    """Return what returns the secrets of just now. Raises: WiringError as `usable`."""
    given = usable(secrets, scheme, where)
    return secrets if callable(secrets) else lambda: given
