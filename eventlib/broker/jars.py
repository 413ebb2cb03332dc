"""Kafka's jars: fetched once by the Ivy that comes with PySpark, held to their pinned sums at every start."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from xml.sax.saxutils import quoteattr

from eventlib.broker.java import Java
from eventlib.errors import BrokerFailed

IVY_SETTINGS_VARIABLE = "EVENTLIB_IVY_SETTINGS"
_LOCK = Path(__file__).with_name("jars.lock")
_FETCH_S = 900
_TELLING = ("unresolved dependency", "not found", "error", "exception", "download failed")


@dataclass(frozen=True, slots=True)
class Jar:
    """One pinned jar."""

    organisation: str
    name: str
    version: str
    sha256: str

    @property
    def file(self) -> str:
        """Its file's name."""
        return f"{self.name}-{self.version}.jar"


@cache
def pinned_jars() -> tuple[Jar, ...]:
    """Return the jars that make a broker."""
    lines = [line for line in _LOCK.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return tuple(_jar(*line.split()) for line in lines)


def _jar(sha256: str, coordinates: str) -> Jar:
    organisation, name, version = coordinates.split(":")
    return Jar(organisation, name, version, sha256)


def kafka_version() -> str:
    """Return the pinned version of Apache Kafka."""
    return next(jar.version for jar in pinned_jars() if jar.name == "kafka-server")


def default_place() -> Path:
    """Return where the jars are kept for all projects of this user: below XDG_CACHE_HOME, or ~/.cache."""
    home = os.environ.get("XDG_CACHE_HOME")
    caches = Path(home) if home else Path.home() / ".cache"
    return caches / "eventlib" / f"kafka-{kafka_version()}"


def kafka_jars(java: Java, place: Path) -> Path:
    """Return the directory with Kafka's jars, each with its pinned sum; fetch them when they are not there.

    Guarantee: a directory that exists is whole, also when several processes fetch at the same time or one dies.
    Raises: BrokerFailed when they cannot be fetched, or are not those that were pinned.
    """
    if place.is_dir():
        if not _misfits(place):
            return place
        shutil.rmtree(place)  # damaged since: as good as not there
    _make_room(place.parent)
    with tempfile.TemporaryDirectory(prefix=f"{place.name}-", dir=place.parent) as scratch:
        fetched = _fetch(java, Path(scratch))
        misfits = _misfits(fetched)
        if misfits:
            raise BrokerFailed(
                f"what was fetched as {', '.join(misfits)} is not what this project has pinned, and was thrown away: "
                "fetch again; if it stays so, the repository or a proxy before it hands out something else"
            )
        try:
            fetched.rename(place)
        except OSError:
            if _misfits(place):  # else another process was faster, with the same jars
                raise
    return place


def _misfits(place: Path) -> list[str]:
    return [jar.file for jar in pinned_jars() if _sha256(place / jar.file) != jar.sha256]


def _sha256(file: Path) -> str | None:
    try:
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return None


def _make_room(place: Path) -> None:
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BrokerFailed(
            f"Kafka's jars cannot be kept in {place} ({error.strerror}): name another place with XDG_CACHE_HOME"
        ) from error


def _fetch(java: Java, scratch: Path) -> Path:
    wanted, jars = scratch / "ivy.xml", scratch / "jars"
    wanted.write_text(_ivy_module(), encoding="utf-8")
    settings = os.environ.get(IVY_SETTINGS_VARIABLE)
    command = [
        *(str(java.executable), "-jar", str(_ivy()), "-ivy", str(wanted), "-confs", "default"),
        *("-cache", str(scratch / "ivy"), "-retrieve", f"{jars}/[artifact]-[revision].[ext]"),
        *(("-settings", settings) if settings else ()),
    ]
    try:
        done = subprocess.run(  # noqa: S603  a Java of this machine, with arguments of our own
            command, capture_output=True, text=True, errors="replace", timeout=_FETCH_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise _unfetched(f"nothing has come for {_FETCH_S} s") from error
    if done.returncode or not jars.is_dir():
        raise _unfetched(_reason(done.stdout + done.stderr))
    return jars


def _unfetched(reason: str) -> BrokerFailed:
    return BrokerFailed(
        f"Kafka {kafka_version()} could not be fetched from Maven Central ({reason}): it is needed once, with a network; "
        f"behind a mirror name an Ivy settings file with {IVY_SETTINGS_VARIABLE}, "
        f"or copy {default_place()} from a machine that has it"
    )


def _reason(said: str) -> str:
    lines = [line.strip().removeprefix(":: ").removesuffix("::").strip() for line in said.splitlines()]
    telling = [line for line in lines if any(word in line.lower() for word in _TELLING)]
    return "; ".join(dict.fromkeys(telling[-2:])) or "Ivy has not said why"


def _ivy() -> Path:
    spark = find_spec("pyspark")
    places = (spark.submodule_search_locations if spark else None) or []
    found = sorted(jar for place in places for jar in Path(place).glob("jars/ivy-*.jar"))
    if not found:
        raise BrokerFailed("Kafka's jars are fetched by the Ivy in PySpark, which is not installed: install pyspark")
    return found[-1]


def _ivy_module() -> str:
    """Return an Ivy module that asks for each pinned jar by itself, so that nothing is left to resolve."""
    dependencies = "".join(
        f"<dependency org={quoteattr(jar.organisation)} name={quoteattr(jar.name)} rev={quoteattr(jar.version)} "
        'transitive="false" conf="default->master(default)"/>'
        for jar in pinned_jars()
    )
    return (
        '<ivy-module version="2.0"><info organisation="eventlib" module="broker"/>'
        f'<configurations><conf name="default"/></configurations><dependencies>{dependencies}</dependencies></ivy-module>'
    )
