"""A choreography as a Mermaid flowchart."""

import re

from eventlib.choreography import Choreography
from eventlib.event import Event, contract_of

OUTSIDE = "outside"
ENDED = "ended"
_Arrow = tuple[str, str, str]


def flowchart(choreography: Choreography) -> str:
    """Return a Mermaid flowchart: services as boxes of deciders, arrows with topic and event types.

    Requests and facts come from `outside`, final events that nobody handles lead to `ended`; what effects ask of the
    outside world and its answers are dotted arrows to the port that they speak to.
    """
    arrows = _arrows(choreography)
    named = {name for source, target, _ in arrows for name in (source, target)}
    lines = ["flowchart LR"]
    if OUTSIDE in named:
        lines.append(f"  {OUTSIDE}([outside])")
    for service in choreography.services:
        lines.append(f'  subgraph {_id("service", service.name)}["{service.name}"]')
        lines += [f'    {_id("decider", decider.name)}["{decider.name}"]' for decider in service.deciders]
        lines.append("  end")
    ports = sorted({port for service in choreography.services for port in service.ports})
    lines += [f"  {_id('port', port)}{{{{{port}}}}}" for port in ports]
    if ENDED in named:
        lines.append(f"  {ENDED}((ended))")
    lines += [f'  {source} -->|"{_label(topics)}"| {target}' for (source, target), topics in _joined(arrows)]
    lines += _effects(choreography)
    return "\n".join(lines)


def _arrows(choreography: Choreography) -> list[_Arrow]:
    """Return (from, to, topic: event) for each event that goes from one place to another."""
    said = [(_id("decider", decider.name), event) for decider in choreography.deciders for event in decider.says]
    from_outside = [e for e in choreography.events if contract_of(e).request or contract_of(e).foreign]
    said += [(OUTSIDE, event) for event in dict.fromkeys([*from_outside, *choreography.facts])]
    answers = {answer for decider in choreography.deciders for e in decider.effects.values() for answer in e.says}
    found = list[_Arrow]()
    for source, event in said:
        handlers = [_id("decider", d.name) for d in choreography.deciders if event in d.handlers]
        asked = any(event in decider.effects for decider in choreography.deciders)
        if not handlers and not asked and contract_of(event).final:
            handlers = [ENDED]
        found += [(source, target, _name(event)) for target in handlers if not (target == source and event in answers)]
    return found


def _effects(choreography: Choreography) -> list[str]:
    lines = list[str]()
    for decider in choreography.deciders:
        node = _id("decider", decider.name)
        for request, effect in decider.effects.items():
            answers = ", ".join(contract_of(answer).type for answer in effect.says)
            for port in sorted(effect.ports):
                lines.append(f'  {node} -.->|"{contract_of(request).type}"| {_id("port", port)}')
                lines.append(f'  {_id("port", port)} -.->|"{answers}"| {node}')
    return lines


def _joined(arrows: list[_Arrow]) -> list[tuple[tuple[str, str], dict[str, list[str]]]]:
    """Join the arrows between two places: their events by topic."""
    joined: dict[tuple[str, str], dict[str, list[str]]] = {}
    for source, target, name in arrows:
        topic, _, event = name.partition(": ")
        joined.setdefault((source, target), {}).setdefault(topic, []).append(event)
    return list(joined.items())


def _label(topics: dict[str, list[str]]) -> str:
    return "<br/>".join(f"{topic}: {', '.join(dict.fromkeys(events))}" for topic, events in topics.items())


def _name(event: type[Event]) -> str:
    return f"{contract_of(event).topic.name}: {contract_of(event).type}"


def _id(kind: str, name: str) -> str:
    return f"{kind}_{re.sub(r'[^A-Za-z0-9]', '_', name)}"
