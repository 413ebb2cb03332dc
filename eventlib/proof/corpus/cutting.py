"""Cuts a corpus from a log: as few sagas as cover what its decisions run, give, and in which order inputs come."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.model.event import contract_of
from eventlib.proof.corpus.decisions import CorpusDecision
from eventlib.proof.corpus.files import Corpus
from eventlib.proof.corpus.renaming import Renamer
from eventlib.replay import replay
from eventlib.replay.comparison import Describer
from eventlib.replay.context import Taken
from eventlib.values import from_ms

_SEVERAL = 2

Feature = tuple[Any, ...]
"""What can be covered, its kind first: a handler, a line, an outcome, an end, or an order of two inputs."""

KINDS: Mapping[str, str] = {
    "handler": "handlers with their inputs",
    "line": "lines",
    "outcome": "outcomes",
    "end": "ends of sagas",
    "order": "orders of inputs",
}


class Covered(NamedTuple):
    """How many features of a kind the log has, and how many of them the corpus."""

    kind: str
    there: int
    covered: int


@dataclass(frozen=True, slots=True)
class Cut:
    """What was cut: sagas of so many, decisions, bytes, what is covered, and decisions that were left out."""

    sagas: int
    of: int
    decisions: int
    size: int
    covered: tuple[Covered, ...]
    left_out: tuple[str, ...]

    @property
    def is_whole(self) -> bool:
        """Whether everything that the log has is covered."""
        return all(each.there == each.covered for each in self.covered)


async def cut(log: EventLog, out: Path, most: int, directory: Path) -> Cut:
    """Choose at most so many sagas of a log, and write their decisions with pseudonyms; `directory` is the application's, whose lines count.

    What is written is decided by today's code as it was recorded; what is not, is left out and told.
    Raises: as `replay` does; ContractError when the log has no decision.
    """
    survey = _Survey(directory)
    await replay(log, tap=survey.take, limit=0)
    if not survey.features:
        raise ContractError("there is no decision on this log: cut a corpus from one on which the services have run")
    chosen = _chosen(survey, most)
    kept = _Kept()
    await replay(log, tap=kept.take, limit=0, sagas=chosen)
    decisions, left_out = kept.pseudonymised(Describer(log.choreography))
    covered = tuple(_covered(survey.features, chosen))
    manifest = {
        "application": log.choreography.name,
        "until": from_ms(max((each.at_ms for each in decisions), default=0)).isoformat(),
        "sagas": len(chosen),
        "of": len(survey.features),
        "decisions": len(decisions),
        "covered": {each.kind: [each.covered, each.there] for each in covered},
    }
    size = Corpus.write(out, manifest, decisions)
    return Cut(len(chosen), len(survey.features), len(decisions), size, covered, left_out)


class _Survey:
    """Collects, saga by saga, what its decisions cover; memory grows with the sagas, not with their decisions."""

    def __init__(self, directory: Path) -> None:
        self._root = directory.resolve()
        self._all = dict[Feature, Feature]()
        self._last = dict[tuple[str, str, str], str]()
        self.features = defaultdict[str, set[Feature]](set)
        self.sizes = Counter[str]()

    def take(self, taken: Taken) -> None:
        decision = CorpusDecision(*taken)
        if decision.is_read:
            found = self.features[decision.saga]
            self.sizes[decision.saga] += 1
            found.update(self._all.setdefault(each, each) for each in self._features(decision))

    def _features(self, decision: CorpusDecision) -> Iterator[Feature]:
        what = decision.source, decision.input
        yield "handler", *what
        counts = Counter(type(each).__name__ for each in decision.events)
        yield "outcome", *what, tuple(sorted((name, min(count, _SEVERAL)) for name, count in counts.items()))
        yield from (("end", type(each).__name__) for each in decision.events if contract_of(type(each)).final)
        yield from (("line", *line) for line in decision.lines(self._root))
        place = decision.saga, decision.source, decision.key
        yield "order", decision.source, self._last.get(place, ""), decision.input
        self._last[place] = decision.input


class _Kept:
    """The decisions of the chosen sagas."""

    def __init__(self) -> None:
        self._decisions = list[CorpusDecision]()
        self._unread = 0

    def take(self, taken: Taken) -> None:
        decision = CorpusDecision(*taken)
        if decision.is_read:
            self._decisions.append(decision)
        else:
            self._unread += 1

    def pseudonymised(self, describer: Describer) -> tuple[list[CorpusDecision], tuple[str, ...]]:
        renamer = Renamer()
        renamer.learn(self._decisions)
        found, otherwise, sensitive = list[CorpusDecision](), 0, 0
        for each in self._decisions:
            renamed = renamer.of(each)
            if each.difference(describer) is not None:
                otherwise += 1
            elif renamed.difference(describer) is not None:
                sensitive += 1
            else:
                found.append(renamed)
        found.sort(key=lambda each: (each.saga, each.at_ms, each.source, each.key, each.input))
        counted = {
            "that today's code decides otherwise": otherwise,
            "that depend on what a key or a personal text is": sensitive,
            "whose events today's code cannot read": self._unread,
        }
        return found, tuple(f"{count:,} decisions {which}" for which, count in counted.items() if count)


def _chosen(survey: _Survey, most: int) -> list[str]:
    """Return sagas that cover all there is, each time the one that adds most for its size; none that adds nothing."""
    features, sizes = survey.features, survey.sizes
    left, chosen = set[Feature]().union(*features.values()), list[str]()
    open_now = [*features]
    while left and len(chosen) < most:
        added = {saga: len(features[saga] & left) for saga in open_now}
        open_now = [saga for saga in open_now if added[saga]]
        best = min(open_now, key=lambda saga: (-added[saga] / sizes[saga], saga))
        left -= features[best]
        chosen.append(best)
    return _without_needless(features, chosen)


def _without_needless(features: Mapping[str, set[Feature]], chosen: list[str]) -> list[str]:
    counts = defaultdict[Feature, int](int)
    for saga in chosen:
        for feature in features[saga]:
            counts[feature] += 1
    kept = list[str]()
    for saga in chosen:
        if all(counts[feature] > 1 for feature in features[saga]):
            for feature in features[saga]:
                counts[feature] -= 1
        else:
            kept.append(saga)
    return kept


def _covered(features: Mapping[str, set[Feature]], chosen: list[str]) -> Iterator[Covered]:
    there = set[Feature]().union(*features.values())
    covered = set[Feature]().union(*(features[saga] for saga in chosen))
    for kind in KINDS:
        counts = [sum(feature[0] == kind for feature in those) for those in (there, covered)]
        yield Covered(kind, *counts)
