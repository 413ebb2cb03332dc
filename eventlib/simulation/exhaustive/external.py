"""The external systems of an exploration: each call is made on a copy, once for every possible outcome."""

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

from eventlib.errors import OutcomeUnknown
from eventlib.runtime.effect_attempts import EffectAttempts
from eventlib.runtime.transaction import Answer
from eventlib.simulation.effects import Call, Port
from eventlib.simulation.exhaustive.tasks import Numbered, canonical
from eventlib.simulation.scenario import Choices

Ports = Mapping[str, object]

_CERTAIN = 100
_WAYS = 3
_NEVER_ARRIVES = 2
"""A call is answered (0), takes place and loses its answer (1), or does not arrive."""


class _Attempted(NamedTuple):
    """What comes of attempting an effect in a world: the worlds after it with the answers, and the calls that it makes."""

    ends: list[tuple[int, Answer | None]]
    departures: list[tuple[int, int]]


class ExternalWorlds:
    """External systems by number; `first` is a scenario's initial one. Each call of a `reliable` port is answered."""

    def __init__(self, ports: Callable[[Choices], Ports], reliable: Collection[str] = ()) -> None:
        self._choose = _Enumerated()
        self._reliable = reliable
        self._worlds = Numbered[Ports]()
        self._calls = Numbered[Call]()
        self._attempts: dict[tuple[int, int], _Attempted] = {}
        self._landed: dict[tuple[int, int], list[int]] = {}
        self._leads_to: dict[int, set[int]] = {}
        self._taken_as_over: dict[tuple[int, int], bool] = {}
        self._never_over = set[int]()
        self.first = self._number(dict(ports(self._choose)))

    def __getitem__(self, world: int) -> Ports:
        """Return a world's ports."""
        return self._worlds[world]

    def attempts(
        self, world: int, request: int, course: Callable[[], EffectAttempts]
    ) -> Sequence[tuple[int, Answer | None]]:
        """Attempt an effect with each outcome; return the worlds after it, and the answers (None: it is retried).

        An attempt that is retried and has changed nothing is left out.
        """
        return self._attempted(world, request, course).ends

    def departures(self, world: int, request: int, course: Callable[[], EffectAttempts]) -> Sequence[tuple[int, int]]:
        """Return the calls that an effect can make, each with the world that it leaves: the first call is the first.

        A later call follows from how those before it have gone: an answer, or none.
        """
        return self._attempted(world, request, course).departures

    def _attempted(self, world: int, request: int, course: Callable[[], EffectAttempts]) -> "_Attempted":
        found = self._attempts.get((world, request))
        if found is None:
            found = self._attempts[world, request] = _Attempted([], [])
            ends = dict[tuple[int, Hashable], tuple[int, Answer | None]]()
            for ports in self._copies(world):
                answer = self._attempt(course(), world, ports, found.departures)
                after = self._number(ports)
                same = None if answer is None else (canonical(answer.event), answer.reason)
                ends.setdefault((after, same), (after, answer))
            answered = {world, *(after for after, answer in ends.values() if answer is not None)}
            found.ends.extend((after, answer) for after, answer in ends.values() if answer or after not in answered)
            left = (after for after, _ in found.departures)
            self._leads_to.setdefault(world, set()).update(left, (after for after, _ in ends.values()))
        return found

    def _attempt(
        self, course: EffectAttempts, world: int, ports: Ports, departures: list[tuple[int, int]]
    ) -> Answer | None:
        """Attempt an effect once. Each of its calls is answered, or loses its answer, or does not arrive."""
        attempt: Any = course.asking.coroutine(course.arguments(_standing(ports)))
        value, error, is_first = None, None, True
        try:
            while True:
                call = attempt.throw(error) if error is not None else attempt.send(value)
                left = world if is_first else self._number(_copy(ports, self._choose))
                departure, is_first = (left, self._call(call)), False
                if departure not in departures:
                    departures.append(departure)
                value, error = self._answer(call)
        except StopIteration as end:
            return course.answered(end.value)
        except Exception as raised:  # noqa: BLE001  the course knows what follows from which error
            follows = course.failed(raised)
            return follows if isinstance(follows, Answer) else None

    def _answer(self, call: Call) -> tuple[object, Exception | None]:
        how = 0 if call.port in self._reliable else self._choose.number_of("how a call goes", _WAYS)
        acted = (None, None) if how == _NEVER_ARRIVES else _acted(call)
        return acted if how == 0 else (None, OutcomeUnknown("explored: no answer"))

    def _call(self, call: object) -> int:
        assert isinstance(call, Call)  # noqa: S101  what an effect waits for is a port
        return self._calls.number(call, (call.port, call.method, repr(call.arguments), repr(call.named)))

    def land(self, world: int, number: int) -> Sequence[int]:
        """Let a call arrive whose answer was given up; return the worlds after it, for each outcome."""
        found = self._landed.get((world, number))
        if found is None:
            found = self._landed[world, number] = []
            port, _, method, arguments, named = self._calls[number]
            for ports in self._copies(world):
                _acted(Call(port, ports[port], method, arguments, named))
                found.append(self._number(ports))
            self._leads_to.setdefault(world, set()).update(found)
        return found

    def is_over(self, world: int, number: int) -> bool:
        """Tell whether a call that is on its way changes nothing any more, whenever it arrives, as far as is known.

        So it is where the system has carried out the same request by now, or will refuse it. What can still become of the
        world is not all known before the end of an exploration: see `misjudged`.
        """
        if number in self._never_over:
            return False
        found = self._taken_as_over.get((world, number))
        if found is None:
            found = self._taken_as_over[world, number] = self._changes_nothing(world, number)
        return found

    def misjudged(self) -> bool:
        """Tell whether a call that was taken as over can change something after all; it is not taken so again."""
        wrong = {
            number
            for (world, number), is_over in [*self._taken_as_over.items()]
            if is_over and not self._changes_nothing(world, number)
        }
        self._never_over |= wrong
        self._taken_as_over.clear()
        return bool(wrong)

    def _changes_nothing(self, world: int, number: int) -> bool:
        """Tell whether a call changes nothing in a world, nor in one that can come of it."""
        seen, left = {world}, [world]
        while left:
            at = left.pop()
            if set(self.land(at, number)) != {at}:
                return False
            new = self._leads_to.get(at, set()) - seen
            seen |= new
            left += new
        return True

    def described(self, number: int) -> str:
        """Return a call for a story."""
        call = self._calls[number]
        return f"{call.method} at {call.port}"

    def _copies(self, world: int) -> Iterator[dict[str, object]]:
        """Yield a copy of a world for each way in which choices can be made in it."""
        prefixes: list[list[int]] = [[]]
        while prefixes:
            prefix = prefixes.pop()
            self._choose.begin(prefix)
            yield _copy(self._worlds[world], self._choose)
            prefixes += self._choose.others(len(prefix))

    def _number(self, ports: Ports) -> int:
        return self._worlds.number(ports, tuple((name, canonical(vars(port))) for name, port in sorted(ports.items())))


