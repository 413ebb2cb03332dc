"""What a drawn picture's lines and boxes mean."""

from collections.abc import Iterator

_ARROWS = (("step", "a step forward"), ("failure", "a failure"), ("compensation", "what undoes"))
_BOXES = (
    ("request step", 12, "comes from outside"),
    ("event step", 6, "said by a service"),
    ("event failure", 6, "says that something failed"),
    ("event compensation", 6, "undoes, or asks for it"),
    ("effect step", 3, "asks the outside world"),
    ("deadline step", 12, "a deadline"),
)
_LETTER = 6.3
_GAP = 26.0


def legend(*, with_traffic: bool) -> Iterator[str]:
    """Yield one line of examples, each with its meaning."""
    at = 0.0
    for role, meaning in _ARROWS:
        yield f'<path class="arrow {role}" d="M{at:.0f} 0h34" marker-end="url(#{role})"/>'
        yield _meaning(at + 42, meaning)
        at += 42 + _LETTER * len(meaning) + _GAP
    for style, radius, meaning in _BOXES:
        yield f'<g class="node {style}"><rect class="box" x="{at:.0f}" y="-9" width="30" height="18" rx="{radius}"/></g>'
        yield _meaning(at + 38, meaning)
        at += 38 + _LETTER * len(meaning) + _GAP
    yield (
        f'<g class="node event step"><rect class="end" x="{at - 3:.0f}" y="-11" width="36" height="22" rx="8"/>'
        f'<rect class="box" x="{at:.0f}" y="-8" width="30" height="16" rx="5"/></g>'
    )
    yield _meaning(at + 41, "ends a story")
    at += 41 + _LETTER * len("ends a story") + _GAP
    if with_traffic:
        yield _meaning(at, "8,125 · 40 ms: how often, and the p95 from cause to event; pale: never")


def _meaning(at: float, text: str) -> str:
    return f'<text class="key" x="{at:.0f}" y="4">{text}</text>'
