"""Charts as SVG whose colours the page decides: stand-in colours become CSS variables."""

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from io import StringIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, LINE, MUTED = "#010203", "#010204", "#010205"
SERIES = ("#010211", "#010212", "#010213", "#010214")
"""Stand-ins for the page's `--ink`, `--line`, `--muted`, and `--c1` to `--c4`."""

_VARIABLES = {
    INK: "var(--ink)",
    LINE: "var(--line)",
    MUTED: "var(--muted)",
    **{color: f"var(--c{i})" for i, color in enumerate(SERIES, 1)},
}
_PLAIN = {INK: "#222", LINE: "#ddd", MUTED: "#777"} | dict(
    zip(SERIES, ("#0072b2", "#d55e00", "#009e73", "#cc79a7"), strict=True)
)
_STYLE: Any = {  # its type has a literal for each name
    "svg.fonttype": "none",
    "svg.hashsalt": "report",  # else ids are random
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": MUTED,
    "axes.edgecolor": LINE,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": LINE,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "figure.facecolor": "none",
}
_WIDE, _NARROW = 8.6, 3.9
_ROW = 0.31
"""Inches."""

Format = Callable[[float], str]


def styled() -> AbstractContextManager[None]:
    """Draw in the report's style, whatever else is set."""
    import matplotlib as mpl

    return mpl.rc_context(_STYLE)


def canvas(height: float, *, narrow: bool, panels: int = 1) -> "tuple[Figure, list[Axes]]":
    """Return a figure with panels one above the other; to be called, and drawn on, within `styled`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_NARROW if narrow else _WIDE, height), layout="constrained")
    axes = [figure.add_subplot(panels, 1, i + 1) for i in range(panels)]
    for each in axes:
        each.spines[["top", "right", "left"]].set_visible(False)
        each.tick_params(length=0)
    return figure, axes


def bars(
    labels: Sequence[str], values: Sequence[float], texts: Sequence[str], *, narrow: bool, color: str = SERIES[0]
) -> "Figure":
    """Return horizontal bars, the first one on top, each with its value behind it."""
    with styled():
        figure, (axes,) = canvas(0.25 + _ROW * len(values), narrow=narrow)
        axes.barh(range(len(values)), values, color=color, height=0.68)
        axes.set_yticks(range(len(values)), [_cut(label, 20 if narrow else 44) for label in labels], color=INK)
        axes.invert_yaxis()
        axes.grid(visible=False)
        axes.set_xticks([])
        axes.spines["bottom"].set_visible(False)
        axes.set_xlim(0, max(*values, 1e-9) * (1.75 if narrow else 1.22))
        for i, (value, text) in enumerate(zip(values, texts, strict=True)):
            axes.annotate(text, (value, i), xytext=(5, 0), textcoords="offset points", va="center", color=INK)
    return figure


def ranges(labels: Sequence[str], triples: Sequence[Sequence[float]], form: Format, *, narrow: bool) -> "Figure":
    """Return, for each label, three values on one line: from the first to the last on a logarithmic axis."""
    with styled():
        figure, (axes,) = canvas(0.85 + _ROW * len(triples), narrow=narrow)
        marks = [("o", SERIES[0], "half within"), ("D", SERIES[1], "95 of 100"), ("|", SERIES[2], "99 of 100")]
        least = 1.0
        for i, triple in enumerate(triples):
            axes.plot([max(least, triple[0]), max(least, triple[-1])], [i, i], color=LINE, linewidth=3, zorder=1)
        for k, (mark, color, name) in enumerate(marks):
            values = [max(least, triple[k]) for triple in triples]
            size = 90 if mark == "|" else 26
            axes.scatter(values, range(len(values)), marker=mark, s=size, color=color, label=name, zorder=2)
        axes.set_yticks(range(len(triples)), [_cut(label, 22 if narrow else 48) for label in labels], color=INK)
        axes.invert_yaxis()
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda value, _: form(value))
        axes.xaxis.set_minor_formatter(lambda *_: "")
        axes.grid(visible=False, axis="y")
        figure.legend(loc="outside upper right", ncols=3, frameon=False, handletextpad=0.2, columnspacing=1)
    return figure


def svg(figure: "Figure", name: str, title: str, description: str) -> str:
    """Return a figure as an element of a page, with its text alternative; `name` makes its ids unique."""
    text = re.sub(r'\bid="', f'id="{name}-', _drawn(figure))
    text = text.replace("url(#", f"url(#{name}-").replace('xlink:href="#', f'href="#{name}-')
    for color, variable in _VARIABLES.items():
        text = text.replace(color, variable)
    words = f"<title>{_escaped(title)}</title><desc>{_escaped(description)}</desc>"
    return re.sub(r"<svg [^>]*?(viewBox=\"[^\"]*\")[^>]*>", rf'<svg role="img" \1>{_for_sub(words)}', text, count=1)


def plain_svg(figure: "Figure") -> str:
    """Return a figure as an element with fixed colours."""
    text = _drawn(figure)
    for color, plain in _PLAIN.items():
        text = text.replace(color, plain)
    return text


def _drawn(figure: "Figure") -> str:
    """Return the element alone: without metadata on when and by what it was drawn."""
    file = StringIO()
    with styled():
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = file.getvalue()
    return re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)


def _cut(text: str, most: int) -> str:
    """Return a label that leaves room for its bar; `$` is not mathematics here."""
    text = "".join(c if c.isprintable() else "�" for c in text)
    return (text if len(text) <= most else text[: most - 1] + "…").replace("$", r"\$")


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _for_sub(text: str) -> str:
    return text.replace("\\", r"\\")
