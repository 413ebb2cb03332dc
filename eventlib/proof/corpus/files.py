"""The files of a corpus: `corpus.json` (what it covers), `schemas.json`, and `decisions.ndjson`, one decision a line."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eventlib.errors import ContractError, EventlibError, WiringError
from eventlib.model.choreography import Choreography
from eventlib.model.event import Meta
from eventlib.proof.corpus.decisions import CorpusDecision
from eventlib.proof.corpus.values import Values
from eventlib.values import from_ms, to_ms

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
            raise WiringError(f"there is no corpus in {directory}: `eventlib corpus cut --out {directory}`") from error
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
        "emitted": [{"type": type(each).__name__, "value": values.write(each)} for each in decision.emitted],
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
    emitted = tuple(values.read(choreography.event(each["type"]), each["value"]) for each in found["emitted"])
    name = found["saga"], found["source"], decider, found["key"], found["at"]
    return CorpusDecision(*name, state, event, "" if is_event else found["input"], meta, emitted)
