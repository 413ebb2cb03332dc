"""Reads PromQL as far as a test needs it: which series and labels an expression names, and whether it is well formed."""

import re
from dataclasses import dataclass, field

_TOKENS = re.compile(
    r"""(?P<space>\s+)|(?P<string>"(?:[^"\\]|\\.)*")|(?P<range>\[(?:\d+[smhd]|\$__rate_interval)\])"""
    r"""|(?P<number>\d+(?:\.\d+)?)|(?P<name>[a-zA-Z_:][\w:]*)|(?P<operator>==|!=|>=|<=|=~|[-+*/<>=])|(?P<mark>[(){},])"""
)
_FUNCTIONS = {"rate": "counter", "increase": "counter", "histogram_quantile": "", "vector": "", "topk": ""}
_AGGREGATIONS = {"sum", "max", "min", "topk"}
_WORDS = {"by", "or", "unless", "and"}
_CLOSES = {"(": ")", "{": "}"}


@dataclass
class Named:
    """What an expression names: series, each with whether a range follows, and the labels it groups or matches by."""

    series: list[tuple[str, bool]] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)


def named(expression: str) -> Named:
    """Return what an expression names. Raises: ValueError when it is not well formed."""
    tokens = _tokens(expression)
    found, open_brackets = Named(), list[str]()
    for at, (kind, text) in enumerate(tokens):
        after = tokens[at + 1][1] if at + 1 < len(tokens) else ""
        if text in _CLOSES and kind == "mark":
            by = text == "(" and at > 0 and tokens[at - 1][1] == "by"
            open_brackets.append("by" if by else text)
        elif kind == "mark" and text in _CLOSES.values():
            opened = open_brackets.pop() if open_brackets else ""
            if _CLOSES.get("(" if opened == "by" else opened) != text:
                raise ValueError(f"{expression}: {text} closes nothing")
        elif kind == "name" and open_brackets and open_brackets[-1] in {"by", "{"}:
            found.labels.append(text)
        elif kind == "name":
            _name(text, after, _kind_after(tokens, at), found)
    if open_brackets:
        raise ValueError(f"{expression}: {open_brackets[-1]} is never closed")
    return found


def _kind_after(tokens: list[tuple[str, str]], at: int) -> str:
    """Return the kind of what follows a name, and its matchers if it has some."""
    following = tokens[at + 1 :]
    if following and following[0][1] == "{":
        following = following[following.index(("mark", "}")) + 1 :]
    return following[0][0] if following else ""


def _name(text: str, after: str, kind_after: str, found: Named) -> None:
    if text in _WORDS:
        return
    if text in _FUNCTIONS or text in _AGGREGATIONS:
        if after not in {"(", "by"}:
            raise ValueError(f"{text} is called without arguments")
        return
    found.series.append((text, kind_after == "range"))


def _tokens(expression: str) -> list[tuple[str, str]]:
    found, at = list[tuple[str, str]](), 0
    while at < len(expression):
        match = _TOKENS.match(expression, at)
        if match is None or match.lastgroup is None:
            raise ValueError(f"{expression}: nothing in PromQL begins with {expression[at : at + 10]!r}")
        if match.lastgroup != "space":
            found.append((match.lastgroup, match.group()))
        at = match.end()
    return found
