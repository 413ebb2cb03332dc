"""A PostgreSQL server of a test's own, from the programs that this machine has."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.saga.fleet import free_port

USER, PASSWORD, DATABASE = "shop", "shop-secret", "catalogue"
_PROGRAMS = ("initdb", "pg_ctl", "psql")
_DEBIAN = Path("/usr/lib/postgresql")


def programs() -> Path | None:
    """Return the directory with PostgreSQL's programs: that on PATH, or the newest of Debian's; None when there is none."""
    on_path = shutil.which("initdb")
    places = [Path(on_path).resolve().parent] if on_path else []
    places += sorted(_DEBIAN.glob("*/bin"), key=lambda place: int(place.parent.name), reverse=True)
    return next((place for place in places if all((place / each).exists() for each in _PROGRAMS)), None)


@dataclass(frozen=True)
class Postgres:
    """A server on this machine, whose only user may do everything, and has to say its password."""

    port: int
    bin: Path

    def run(self, statement: str, database: str = DATABASE) -> list[tuple[str, ...]]:
        """Execute SQL, and return the rows of its answer as text."""
        where = ("-h", "127.0.0.1", "-p", str(self.port), "-U", USER, "-d", database)
        done = subprocess.run(
            [self.bin / "psql", *where, "-X", "-q", "-A", "-t", "-F", "\t", "-v", "ON_ERROR_STOP=1", "-c", statement],
            env={**os.environ, "PGPASSWORD": PASSWORD},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return [tuple(line.split("\t")) for line in done.stdout.splitlines()]


@contextmanager
def running_postgres() -> Iterator[Postgres]:
    """Run a server with logical replication until the context is left; neither a process nor a file of it stays."""
    place = programs()
    assert place is not None
    directory = Path(tempfile.mkdtemp(prefix="eventlib-postgres-"))
    data, said = directory / "data", directory / "said"
    (directory / "password").write_text(PASSWORD, encoding="ascii")
    owner = _owner(directory)

    def call(program: str, *arguments: str | Path) -> None:
        done = subprocess.run(
            [place / program, *arguments], cwd=directory, user=owner, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{done.stderr}{said.read_text(encoding='utf-8') if said.exists() else ''}"

    postgres = Postgres(free_port(), place)
    settings = f"-p {postgres.port} -c listen_addresses=127.0.0.1 -c wal_level=logical -c fsync=off -k {directory}"
    try:
        call("initdb", "-D", data, "-U", USER, "-A", "scram-sha-256", "--pwfile", directory / "password", "-E", "UTF8")
        call("pg_ctl", "start", "-w", "-D", data, "-l", said, "-o", settings)
        try:
            postgres.run(f"CREATE DATABASE {DATABASE}", "postgres")
            yield postgres
        finally:
            call("pg_ctl", "stop", "-w", "-D", data, "-m", "immediate")
    finally:
        shutil.rmtree(directory)


def _owner(directory: Path) -> int | None:
    """Return who may run a server, and owns its directory: not root, which PostgreSQL refuses."""
    if os.getuid() != 0:
        return None
    nobody = pwd.getpwnam("nobody")
    for each in (directory, *directory.iterdir()):
        os.chown(each, nobody.pw_uid, nobody.pw_gid)
    return nobody.pw_uid
