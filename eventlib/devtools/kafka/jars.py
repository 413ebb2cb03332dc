"""Jars from Maven Central: fetched once by the Ivy that comes with PySpark, held to their pinned sums at every start."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from xml.sax.saxutils import quoteattr

from eventlib.devtools.kafka.java import Java
from eventlib.errors import BrokerFailed
from eventlib.ground.durable import sha256_of

IVY_SETTINGS_VARIABLE = "EVENTLIB_IVY_SETTINGS"
_FETCH_S = 900
_STALLS_S = 90
"""How long nothing may arrive before fetching is given up: some networks drop what they do not let through."""
_LOOK_S = 0.2
_TELLING = ("unresolved dependency", "not found", "error", "exception", "download failed")


@dataclass(frozen=True, slots=True)
class Jar:
    """One pinned jar, or an artifact of another type, such as `zip`; `size` is in bytes."""

    organisation: str
    name: str
    version: str
    sha256: str
    size: int
    type: str = "jar"

    @property
    def file(self) -> str:
        """Its file's name."""
        return f"{self.name}-{self.version}.{self.type}"


@dataclass(frozen=True, slots=True)
class JarSet:
    """Jars that are used together, as a lock file pins them.

    `name` and the version of the jar called `main` name the directory that they are kept in; `title` is for people.
    """

    title: str
    name: str
    main: str
    lock: Path

    @property
    def version(self) -> str:
        """The pinned version of what it is about."""
        return next(jar.version for jar in self.pinned() if jar.name == self.main)

    def pinned(self) -> tuple[Jar, ...]:
        """Return the jars."""
        return _pinned(self.lock)

    @property
    def size(self) -> int:
        """The bytes of all of them."""
        return sum(jar.size for jar in self.pinned())

    def default_place(self) -> Path:
        """Return where they are kept for all projects of this user: below XDG_CACHE_HOME, or ~/.cache."""
        home = os.environ.get("XDG_CACHE_HOME")
        caches = Path(home) if home else Path.home() / ".cache"
        return caches / "eventlib" / f"{self.name}-{self.version}"

    def is_at(self, place: Path) -> bool:
        """Tell whether a directory has all of them, each with its pinned sum."""
        return place.is_dir() and not self._misfits(place)

    def fetched(self, java: Java, place: Path, progress: Callable[[int], None] = lambda _: None) -> Path:
        """Return the directory with the jars, each with its pinned sum; fetch them when they are not there.

        `progress` is called with the number of bytes that have arrived. Guarantee: a directory that exists is whole, also when several processes fetch at the same time or one dies.
        Raises: BrokerFailed when they cannot be fetched, or are not those that were pinned.
        """
        if self.is_at(place):
            return place
        if place.is_dir():
            shutil.rmtree(place)  # damaged since: as good as not there
        self._make_room(place.parent)
        with tempfile.TemporaryDirectory(prefix=f"{place.name}-", dir=place.parent) as scratch:
            fetched = self._fetch(java, Path(scratch), progress)
            misfits = self._misfits(fetched)
            if misfits:
                raise BrokerFailed(
                    f"what was fetched as {', '.join(misfits)} is not what this project has pinned, and was thrown away: "
                    "fetch again; if it stays so, the repository or a proxy before it hands out something else"
                )
            try:
                fetched.rename(place)
            except OSError:
                if self._misfits(place):  # else another process was faster, with the same jars
                    raise
        return place

    def _misfits(self, place: Path) -> list[str]:
        return [jar.file for jar in self.pinned() if _sha256(place / jar.file) != jar.sha256]

    def _make_room(self, place: Path) -> None:
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BrokerFailed(
                f"{self.title} cannot be kept in {place} ({error.strerror}): name another place with XDG_CACHE_HOME"
            ) from error

    def _fetch(self, java: Java, scratch: Path, progress: Callable[[int], None]) -> Path:
        wanted, jars, cache = scratch / "ivy.xml", scratch / "jars", scratch / "ivy"
        wanted.write_text(_ivy_module(self.pinned()), encoding="utf-8")
        settings = os.environ.get(IVY_SETTINGS_VARIABLE)
        command = [
            *(str(java.executable), "-jar", str(ivy()), "-ivy", str(wanted), "-confs", "default"),
            *("-cache", str(cache), "-retrieve", f"{jars}/[artifact]-[revision].[ext]"),
            *(("-settings", settings) if settings else ()),
        ]
        with tempfile.TemporaryFile("w+", dir=scratch, encoding="utf-8", errors="replace") as output:
            with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output) as process:  # noqa: S603  a Java of this machine, with arguments of our own
                try:
                    self._watch(process, cache, progress)
                finally:
                    process.kill()
            output.seek(0)
            if process.returncode or not jars.is_dir():
                raise self._unfetched(_reason(output.read()))
        return jars

    def _watch(self, process: "subprocess.Popen[bytes]", cache: Path, progress: Callable[[int], None]) -> None:
        """Report what arrives until the process ends. Raises: BrokerFailed when nothing arrives for too long."""
        began = arrived_at = time.monotonic()
        seen = 0
        while process.poll() is None:
            found = _bytes_in(cache)
            now = time.monotonic()
            if found != seen:
                seen, arrived_at = found, now
                progress(min(found, self.size))
            if now - arrived_at > _STALLS_S or now - began > _FETCH_S:
                raise self._unfetched(f"nothing has arrived for {now - arrived_at:.0f} s")
            time.sleep(_LOOK_S)

    def _unfetched(self, reason: str) -> BrokerFailed:
        files = [jar.file for jar in self.pinned()]
        named = ", ".join(files[:_MOST_NAMED]) + (f" and {len(files) - _MOST_NAMED} more" * (len(files) > _MOST_NAMED))
        return BrokerFailed(
            f"{self.title} {self.version} could not be fetched from Maven Central ({reason}). "
            f"It is fetched once, with a network; behind a mirror, name an Ivy settings file with {IVY_SETTINGS_VARIABLE}; "
            f"without either, put {named} into {self.default_place()} ({self.lock.name} pins their versions and SHA-256)"
        )


