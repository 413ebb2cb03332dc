"""Writes a picture down for programs that lay it out themselves: as a Mermaid flowchart, and as DOT for Graphviz."""

import re
from collections.abc import Iterator
from itertools import groupby

from eventlib.analysis.diagram.model import OUTSIDE, Lane, Node, Picture

_COLOURS = {"step": "#475569", "failure": "#c62828", "compensation": "#c2600c"}
_FILLS = {"step": "#ffffff", "failure": "#fdecec", "compensation": "#fff5e9"}
_MERMAID_SHAPES = {
    "request": '(["{}"])',
    "event": '["{}"]',
    "effect": '{{{{"{}"}}}}',
    "deadline": '>"{}"]',
    "source": '("{}")',
    "listener": '("{}")',
    "end": '[["{}"]]',
}
_DOT_SHAPES = {
    "request": "oval",
    "event": "box",
    "effect": "hexagon",
    "deadline": "cds",
    "source": "box",
    "listener": "box",
}


def mermaid(picture: Picture) -> str:
    """Return a Mermaid flowchart; what undoes is dashed, failures are red, what ends a saga has a double border."""
    lines = ["flowchart LR"]
    for service, lanes in _groups(picture):
        lines.append(f'  subgraph {_id(f"lane/{service}")}["{service}"]')
        for lane in lanes:
            nodes = [f"    {_id(node.id)}{_mermaid_shape(node)}" for node in picture.on(lane)]
            if len(lanes) > 1:
                nodes = [f'    subgraph {_id(f"lane/{service}/{lane.name}")}["{lane.name}"]', *nodes, "    end"]
            lines += nodes
        lines.append("  end")
    for arrow in picture.arrows:
        label = picture.label(arrow)
        line = "-.->" if arrow.role == "compensation" else "-->"
        text = f'|"{label}"|' if label else ""
        lines.append(f"  {_id(arrow.source)} {line}{text} {_id(arrow.target)}")
    lines += _mermaid_legend()
    lines += _mermaid_styles(picture)
    return "\n".join(lines) + "\n"


def dot(picture: Picture) -> str:
    """Return a DOT graph; what undoes is dashed, failures are red, what ends a saga has a double border."""
    lines = [
        f"digraph {_quoted(picture.title)} {{",
        f"  graph [rankdir=LR, label={_quoted(picture.subtitle)}, labelloc=t, fontname=Helvetica, ranksep=0.7]",
        '  node [fontname=Helvetica, fontsize=11, style="filled,rounded", margin="0.12,0.06"]',
        "  edge [fontname=Helvetica, fontsize=9]",
    ]
    for service, lanes in _groups(picture):
        lines.append(f'  subgraph {_quoted(f"cluster_{service}")} {{ label={_quoted(service)}; color="#b6bfca"')
        for lane in lanes:
            nodes = [_dot_node(node) for node in picture.on(lane)]
            if len(lanes) > 1:
                cluster = _quoted(f"cluster_{service}_{lane.name}")
                nodes = [f'    subgraph {cluster} {{ label={_quoted(lane.name)}; color="#dbe2ea"', *nodes, "    }"]
            lines += nodes
        lines.append("  }")
    for arrow in picture.arrows:
        style = ", style=dashed" if arrow.role == "compensation" else ""
        label = f", label={_quoted(picture.label(arrow))}" if picture.label(arrow) else ""
        colour = _COLOURS[arrow.role]
        lines.append(f'  {_quoted(arrow.source)} -> {_quoted(arrow.target)} [color="{colour}"{style}{label}]')
    return "\n".join([*lines, *_DOT_LEGEND, "}"]) + "\n"


def _groups(picture: Picture) -> Iterator[tuple[str, list[Lane]]]:
    """Yield each service with the lanes of its deciders, and each place of the outside world."""
    for _, group in groupby(picture.lanes, key=lambda lane: lane.service or lane):
        lanes = [*group]
        yield _name(lanes), lanes


def _name(lanes: list[Lane]) -> str:
    """Return a group's name: a service's, with its decider's if it has one and that is called otherwise."""
    service, name = lanes[0].service, lanes[0].name
    if service is None:
        return name if name == OUTSIDE else f"{name} (outside world)"
    return service if len(lanes) > 1 or name == service else f"{service}: {name}"


def _mermaid_shape(node: Node) -> str:
    return _MERMAID_SHAPES["end" if node.ends else node.kind].format(node.label) + f":::{node.role}"


def _mermaid_legend() -> list[str]:
    return [
        "  subgraph legend",
        '    legend_1["a step"]:::step --> legend_2["the next"]:::step',
        '    legend_2 --> legend_3["a failure"]:::failure',
        '    legend_3 -.-> legend_4["what undoes"]:::compensation',
        "  end",
    ]


def _mermaid_styles(picture: Picture) -> list[str]:
    lines = [
        f"  classDef {role} fill:{_FILLS[role]},stroke:{colour},color:#1e293b" for role, colour in _COLOURS.items()
    ]
    roles = [*(arrow.role for arrow in picture.arrows), "step", "failure", "compensation"]
    for role, colour in _COLOURS.items():
        numbers = ",".join(str(number) for number, each in enumerate(roles) if each == role)
        if numbers:
            lines.append(f"  linkStyle {numbers} stroke:{colour}")
    return lines


def _dot_node(node: Node) -> str:
    double = ", peripheries=2" if node.ends else ""
    shape, fill, colour = _DOT_SHAPES[node.kind], _FILLS[node.role], _COLOURS[node.role]
    label = _quoted(node.label)
    return f'    {_quoted(node.id)} [label={label}, shape={shape}, fillcolor="{fill}", color="{colour}"{double}]'


_DOT_LEGEND = [
    '  subgraph cluster_legend { label=legend; color="#dbe2ea"',
    *(
        f'    "legend {number}" [label="{label}", shape=box, fillcolor="{_FILLS[role]}", color="{_COLOURS[role]}"]'
        for number, (label, role) in enumerate(
            [("a step", "step"), ("the next", "step"), ("a failure", "failure"), ("what undoes", "compensation")], 1
        )
    ),
    f'    "legend 1" -> "legend 2" [color="{_COLOURS["step"]}"]',
    f'    "legend 2" -> "legend 3" [color="{_COLOURS["failure"]}"]',
    f'    "legend 3" -> "legend 4" [color="{_COLOURS["compensation"]}", style=dashed]',
    "  }",
]


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _id(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]", "_", name)