class _Enumerated(Choices):
    """Choices given by a prefix, and harmless ones after it."""

    def __init__(self) -> None:
        super().__init__(lambda _what, _options: 0)
        self._prefix: list[int] = []
        self._options: list[int] = []
        self._picked: list[int] = []

    def begin(self, prefix: list[int]) -> None:
        """Restart with a prefix."""
        self._prefix, self._options, self._picked = prefix, [], []

    def others(self, since: int) -> list[list[int]]:
        """Return the prefixes of the alternatives, at choices that were not fixed before."""
        places = range(since, len(self._picked))
        return [[*self._picked[:at], other] for at in places for other in range(1, self._options[at])]

    def number_of(self, what: str, options: int) -> int:  # noqa: ARG002  see Choices
        """See `Choices.number_of`."""
        if options <= 1:
            return 0
        at = len(self._picked)
        picked = self._prefix[at] if at < len(self._prefix) else 0
        self._picked.append(picked)
        self._options.append(options)
        return picked

    def whether(self, what: str, percent: int = 50) -> bool:
        """See `Choices.whether`: every possible event is explored, however rare."""
        return percent >= _CERTAIN or (percent > 0 and bool(self.number_of(what, 2)))


def _standing(ports: Ports) -> dict[str, object]:
    return {name: Port(name, port) for name, port in ports.items()}


def _copy(ports: Ports, choose: Choices) -> dict[str, object]:
    return deepcopy(dict(ports), {id(choose): choose})


def _acted(call: Call) -> tuple[object, Exception | None]:
    try:
        return call.act(), None
    except Exception as error:  # noqa: BLE001  whatever the outside raises, it is for the effect to know
        return None, error
