"""Builds the picture of a choreography, and of what takes its events, from its event graph."""

import inspect
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from eventlib.analysis.connectors import Connector
from eventlib.analysis.diagram.model import OUTSIDE, Arrow, Kind, Lane, Node, Picture, Role
from eventlib.analysis.event_graph import EventGraph, Transition
from eventlib.model import signatures
from eventlib.model.choreography import Choreography
from eventlib.model.decider import Decider
from eventlib.model.event import EventType, contract_of

OUTBOXES = Lane(None, "outboxes")


def picture(choreography: Choreography, connectors: Sequence[Connector] = ()) -> Picture:
    """Return the picture of a choreography and of what takes its events, without traffic."""
    flow = EventGraph(choreography)
    found = [*_arrows(flow), *(arrow for each in connectors for arrow in _connections(each))]
    arrows = tuple({(arrow.source, arrow.target): arrow for arrow in found}.values())
    shown = {name for arrow in arrows for name in (arrow.source, arrow.target)}
    nodes = tuple(node for node in [*_nodes(flow), *map(_connector, connectors)] if node.id in shown)
    size = f"{len(choreography.services)} services, {len(choreography.deciders)} deciders"
    subtitle = f"{size}, {len(choreography.events)} events: what may follow from what"
    return Picture(choreography.name, subtitle, tuple(_lanes(choreography, nodes)), nodes, arrows)


def effect_id(decider: Decider[Any], request: EventType) -> str:
    """Return the id of the node for a decider's effect."""
    return f"effect/{decider.name}/{request.__name__}"


def deadline_id(decider: Decider[Any], name: str) -> str:
    """Return the id of the node for a decider's deadline."""
    return f"deadline/{decider.name}/{name}"


def listener_id(decider: Decider[Any]) -> str:
    """Return the id of the node for a decider that emits nothing."""
    return f"listener/{decider.name}"


def _nodes(flow: EventGraph) -> Iterator[Node]:
    known = dict.fromkeys([*flow.choreography.events, *(r.cause for r in flow.reactions if r.cause is not None)])
    deciders = {decider: service.name for service in flow.choreography.services for decider in service.deciders}
    for event in (event for event in known if event in flow.entries or not flow.emitting(event)):
        kind: Kind = "request" if event in flow.entries else "event"
        yield Node(event.__name__, event.__name__, kind, "step", Lane(None, OUTSIDE), False, _about(flow, event))
    for service in flow.choreography.services:
        for decider in service.deciders:
            out = dict.fromkeys([*decider.emits, *decider.awaits])
            own = [event for event in out if event not in flow.entries and _home(flow, event) is decider]
            for event in own:
                role, ends = _role(flow, event), contract_of(event).final
                lane = Lane(service.name, decider.name)
                yield Node(event.__name__, event.__name__, "event", role, lane, ends, _about(flow, event))
    for reaction in flow.reactions:
        if reaction.kind != "handler":
            yield _between(flow, reaction, deciders[reaction.decider])
    for decider, home in deciders.items():
        if not decider.emits:
            yield Node(listener_id(decider), decider.name, "listener", "step", Lane(home, decider.name))


def _between(flow: EventGraph, reaction: Transition, service: str) -> Node:
    home = Lane(service, reaction.decider.name)
    if reaction.effect is None or reaction.cause is None:
        name = deadline_id(reaction.decider, reaction.name)
        return Node(name, reaction.name, "deadline", "step", home, False, (reaction.where,))
    role: Role = "compensation" if reaction.cause in flow.compensating else "step"
    asked = reaction.effect.otherwise
    ports = sorted(reaction.effect.ports)
    lane = Lane(None, ports[0]) if ports else home
    tries, limits = reaction.effect.ask.retry.attempts, flow.choreography.service(reaction.service).limits
    notes = [reaction.where, f"asked {'until it answers' if tries is None else f'at most {tries} times'}"]
    notes += [f"limit of {name}: {limits[name]}" for name in (*ports, reaction.cause.__name__) if name in limits]
    if asked is not None:
        notes.append(f"otherwise: {signatures.name_of(asked)}")
    if reaction.effect.awaits:
        awaited = " or ".join(each.__name__ for each in reaction.effect.awaits)
        notes.append(f"awaits {awaited}, until {reaction.effect.within or 'it comes'}")
    node_id = effect_id(reaction.decider, reaction.cause)
    return Node(node_id, reaction.name, "effect", role, lane, False, tuple(notes))


