"""Opens the keys of an application's personal fields, as the settings and the log's URL tell."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eventlib.errors import WiringError
from eventlib.ground.url import log_file
from eventlib.ground.variables import read_settings
from eventlib.model.choreography import Choreography
from eventlib.model.personal import is_personal
from eventlib.personal.base import NO_MASTER, FieldCipher, Mask
from eventlib.personal.options import PersonalOptions

if TYPE_CHECKING:
    from eventlib.personal.master import MasterKey
    from eventlib.personal.store import KeyStore


def open_cipher(choreography: Choreography, url: str, *, rights: bool) -> FieldCipher:
    """Open the cipher for a log: with rights, the keys that the settings name; without, a mask that shows erasures.

    Raises: WiringError, with rights, when the application has personal fields and the settings name no keys; SettingsError.
    """
    if not has_personal(choreography):
        return Mask()
    if url.startswith("memory:"):
        return ephemeral_cipher(choreography)
    options = personal_options()
    if rights:
        return open_ring(url, options, create=True)
    store = find_store(url, options)
    if store is None:
        return Mask()
    from eventlib.personal.ring import StoreMask

    return StoreMask(store)


def open_ring(url: str, options: PersonalOptions, *, create: bool) -> FieldCipher:
    """Open the keys of a log with the master key; with `create`, also for subjects that have none yet. Raises: WiringError."""
    master = open_master(options)
    from eventlib.personal.ring import KeyRing

    return KeyRing(open_store(url, options, create=create), master, create=create)


def personal_options() -> PersonalOptions:
    """Return the settings. Raises: SettingsError."""
    return read_settings(PersonalOptions, {}, also=None)


def ephemeral_cipher(choreography: Choreography) -> FieldCipher:
    """Return the cipher for what ends with the process: a log in memory, the simulator's, a temporary file."""
    if not has_personal(choreography):
        return Mask()
    _need_cryptography()
    from eventlib.personal.cipher import EphemeralCipher

    return EphemeralCipher()


def open_master(options: PersonalOptions) -> "MasterKey":
    """Open the master key that the settings name. Raises: WiringError."""
    _need_cryptography()
    from eventlib.personal.master import FileMaster, VaultMaster

    where = options.personal_master
    if where is None:
        raise WiringError(f"the application has personal fields, and no master key is named: {NO_MASTER}")
    if where.startswith("file:"):
        return FileMaster(Path(where.removeprefix("file:")))
    if where.startswith(("https://", "http://")):
        token = options.personal_vault_token
        return VaultMaster(where, None if token is None else token.get_secret_value())
    if where.startswith("aws-kms:"):
        return _kms_master(where.removeprefix("aws-kms:"))
    raise WiringError(
        f"EVENTLIB_PERSONAL_MASTER={where!r}: write file:PATH, https://HOST:PORT/transit/KEY, or aws-kms:KEY"
    )


def _kms_master(key: str) -> "MasterKey":
    try:
        from eventlib.personal.kms import KmsMaster
    except ImportError as error:
        raise WiringError(f"a master key in AWS KMS needs boto3 ({error}): install eventlib-sagas[kms]") from error
    return KmsMaster(key)


def open_store(url: str, options: PersonalOptions, *, create: bool) -> "KeyStore":
    """Open the store of the subjects' keys for a log. Raises: NoKeys, WiringError, LogUnavailable, LogCorrupt."""
    from eventlib.personal.store import NoKeys

    where = options.personal_keys or (None if (path := log_file(url)) is None else f"sqlite:///{path}.keys")
    if where is None:
        raise NoKeys(
            f"{url} is no file, so that the subjects' keys have no place beside it: set EVENTLIB_PERSONAL_KEYS to "
            "postgresql://HOST/DATABASE, or to sqlite:///PATH where all processes of this log are on one machine"
        )
    store = _store_at(where, create=create)
    _need_cryptography()  # only now: a reader of a log without keys needs none
    return store


def find_store(url: str, options: PersonalOptions) -> "KeyStore | None":
    """Open the store of the subjects' keys for a log; None when it has none yet. Raises: as `open_store`."""
    from eventlib.personal.store import NoKeys

    try:
        return open_store(url, options, create=False)
    except NoKeys:
        return None


def found_store(url: str) -> "AbstractContextManager[KeyStore | None]":
    """Open the store as `find_store` does, by the settings, for as long as it is used. Raises: as `open_store`."""
    return find_store(url, personal_options()) or nullcontext()


def _store_at(where: str, *, create: bool) -> "KeyStore":
    path = log_file(where)
    if path is not None:
        from eventlib.personal.sqlite_store import SqliteKeyStore

        return SqliteKeyStore(path, create=create)
    try:
        from eventlib.personal.postgres_store import PostgresKeyStore
    except ImportError as error:
        raise WiringError(f"keys in PostgreSQL need psycopg ({error}): install eventlib-sagas[postgres]") from error
    return PostgresKeyStore(where, create=create)


def has_personal(choreography: Choreography) -> bool:
    """Return whether any event or state has personal fields."""
    return any(True for _ in personal_classes(choreography))


def personal_classes(choreography: Choreography) -> Iterator[type[Any]]:
    """Yield the events and states that have personal fields."""
    classes = [*choreography.events, *(decider.state for decider in choreography.deciders)]
    yield from (cls for cls in dict.fromkeys(classes) if _is_personal(cls))


def _is_personal(cls: type[Any]) -> bool:
    try:
        return is_personal(cls)
    except NameError:
        return False  # it has no schema either: preparing it is refused


def _need_cryptography() -> None:
    try:
        import cryptography  # noqa: F401  whether it is installed
    except ModuleNotFoundError as error:
        raise WiringError("personal fields need the package cryptography: install eventlib-sagas[personal]") from error
