"""Acts on several sagas: what of them is parked, or their keys; what is left out is named with why."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic_core import to_json

from eventlib.errors import ContractError
from eventlib.index.log_index import LogIndex
from eventlib.operations.act import Desk
from eventlib.operations.parked_acts import DiscardAll, ParkedOutcome, RetryAll
from eventlib.operations.pause_acts import Pause, Resume
from eventlib.runtime.records import changelog_key

MOST_SAGAS = 500
"""How many sagas an act is about at most."""
PARKED: Mapping[str, type[RetryAll | DiscardAll]] = {"retry": RetryAll, "discard": DiscardAll}
PAUSES: Mapping[str, type[Pause | Resume]] = {"pause": Pause, "resume": Resume}
_MOST_PAUSED = 25
_PARKED = """
SELECT saga, service, decider, key, origin, kind FROM _waits
WHERE kind IN ('parked', 'paused') AND saga IN (SELECT value FROM json_each(?))
"""


@dataclass
class SagasAct:
    """An act on some sagas: what it comes to, with the tokens of its parts, and what is left out; `done`: it was done.

    Raises: ContractError for an act that there is not, and for no saga.
    """

    act: str
    sagas: Sequence[str]
    is_cut: bool = False
    left_out: list[tuple[str, str]] = field(default_factory=list)
    outcome: ParkedOutcome | None = None
    tokens: dict[str, str] = field(default_factory=dict)
    done: bool = False

    def __post_init__(self) -> None:
        """Leave out what is too much."""
        if self.act not in {*PARKED, *PAUSES}:
            raise ContractError("act: choose one of retry, discard, pause, resume")
        if not self.sagas:
            raise ContractError("choose sagas, or all that the query finds")
        if self.is_cut or self.sagas[MOST_SAGAS:]:
            self.left_out.append(("more sagas", f"an act is about {MOST_SAGAS} at most: these are the first ones"))
        self.sagas = self.sagas[:MOST_SAGAS]


class SagaActs:
    """Does acts on sagas, by an index that knows what they wait for."""

    def __init__(self, index: LogIndex) -> None:
        self._index, self._log, app = index, index.log, index.log.choreography
        of_services = [(service.name, each) for service in app.services for each in service.deciders]
        self.places = [(name, each.name) for name, each in of_services if each.key == app.saga_field]
        """The services and deciders whose keys are sagas."""

    def parked(self, sagas: Sequence[str]) -> dict[tuple[str, str, str], str]:
        """Return what of sagas is parked, by its name (`Parking.name`), with its saga."""
        found = dict[tuple[str, str, str], str]()
        for saga, service, decider, key, origin, kind in self._index.rows(_PARKED, (to_json(sagas).decode(),)):
            about = changelog_key(origin)
            if about.kind == "parked":
                found[service, decider, key] = saga
            elif kind == "parked":
                found[service, "", about.key] = saga
        return found

    async def try_parked(self, about: SagasAct, most_tried: int) -> None:
        """Find out what a retry or a discard would come to. Guarantee: writes nothing."""
        names = self.parked(about.sagas)
        act = PARKED[about.act].of({"names": [*names], "most_tried": most_tried, "dry_run": True})
        about.outcome = await act.perform(Desk(self._log, ""))
        about.tokens, chosen = {"as_previewed": about.outcome.token}, about.outcome.chosen
        about.left_out += [(names[each.parking.name], each.why) for each in chosen.left_out]
        there = {names[each.name] for each in chosen.ready} | {saga for saga, _ in about.left_out}
        about.left_out += [(saga, "nothing of it is parked") for saga in about.sagas if saga not in there]

    async def pause(self, about: SagasAct, decider: str, tokens: Mapping[str, str], reason: str, by: str) -> None:
        """Pause or resume the keys of sagas, each in one decider (`service/decider`) or in all; `by` is empty for a preview.

        `tokens` are those of the preview, by `service/decider/saga`.
        """
        places = [place for place in self.places if decider in {"", "/".join(place)}]
        pairs = [(saga, place) for saga in about.sagas for place in places]
        for saga, (service, name) in pairs[:_MOST_PAUSED]:
            full = f"{service}/{name}/{saga}"
            how = {"as_previewed": tokens.get(full, ""), "reason": reason} if by else {"dry_run": True}
            try:
                act = PAUSES[about.act].of({"service": service, "decider": name, "key": saga, **how})
                about.tokens[full] = (await act.perform(Desk(self._log, by))).token
            except ContractError as error:
                about.left_out.append((f"{saga} in {name}", str(error)))
        if more := pairs[_MOST_PAUSED:]:
            why = f"{_MOST_PAUSED} are {about.act}d at once"
            about.left_out.append((f"{len(more):,} more keys", why))
        about.done = bool(by)