def _arrows(flow: EventGraph) -> Iterator[Arrow]:
    for reaction in flow.reactions:
        source = "" if reaction.cause is None else reaction.cause.__name__
        if reaction.kind == "effect" and reaction.cause is not None:
            through = effect_id(reaction.decider, reaction.cause)
            role: Role = "compensation" if reaction.cause in flow.compensating else "step"
            yield Arrow(source, through, role, reaction.where)
            source = through
        elif reaction.kind == "deadline":
            source = deadline_id(reaction.decider, reaction.name)
        for emitted in reaction.emits:
            yield Arrow(source, emitted.__name__, _role(flow, emitted), reaction.where)
        if not reaction.decider.emits:
            yield Arrow(source, listener_id(reaction.decider), "step", reaction.where)


def _connector(connector: Connector) -> Node:
    where = ", ".join(f"{name} = {value!r}" for name, value in connector.where.items())
    notes = (str(connector), *([f"where {where}"] if where else []))
    kind: Kind = "source" if connector.kind == "outbox" else "listener"
    return Node(_connector_id(connector), connector.name, kind, "step", _lane_of(connector), False, notes)


def _connections(connector: Connector) -> Iterator[Arrow]:
    for event in connector.events:
        ends = (event.__name__, _connector_id(connector))
        source, target = reversed(ends) if connector.kind == "outbox" else ends
        yield Arrow(source, target, "step", str(connector))


def _lane_of(connector: Connector) -> Lane:
    return OUTBOXES if connector.kind == "outbox" else Lane(None, f"{connector.kind}s")


def _connector_id(connector: Connector) -> str:
    return f"{connector.kind}/{connector.name}"


def _role(flow: EventGraph, event: EventType) -> Role:
    if event in flow.compensating:
        return "compensation"
    if event in flow.failures:
        return "failure"
    return "compensation" if event in flow.happening - flow.hoping else "step"


def _home(flow: EventGraph, event: EventType) -> Decider[Any] | None:
    """Return the decider whose event it is: of those that emit it, the one that emits most on its topic."""
    topic = contract_of(event).topic

    def own(decider: Decider[Any]) -> int:
        return Counter(contract_of(emitted).topic.name for emitted in decider.emits)[topic.name]

    saying = dict.fromkeys(reaction.decider for reaction in flow.emitting(event))
    return max(saying, key=own, default=None)


def _about(flow: EventGraph, event: EventType) -> tuple[str, ...]:
    contract = contract_of(event)
    receivers = dict.fromkeys(r.decider.name for r in flow.to(event) if r.kind == "handler")
    lines = [
        inspect.cleandoc(event.__doc__ or ""),
        f"topic {contract.topic.name}" + ("" if contract.key is None else f", key {contract.key}"),
        f"received by {', '.join(receivers)}" if receivers else "",
        f"reverses {', '.join(each.__name__ for each in contract.reverses)}" if contract.reverses else "",
    ]
    return tuple(line for line in lines if line)


def _lanes(choreography: Choreography, nodes: Sequence[Node]) -> Iterator[Lane]:
    """Yield the lanes that hold anything: what is outside, then each decider, and its ports behind it; listeners are last."""
    held = {node.lane for node in nodes}
    wanted = [OUTBOXES, Lane(None, OUTSIDE)]
    for service in choreography.services:
        wanted += [Lane(service.name, decider.name) for decider in service.deciders]
        wanted += [Lane(None, port) for port in sorted(service.ports)]
    wanted += [node.lane for node in nodes if node.kind == "listener"]
    yield from (lane for lane in dict.fromkeys(wanted) if lane in held)


Arrows = Sequence[tuple[str, str]]
"""Arrows by the ids of their ends, from a cause to an emitted event: two when an effect is in between."""


class ExplainedArrows:
    """The arrows of a choreography's diagram, by what a log says of an emitted event."""

    def __init__(self, graph: EventGraph) -> None:
        self._answered: dict[tuple[str, str, str], Arrows] = {}
        self._overdue: dict[tuple[str, str], Arrows] = {}
        for reaction in graph.reactions:
            source = f"{reaction.service}/{reaction.decider.name}"
            for emitted in (event.__name__ for event in reaction.emits):
                if reaction.cause is None:
                    self._overdue[source, emitted] = [(deadline_id(reaction.decider, reaction.name), emitted)]
                    continue
                cause = reaction.cause.__name__
                through = effect_id(reaction.decider, reaction.cause)
                is_effect = reaction.kind == "effect"
                self._answered[cause, emitted, source] = (
                    [(cause, through), (through, emitted)] if is_effect else [(cause, emitted)]
                )

    def of(self, cause: str, emitted: str, source: str) -> Arrows:
        """Return the arrows from a cause's type to an emitted type, by its source (`service/decider`).

        None where these services do not emit the one because of the other: older code did, or it was published.
        """
        return self._answered.get((cause, emitted, source)) or self._overdue.get((source, emitted)) or []
