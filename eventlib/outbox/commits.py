"""Tells a relay that rows were put, by PostgreSQL's logical replication, so that it need not ask all the time."""

import asyncio
import logging
from contextlib import suppress
from secrets import token_hex
from struct import pack, unpack_from
from time import monotonic, time

from psycopg import Error, pq
from psycopg.conninfo import make_conninfo

from eventlib.ground.postgres import connection_to

PUBLICATION = "eventlib_outbox"

_log = logging.getLogger(__name__)
_REMEDY = "this needs wal_level=logical, a free slot, and a role with REPLICATION that owns the table"
_AGAIN_S = 30.0
_ACKNOWLEDGED_S = 5.0
_QUIET_S = 1.0
_ASKS_S = 1.0
_EPOCH_S = 946_684_800
"""2000-01-01, from which PostgreSQL counts."""
_DATA, _KEEPALIVE, _INSERT = b"w", b"k", b"I"


class Commits:
    """A stream of the rows that are put into an outbox; a relay takes from it only that there are some, and reads its table.

    The slot is temporary: it ends with the connection, so a server keeps no log for a relay that is away, and a replica that
    takes over needs no slot. Where there is no stream, it is said once, and asking every few milliseconds has to do.
    """

    def __init__(self, url: str) -> None:
        self.name, self._known = connection_to(url, "eventlib outbox")
        self._connection: pq.abc.PGconn | None = None
        self._socket = -1
        self._put, self._lost = asyncio.Event(), asyncio.Event()
        self._put_at = 0.0
        self._end_of_log = 0

    @property
    def is_open(self) -> bool:
        """Whether there is a stream now."""
        return self._connection is not None

    async def listen(self) -> None:
        """Listen until cancelled, over connections that end."""
        told = ""
        while True:
            try:
                self._begin(await asyncio.to_thread(self._opened))
                told = ""
                while not self._lost.is_set():
                    with suppress(TimeoutError):
                        async with asyncio.timeout(_ACKNOWLEDGED_S):
                            await self._lost.wait()
                    if not self._lost.is_set():
                        self._acknowledge()
            except (Error, OSError) as error:
                reason = str(error).strip().partition("\n")[0]
                if reason != told:
                    _log.warning(
                        "%s gives no stream of commits, so its outbox is asked instead: %s; %s",
                        self.name,
                        reason,
                        _REMEDY,
                    )
                told = reason
            finally:
                self._end()
            await asyncio.sleep(_AGAIN_S if told else _QUIET_S)

    async def wait(self, every_s: float) -> None:
        """Wait until rows may have been put: until the stream says so, or for as long as it may not."""
        quiet = self.is_open and monotonic() - self._put_at > _QUIET_S  # a commit is told before it can be seen
        with suppress(TimeoutError):
            async with asyncio.timeout(_ASKS_S if quiet else every_s):
                await self._put.wait()
        self._put.clear()

    def _opened(self) -> "pq.abc.PGconn":
        options = f"{self._known.get('options', '')} -clock_timeout=5000"  # a new slot waits for open transactions
        known = {**self._known, "options": options, "replication": "database"}
        connection = pq.PGconn.connect(make_conninfo(**known).encode())
        try:
            _refuse(connection.status != pq.ConnStatus.OK, connection)
            _ask(connection, _PUBLISH, pq.ExecStatus.COMMAND_OK)
            slot = f"eventlib_outbox_{token_hex(4)}"
            create = f"CREATE_REPLICATION_SLOT {slot} TEMPORARY LOGICAL pgoutput NOEXPORT_SNAPSHOT"
            _ask(connection, create, pq.ExecStatus.TUPLES_OK)
            start = f"START_REPLICATION SLOT {slot} LOGICAL 0/0 (proto_version '1', publication_names '{PUBLICATION}')"
            _ask(connection, start, pq.ExecStatus.COPY_BOTH)
        except BaseException:
            connection.finish()
            raise
        return connection

    def _begin(self, connection: "pq.abc.PGconn") -> None:
        self._connection = connection
        self._lost.clear()
        self._socket = connection.socket  # a connection that is lost has none
        asyncio.get_running_loop().add_reader(self._socket, self._read)
        self._put.set()  # what was put before it

    def _end(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            connection.finish()

    def _read(self) -> None:
        connection = self._connection
        if connection is None:
            return
        try:
            connection.consume_input()
            while (got := connection.get_copy_data(1))[0] > 0:
                self._take(bytes(got[1]))
            ended = "it has ended" if got[0] < 0 else ""
        except Error as error:
            ended = str(error)
        if ended:
            _log.info("the stream of commits of %s: %s", self.name, ended)
            asyncio.get_running_loop().remove_reader(self._socket)
            self._lost.set()

    def _take(self, message: bytes) -> None:
        if message[:1] == _DATA and message[25:26] == _INSERT:
            self._put_at = monotonic()
            self._put.set()
        if message[:1] in {_DATA, _KEEPALIVE}:
            begin = 9 if message[:1] == _DATA else 1
            (self._end_of_log,) = unpack_from("!Q", message, begin)

    def _acknowledge(self) -> None:
        """Let the server drop its log up to here: what is in the table needs none."""
        if self._connection is None:
            return
        end, now = self._end_of_log, int((time() - _EPOCH_S) * 1_000_000)
        self._connection.put_copy_data(pack("!cQQQqB", b"r", end, end, end, now, 0))
        self._connection.flush()


_PUBLISH = f"""DO $$ BEGIN
IF NOT EXISTS (SELECT FROM pg_publication WHERE pubname = '{PUBLICATION}') THEN
  CREATE PUBLICATION {PUBLICATION} FOR TABLE eventlib_outbox WITH (publish = 'insert');
END IF; END $$"""


def _ask(connection: "pq.abc.PGconn", command: str, expected: pq.ExecStatus) -> None:
    result = connection.exec_(command.encode())
    _refuse(result.status != expected, result)


def _refuse(wrong: bool, said: "pq.abc.PGconn | pq.abc.PGresult") -> None:
    if wrong:
        raise Error(said.get_error_message())
