"""The external systems of an exploration: each call is made on a copy, once for every possible outcome."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

from eventlib.runtime.effects import EffectAttempts
from eventlib.runtime.transaction import Answer
from eventlib.simulation.effects import Call, Port
from eventlib.simulation.exhaustive.tasks import Numbered, canonical
from eventlib.simulation.scenario import Choices

Ports = Mapping[str, object]


class ExternalWorlds:
    """External systems by number; `first` is a scenario's initial one."""

    def __init__(self, ports: Callable[[Choices], Ports]) -> None:
        self._choose = _Enumerated()
        self._worlds = Numbered[Ports]()
        self._calls = Numbered[Call]()
        self._attempts: dict[tuple[int, int], list[tuple[int, Answer | None]]] = {}
        self._asked: dict[int, int] = {}
        self._landed: dict[tuple[int, int], list[int]] = {}
        self.first = self._number(dict(ports(self._choose)))

    def __getitem__(self, world: int) -> Ports:
        """Return a world's ports."""
        return self._worlds[world]

    def attempts(
        self, world: int, request: int, course: Callable[[], EffectAttempts]
    ) -> Sequence[tuple[int, Answer | None]]:
        """Attempt an effect with each outcome; return the worlds after it, and the answers (None: it is retried)."""
        found = self._attempts.get((world, request))
        if found is None:
            found = self._attempts[world, request] = []
            for ports in self._copies(world):
                answer = _attempt(course(), ports)
                found.append((self._number(ports), answer))
        return found

    def call(self, world: int, request: int, course: Callable[[], EffectAttempts]) -> int:
        """Return the number of an effect's call, without making it."""
        if request not in self._asked:
            self._asked[request] = self._call(world, course())
        return self._asked[request]

    def _call(self, world: int, course: EffectAttempts) -> int:
        attempt = course.asking.call(*course.arguments(_standing(self._worlds[world])))
        call = attempt.send(None)  # type: ignore[attr-defined]  # an async function's
        attempt.close()  # type: ignore[attr-defined]  # as above
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
        return found

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
            yield deepcopy(dict(self._worlds[world]), {id(self._choose): self._choose})
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
        return percent > 0 and bool(self.number_of(what, 2))


def _standing(ports: Ports) -> dict[str, object]:
    return {name: Port(name, port) for name, port in ports.items()}


def _attempt(course: EffectAttempts, ports: Ports) -> Answer | None:
    attempt: Any = course.asking.call(*course.arguments(_standing(ports)))
    value, error = None, None
    try:
        while True:
            call = attempt.throw(error) if error is not None else attempt.send(value)
            value, error = _acted(call)
    except StopIteration as end:
        return course.answered(end.value)
    except Exception as raised:  # noqa: BLE001  the course knows what follows from which error
        follows = course.failed(raised)
        return follows if isinstance(follows, Answer) else None


def _acted(call: Call) -> tuple[object, Exception | None]:
    try:
        return call.act(), None
    except Exception as error:  # noqa: BLE001  whatever the outside raises, it is for the effect to know
        return None, error
