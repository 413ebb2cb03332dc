"""The files of a corpus: `corpus.json` (what it covers), `schemas.json`, and `decisions.ndjson`, one decision a line."""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eventlib.codec.format import Read, Write
from eventlib.codec.formats import format_of
from eventlib.codec.registry import AVRO
from eventlib.errors import ContractError, EventlibError, WiringError
from eventlib.model.choreography import Choreography
from eventlib.model.event import Meta
from eventlib.model.schema.derive import record_of
from eventlib.proof.corpus.decisions import CorpusDecision, item_of
from eventlib.values import from_ms, to_ms


class Values:
    """Writes and reads values; `schemas` has the text of each schema by its number.

    Personal fields are written as they are: a corpus holds pseudonyms.
    """

    def __init__(self, schemas: Mapping[str, str] | None = None) -> None:
        self.schemas = dict(schemas or {})
        self._numbers = {text: number for number, text in self.schemas.items()}
        self._writers: dict[type, tuple[str, Write]] = {}
        self._readers: dict[tuple[type, str], Read] = {}

    def write(self, value: object) -> str:
        """Return a value as text: the number of its schema, and base64 of its bytes."""
        cls = type(value)
        if cls not in self._writers:
            record, avro = record_of(cls), format_of(AVRO)
            text = avro.schema(record).text
            number = self._numbers.setdefault(text, str(len(self._numbers) + 1))
            self.schemas[number] = text
            self._writers[cls] = number, avro.writer(record, b"")
        number, write = self._writers[cls]
        return f"{number}:{b64encode(write(value)).decode()}"

    def read(self, cls: type[Any], text: str) -> Any:
        """Return a value of a class. Raises: ContractError when the class cannot be read from what was written."""
        number, _, data = text.partition(":")
        if (cls, number) not in self._readers:
            schema = self.schemas.get(number)
            if schema is None:
                raise ContractError(f"schema {number} is not in schemas.json: cut the corpus again")
            self._readers[cls, number] = format_of(AVRO).reader(record_of(cls), schema, 0)
        return self._readers[cls, number](b64decode(data))


VERSION = 1
_MANIFEST, _SCHEMAS, _DECISIONS = "corpus.json", "schemas.json", "decisions.ndjson"


class Unreadable(ContractError):
    """A decision of a corpus that the current code cannot read."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """A corpus in a directory; `manifest` has what it was cut from and covers."""

    directory: Path
    manifest: Mapping[str, Any]

    @classmethod
    def open(cls, directory: Path) -> "Corpus":
        """Open a corpus. Raises: WiringError when there is none, or it is of another version."""
        path = directory / _MANIFEST
        try:
            manifest = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise WiringError(
                f"there is no corpus in {directory}: `eventlib prove corpus --out {directory}`"
            ) from error
        except (OSError, ValueError) as error:
            raise WiringError(f"{path} cannot be read: {error}; cut the corpus again") from error
        if not isinstance(manifest, dict) or manifest.get("version") != VERSION:
            raise WiringError(f"{path} is not of version {VERSION}, which this eventlib reads: cut the corpus again")
        return cls(directory, manifest)

    @classmethod
    def write(cls, directory: Path, manifest: Mapping[str, Any], decisions: Sequence[CorpusDecision]) -> int:
        """Write a corpus, in the stead of one that is there, and return its size in bytes."""
        values = Values()
        lines = "".join(f"{json.dumps(_written(each, values), ensure_ascii=False)}\n" for each in decisions)
        schemas = {number: json.loads(text) for number, text in values.schemas.items()}
        texts = {
            _DECISIONS: lines,
            _SCHEMAS: json.dumps(schemas, indent=1, ensure_ascii=False) + "\n",
            _MANIFEST: json.dumps({"version": VERSION, **manifest}, indent=2, ensure_ascii=False) + "\n",
        }
        try:
            directory.mkdir(parents=True, exist_ok=True)
            return sum((directory / name).write_bytes(text.encode()) for name, text in texts.items())
        except OSError as error:
            raise WiringError(f"{directory} cannot be written: {error.strerror}; name another with --out") from error

    def decisions(self, choreography: Choreography) -> Iterator[tuple[str, CorpusDecision | Unreadable]]:
        """Yield each decision with its name; what the current code cannot read comes as the error."""
        schemas = json.loads((self.directory / _SCHEMAS).read_text(encoding="utf-8"))
        values = Values({number: json.dumps(schema) for number, schema in schemas.items()})
        with (self.directory / _DECISIONS).open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                try:
                    found = json.loads(line)
                    name = f"{number:05}-{found['source']}-{found['input']}-{found['key']}"
                except (ValueError, KeyError, TypeError) as error:
                    where = f"{self.directory / _DECISIONS}, line {number}"
                    raise WiringError(f"{where} is no decision ({error!r}): cut the corpus again") from error
                try:
                    yield name, _read(found, choreography, values)
                except (EventlibError, KeyError, ValueError, TypeError) as error:
                    yield name, Unreadable(f"the current code cannot read it: {error}")


def _written(decision: CorpusDecision, values: Values) -> dict[str, Any]:
    meta = decision.meta
    return {
        "saga": decision.saga,
        "source": decision.source,
        "key": decision.key,
        "input": decision.input,
        "at": decision.at_ms,
        "state": None if decision.state is None else values.write(decision.state),
        "event": None if decision.event is None else values.write(decision.event),
        "meta": [meta.id, to_ms(meta.recorded_at), meta.correlation_id, meta.causation_id, meta.source, meta.subject],
        "emitted": [{"type": type(each).__name__, "value": values.write(each)} for each in decision.events],
    }


def _read(found: Mapping[str, Any], choreography: Choreography, values: Values) -> CorpusDecision:
    decider = choreography.decider(found["source"].partition("/")[2])
    state = None if found["state"] is None else values.read(decider.state, found["state"])
    is_event = found["event"] is not None
    event = values.read(choreography.event(found["input"]), found["event"]) if is_event else None
    id_, recorded_ms, correlation_id, causation_id, source, subject = found["meta"]
    meta = Meta(
        id_,
        recorded_at=from_ms(recorded_ms),
        correlation_id=correlation_id,
        causation_id=causation_id,
        source=source,
        subject=subject,
    )
    emitted = [item_of(values.read(choreography.event(each["type"]), each["value"])) for each in found["emitted"]]
    name = found["source"], decider, found["key"], found["saga"], found["at"]
    return CorpusDecision(*name, state, event, "" if is_event else found["input"], meta, emitted)
