"""Keys of subjects in a PostgreSQL database, for the processes of several hosts."""

import os
from collections.abc import Callable, Iterable, Sequence
from threading import RLock
from typing import Any, TypeVar

import psycopg
from psycopg import errors
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus

from eventlib.errors import LogCorrupt, LogUnavailable, WiringError
from eventlib.ground.plaintext import warn_of_plaintext_hosts
from eventlib.ground.postgres import ANSWERS_S, CONNECTS
from eventlib.ground.url import without_userinfo
from eventlib.personal.store import KeyRow, KeyStore, NoKeys

T = TypeVar("T")
_BEGINS = """
SELECT set_config('lock_timeout', '10s', false),
  set_config('synchronous_commit', replace(current_setting('synchronous_commit'), 'off', 'on'), false)
"""
_SWEEPS_S = 600.0
"""How long a table may take to be vacuumed."""
_NEW_TABLES = 0x65766B73
"""The advisory lock under which the tables are made: at once, `IF NOT EXISTS` fails in one of two processes."""
# A subject is bytes, since a text cannot have NUL; it is found by its hash, since an index takes no more than 2,704 bytes.
_TABLES = """
CREATE TABLE IF NOT EXISTS eventlib_key_ring (one integer PRIMARY KEY CHECK (one = 1), wrapped bytea NOT NULL);
CREATE TABLE IF NOT EXISTS eventlib_key_erasures (one integer PRIMARY KEY CHECK (one = 1), erasures bigint NOT NULL);
CREATE TABLE IF NOT EXISTS eventlib_subject_keys (
  id bytea PRIMARY KEY, subject bytea NOT NULL, wrapped bytea NOT NULL, had_key boolean NOT NULL,
  erased_ms bigint, erasure bigint
);
CREATE UNIQUE INDEX IF NOT EXISTS eventlib_subject_keys_subject ON eventlib_subject_keys (sha256(subject));
CREATE INDEX IF NOT EXISTS eventlib_subject_keys_erasure ON eventlib_subject_keys (erasure) WHERE erasure IS NOT NULL;
INSERT INTO eventlib_key_erasures VALUES (1, 0) ON CONFLICT DO NOTHING;
"""
_ROW = "SELECT subject, id, wrapped, erased_ms, had_key FROM eventlib_subject_keys WHERE "
_OF_SUBJECT = _ROW + "sha256(subject) = sha256(%s)"
_OF_SUBJECTS = _ROW + "sha256(subject) IN (SELECT sha256(each) FROM unnest(%s::bytea[]) AS each)"  # noqa: S608  constants
# In the subjects' order, so that two processes with the same new subjects do not wait for each other.
_ADD = """
INSERT INTO eventlib_subject_keys (subject, id, wrapped, had_key)
SELECT * FROM unnest(%s::bytea[], %s::bytea[], %s::bytea[], %s::boolean[]) AS added (subject) ORDER BY subject
ON CONFLICT (sha256(subject)) DO NOTHING
"""
# The first statement of an erasure: it lets one transaction erase at a time, so that numbers become visible in their order.
_ALONE = "SELECT erasures FROM eventlib_key_erasures FOR UPDATE"
_COUNTED = "UPDATE eventlib_key_erasures SET erasures = %s"
_DESTROY = """
UPDATE eventlib_subject_keys SET wrapped = decode(repeat('00', length(wrapped)), 'hex'), erased_ms = %s, erasure = %s
WHERE sha256(subject) = sha256(%s)
"""
_PUT = "COPY eventlib_subject_keys (subject, id, wrapped, had_key, erased_ms, erasure) FROM STDIN"


class BoundedConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that is closed when an answer takes longer than `patience_s` (seconds): libpq would wait without end."""

    patience_s = ANSWERS_S

    def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:
        """Do what a step of the protocol needs. Raises: psycopg.OperationalError, also when the server does not answer."""
        try:
            return super().wait(gen, interval, self.patience_s if timeout is None else timeout)
        except psycopg.OperationalError:
            if self.pgconn.transaction_status == TransactionStatus.ACTIVE:
                self.close()  # its answer would come as that to another question
            raise


class PostgresKeyStore(KeyStore):
    """The wrapped keys in a PostgreSQL database, in tables that the connecting role makes and owns.

    Guarantee, besides those of every key store: a destroyed key is overwritten, and the table vacuumed, before `erase`
    returns. Its bytes, wrapped, may stay: in the unused part of a page until that is used again, in dead rows that an older
    transaction could still see, in the write-ahead log, on replicas, and in base backups.
    """

    def __init__(self, url: str, *, create: bool) -> None:
        self.name = without_userinfo(url)
        self._conninfo = {**CONNECTS, "application_name": "eventlib personal keys", **conninfo_to_dict(url)}
        self._lock = RLock()
        self._opened: tuple[int, BoundedConnection] | None = None
        self._inherited = list[BoundedConnection]()
        if create:
            self._ask(_make_tables)
        elif not self._ask(_has_tables):
            self.close()
            raise NoKeys(f"there are no personal keys at {self.name}: name them with EVENTLIB_PERSONAL_KEYS")

    def ring(self) -> bytes | None:
        """See `KeyStore.ring`."""
        rows = self._rows("SELECT wrapped FROM eventlib_key_ring")
        return rows[0][0] if rows else None

    def set_ring(self, wrapped: bytes) -> None:
        """See `KeyStore.set_ring`."""
        statement = "INSERT INTO eventlib_key_ring VALUES (1, %s) ON CONFLICT DO NOTHING"
        self._ask(lambda server: server.execute(statement, (wrapped,)))

    def of_subject(self, subject: str) -> KeyRow | None:
        """See `KeyStore.of_subject`."""
        return self._row(_OF_SUBJECT, subject.encode())

    def of_id(self, key_id: bytes) -> KeyRow | None:
        """See `KeyStore.of_id`."""
        return self._row(_ROW + "id = %s", key_id)

    def add_all(self, rows: Sequence[KeyRow]) -> list[KeyRow]:
        """See `KeyStore.add_all`."""

        def added(server: BoundedConnection) -> list[KeyRow]:
            subjects = [row.subject.encode() for row in rows]
            columns = [subjects, [row.id for row in rows], [row.wrapped for row in rows], [row.had_key for row in rows]]
            server.execute(_ADD, columns)
            return [_row(each) for each in server.execute(_OF_SUBJECTS, (subjects,))]

        stored = {row.subject: row for row in self._ask(added)}
        return [stored[row.subject] for row in rows]

    def erase(self, row: KeyRow, at_ms: int) -> bool:
        """See `KeyStore.erase`."""

        def erased(server: BoundedConnection) -> bool:
            subject = row.subject.encode()
            with server.transaction():
                ((last,),) = server.execute(_ALONE).fetchall()
                known = server.execute(_OF_SUBJECT, (subject,)).fetchone()
                if known is None or known[3] is None:
                    server.execute(_ADD, ([subject], [row.id], [row.wrapped], [False]))
                    server.execute(_DESTROY, (at_ms, last + 1, subject))
                    server.execute(_COUNTED, (last + 1,))
            return known is not None

        known = self._ask(erased)
        self._vacuum()
        return known

    def erasures(self) -> int:
        """See `KeyStore.erasures`."""
        ((last,),) = self._rows("SELECT erasures FROM eventlib_key_erasures")
        return int(last)

    def erased_after(self, erasure: int) -> list[tuple[str, bytes]]:
        """See `KeyStore.erased_after`."""
        statement = "SELECT subject, id FROM eventlib_subject_keys WHERE erasure > %s ORDER BY erasure"
        return [(subject.decode(), key_id) for subject, key_id in self._rows(statement, erasure)]

    def page(self, after: bytes, size: int) -> list[KeyRow]:
        """See `KeyStore.page`."""
        return [_row(each) for each in self._rows(_ROW + "id > %s ORDER BY id LIMIT %s", after, size)]

    def replace_all(self, ring: bytes | None, rows: Iterable[KeyRow]) -> None:
        """See `KeyStore.replace_all`."""

        def replaced(server: BoundedConnection) -> None:
            with server.transaction():
                ((number,),) = server.execute(_ALONE).fetchall()
                server.execute("TRUNCATE eventlib_key_ring, eventlib_subject_keys")
                if ring is not None:
                    server.execute("INSERT INTO eventlib_key_ring VALUES (1, %s)", (ring,))
                with server.cursor() as cursor, cursor.copy(_PUT) as copy:
                    for row in rows:
                        number += row.erased_ms is not None
                        erasure = None if row.erased_ms is None else number
                        copy.write_row((row.subject.encode(), row.id, row.wrapped, row.had_key, row.erased_ms, erasure))
                server.execute(_COUNTED, (number,))

        self._ask(replaced)

    def close(self) -> None:
        """See `KeyStore.close`."""
        with self._lock:
            if self._opened is not None and self._opened[0] == os.getpid():
                self._opened[1].close()
                self._opened = None

    def _row(self, statement: str, value: bytes) -> KeyRow | None:
        rows = self._rows(statement, value)
        return _row(rows[0]) if rows else None

    def _rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        return self._ask(lambda server: server.execute(statement, values).fetchall())

    def _vacuum(self) -> None:
        def swept(server: BoundedConnection) -> None:
            server.patience_s = _SWEEPS_S
            server.execute("VACUUM eventlib_subject_keys")
            server.patience_s = ANSWERS_S

        self._ask(swept)

    def _ask(self, work: Callable[[BoundedConnection], T]) -> T:
        """Return what the work returns; a connection that failed is not used again. Raises: as each call of a key store."""
        with self._lock:
            try:
                return work(self._connection())
            except (errors.DataCorrupted, errors.IndexCorrupted) as error:
                raise LogCorrupt(
                    f"the personal keys at {self.name} are damaged: {error}; restore a copy of them"
                ) from error
            except (errors.ReadOnlySqlTransaction, psycopg.OperationalError, psycopg.InterfaceError) as error:
                self.close()
                raise LogUnavailable(f"the personal keys at {self.name} are out of reach: {error}") from error
            except psycopg.Error as error:
                self.close()
                raise WiringError(
                    f"the personal keys at {self.name} are refused: {error}; the role has to own the tables eventlib_…"
                ) from error

    def _connection(self) -> BoundedConnection:
        if self._opened is not None and self._opened[0] != os.getpid():
            self._inherited.append(self._opened[1])  # kept, since it is the parent's to close
            self._opened = None
        if self._opened is None:
            server = BoundedConnection.connect(autocommit=True, prepare_threshold=None, **self._conninfo)  # type: ignore[arg-type]
            self._opened = os.getpid(), server
            server.execute(_BEGINS)
            if not server.pgconn.ssl_in_use and not server.info.host.startswith("/"):
                remedy = "add ?sslmode=verify-full&sslrootcert=FILE to EVENTLIB_PERSONAL_KEYS"
                warn_of_plaintext_hosts("what is asked of the personal keys", [server.info.host], remedy)
        return self._opened[1]


def _make_tables(server: BoundedConnection) -> None:
    if _has_tables(server):
        return
    with server.transaction():
        server.execute("SELECT pg_advisory_xact_lock(%s)", (_NEW_TABLES,))
        server.execute(_TABLES)


def _has_tables(server: BoundedConnection) -> bool:
    return server.execute("SELECT to_regclass('eventlib_key_erasures')").fetchone() != (None,)


def _row(row: tuple[Any, ...]) -> KeyRow:
    subject, key_id, wrapped, erased_ms, had_key = row
    return KeyRow(subject.decode(), key_id, wrapped, erased_ms, had_key)