_MOST_NAMED = 5

KAFKA = JarSet("Apache Kafka", "kafka", "kafka-server", Path(__file__).with_name("jars.lock"))
"""What makes a broker."""


@cache
def _pinned(lock: Path) -> tuple[Jar, ...]:
    lines = [line for line in lock.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return tuple(_jar(*line.split()) for line in lines)


def _jar(sha256: str, size: str, coordinates: str) -> Jar:
    organisation, name, version, *other_type = coordinates.split(":")
    return Jar(organisation, name, version, sha256, int(size), *other_type)


def _bytes_in(place: Path) -> int:
    found = 0
    for path in place.rglob("*"):
        with suppress(OSError):  # renamed meanwhile
            found += path.stat().st_size if path.is_file() else 0
    return found


def _sha256(file: Path) -> str | None:
    try:
        return sha256_of(file)
    except OSError:
        return None


def _reason(said: str) -> str:
    lines = [line.strip().removeprefix(":: ").removesuffix("::").strip() for line in said.splitlines()]
    telling = [line for line in lines if any(word in line.lower() for word in _TELLING)]
    return "; ".join(dict.fromkeys(telling[-2:])) or "Ivy gave no reason"


def ivy() -> Path:
    """Return the Ivy that fetches them. Raises: BrokerFailed when PySpark is not installed."""
    spark = find_spec("pyspark")
    places = (spark.submodule_search_locations if spark else None) or []
    found = sorted(jar for place in places for jar in Path(place).glob("jars/ivy-*.jar"))
    if not found:
        raise BrokerFailed(
            "jars are fetched by the Ivy in PySpark, which is not installed: pip install 'eventlib-sagas[broker]'"
        )
    return found[-1]


def _ivy_module(jars: Iterable[Jar]) -> str:
    """Return an Ivy module that asks for each pinned jar by itself, so that nothing is left to resolve."""
    dependencies = "".join(
        f"<dependency org={quoteattr(jar.organisation)} name={quoteattr(jar.name)} rev={quoteattr(jar.version)} "
        f'transitive="false" conf="default->master(default)">{_artifact(jar)}</dependency>'
        for jar in jars
    )
    return (
        '<ivy-module version="2.0"><info organisation="eventlib" module="broker"/>'
        f'<configurations><conf name="default"/></configurations><dependencies>{dependencies}</dependencies></ivy-module>'
    )


def _artifact(jar: Jar) -> str:
    """Return what names the file to Ivy, which by itself looks for a jar."""
    if jar.type == "jar":
        return ""
    return f"<artifact name={quoteattr(jar.name)} type={quoteattr(jar.type)} ext={quoteattr(jar.type)}/>"
