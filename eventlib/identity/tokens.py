"""Named tokens for machines, of which only hashes are kept, and the certificates that a proxy has verified."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from secrets import token_urlsafe
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from eventlib.errors import WiringError
from eventlib.ground.private_files import write_private
from eventlib.ground.pydantic_errors import sentence_of
from eventlib.ground.watched_file import WatchedFile, read_trusted
from eventlib.identity.principal import Principal, Role

_TOKEN_BYTES = 32
SHORTEST_TOKEN = 22
"""Characters of a token: 128 bits in base64."""


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    roles: Annotated[list[Role], Field(min_length=1)]
    customer: Annotated[str | None, Field(min_length=1, max_length=200)] = None


class TokenEntry(_Entry):
    """A token: its name, the SHA-256 of its text, its roles, and its customer in the role `customer`."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9._@-]{1,100}$")]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class CertificateEntry(_Entry):
    """A client's certificate: its subject as the proxy writes it, its roles, and its customer."""

    subject: Annotated[str, Field(min_length=1, max_length=1_000)]


class Named(BaseModel):
    """The content of a file of tokens."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tokens: list[TokenEntry] = []
    certificates: list[CertificateEntry] = []


@dataclass(frozen=True, slots=True)
class _Table:
    tokens: Mapping[str, Principal]
    certificates: Mapping[str, Principal]


class NamedTokens:
    """The tokens and certificates of a file, which is read again when it changes, and of a setting."""

    def __init__(self, path: Path | None, text: str | None) -> None:
        given = [] if text is None else [_parsed(text, "EVENTLIB_IDENTITY_TOKENS")]
        self._given = _table(given)
        self._file = None
        if path is not None:
            read = partial(_read_table, given=given)
            self._file = WatchedFile(path, read, "the tokens of before stay valid")

    def of_token(self, token: str) -> Principal | None:
        """Return the principal of a token; None for one that is unknown, or shorter than 128 bits.

        Guarantee: takes the same time for every unknown token: hashes are compared, not texts.
        """
        digest = sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
        found = self._table.tokens.get(digest)
        return found if len(token) >= SHORTEST_TOKEN else None

    def of_certificate(self, subject: str) -> Principal | None:
        """Return the principal of a certificate's subject; None for one that is unknown."""
        return self._table.certificates.get(subject)

    @property
    def _table(self) -> "_Table":
        return self._given if self._file is None else self._file.content


def read_named(path: Path) -> Named:
    """Read a file of tokens. Raises: WiringError, also when others than its owner may write to it."""
    return _parsed(read_trusted(path, "the tokens file", "`eventlib token NAME --role ROLE`"), str(path))


def add_token(
    path: Path | None, name: str, roles: Sequence[Role], customer: str | None = None, *, renew: bool = False
) -> tuple[str, TokenEntry]:
    """Make a token, add it to a file if one is given, and return its text, which is kept nowhere, and its entry.

    With `renew` it replaces a token of that name. Guarantee: the file is replaced as a whole, and is its owner's alone.
    Raises: WiringError for a name that is taken.
    """
    text = token_urlsafe(_TOKEN_BYTES)
    try:
        entry = TokenEntry(name=name, sha256=sha256(text.encode()).hexdigest(), roles=list(roles), customer=customer)
    except ValidationError as error:
        raise WiringError(f"this token cannot be made: {sentence_of(error)}") from error
    if path is not None:
        named = read_named(path) if path.exists() else Named()
        others = [each for each in named.tokens if each.name != name]
        if len(others) < len(named.tokens) and not renew:
            raise WiringError(f"{path} has a token {name!r} already: remove its entry first, or choose another name")
        changed = named.model_copy(update={"tokens": [*others, entry]})
        write_private(path, changed.model_dump_json(indent=2, exclude_none=True) + "\n")
    return text, entry


def _parsed(text: str, where: str) -> Named:
    try:
        data = json.loads(text)
        return Named.model_validate(data)
    except ValidationError as error:
        raise WiringError(f"{where}: {sentence_of(error)}") from error
    except ValueError as error:
        raise WiringError(f'{where} is not JSON: write {{"tokens": […]}} as `eventlib token` prints it') from error


def _read_table(path: Path, given: Sequence[Named]) -> _Table:
    return _table([*given, read_named(path)])


def _table(found: Sequence[Named]) -> _Table:
    tokens, certificates = dict[str, Principal](), dict[str, Principal]()
    for named in found:
        for token in named.tokens:
            if token.sha256 in tokens:
                raise WiringError(f"token {token.name!r} has the same text as {tokens[token.sha256].subject!r}")
            tokens[token.sha256] = _principal("token", token.name, token)
        for certificate in named.certificates:
            if certificate.subject in certificates:
                raise WiringError(f"the certificate {certificate.subject!r} stands twice among the tokens")
            certificates[certificate.subject] = _principal("certificate", certificate.subject, certificate)
    names = [each.subject for each in tokens.values()]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise WiringError(f"two tokens are named {', '.join(twice)}: a name stands for one, also on the log")
    return _Table(tokens, certificates)


def _principal(source: Literal["token", "certificate"], subject: str, entry: _Entry) -> Principal:
    roles = frozenset(entry.roles)
    customer = entry.customer or (subject if Role.CUSTOMER in roles else None)
    return Principal(subject=subject, source=source, roles=roles, customer=customer)


def json_of(entry: TokenEntry) -> dict[str, Any]:
    """Return an entry as the file has it."""
    return entry.model_dump(mode="json", exclude_none=True)
