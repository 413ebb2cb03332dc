"""The keywords of JSON Schema that combine schemas: allOf, anyOf, oneOf, not, if."""

from typing import TYPE_CHECKING

from eventlib.registry.compatibility.base import Found, Incompatibility
from eventlib.registry.parsing.json_schema import Node

if TYPE_CHECKING:  # it calls these
    from eventlib.registry.compatibility.json_schema import Comparison


def products(within: "Comparison", old: Node, new: Node, path: str) -> Found:
    """Return what is wrong with what has to hold besides: allOf, not, if."""
    return _all_of(within, old, new, path) + _not(within, old, new, path) + _condition(within, old, new, path)


def choices(within: "Comparison", old: Node, new: Node, path: str) -> Found:
    """Return what is wrong with anyOf and oneOf."""
    return [each for kind in ("anyOf", "oneOf") if kind in new.schema for each in _choice(within, kind, old, new, path)]


def _all_of(within: "Comparison", old: Node, new: Node, path: str) -> Found:
    now = _branches(new, "allOf")
    missing = [each for each in now if not within.reads(old, each)]
    if not missing:
        return []
    rule = "PRODUCT_TYPE_EXTENDED" if len(now) > len(_branches(old, "allOf")) else "COMBINED_TYPE_SUBSCHEMAS_CHANGED"
    message = f"{len(missing)} of what has to hold did not have to: leave it out of allOf"
    return [Incompatibility(rule, f"{path}/allOf", message)]


def _choice(within: "Comparison", kind: str, old: Node, new: Node, path: str) -> Found:
    now = _branches(new, kind)
    before = _comparable(kind, old)
    here = f"{path}/{kind}"
    if not before:
        others = "oneOf" if kind == "anyOf" else "anyOf"
        return _whole(within, kind, old, now, here, changed=bool(_branches(old, others)))
    accepted = [[j for j, each in enumerate(now) if within.reads(was, each)] for was in before]
    if kind == "oneOf" and any(len(each) > 1 for each in accepted):
        return [_overlap(here)]
    if _matches(accepted) if kind == "oneOf" else all(accepted):
        return []
    if len(before) > len(now):
        message = f"{len(before)} alternatives are {len(now)} now: keep them all"
        return [Incompatibility("SUM_TYPE_NARROWED", here, message)]
    message = "what one alternative accepted, none accepts now: keep each as it was, and add others beside it"
    return [Incompatibility("COMBINED_TYPE_SUBSCHEMAS_CHANGED", here, message)]


def _comparable(kind: str, old: Node) -> list[Node]:
    """Return the branches that become those of `kind`: oneOf may become anyOf, and a single branch either."""
    before = _branches(old, kind)
    if before:
        return before
    other = _branches(old, "oneOf" if kind == "anyOf" else "anyOf")
    return other if kind == "anyOf" or len(other) == 1 else []


def _whole(within: "Comparison", kind: str, old: Node, now: list[Node], path: str, *, changed: bool) -> Found:
    """Judge a choice that is new: one of its branches has to accept all that was valid."""
    accepted = [each for each in now if within.reads(old, each)]
    if kind == "oneOf" and len(accepted) > 1:
        return [_overlap(path)]
    if accepted:
        return []
    rule = "COMBINED_TYPE_CHANGED" if changed else "TYPE_CHANGED"
    message = f"no alternative of {kind} accepts all that was valid: add one that does"
    return [Incompatibility(rule, path, message)]


def _overlap(path: str) -> Incompatibility:
    message = "two alternatives accept what one did, and oneOf wants exactly one: use anyOf, or make them distinct"
    return Incompatibility("SUM_TYPE_OVERLAPS", path, message)


def _matches(accepted: list[list[int]]) -> bool:
    """Tell whether each old branch can have a new one of its own (a matching in a bipartite graph)."""
    taken: dict[int, int] = {}

    def place(was: int, tried: set[int]) -> bool:
        for now in accepted[was]:
            if now not in tried:
                tried.add(now)
                if now not in taken or place(taken[now], tried):
                    taken[now] = was
                    return True
        return False

    return all(place(was, set()) for was in range(len(accepted)))


def _not(within: "Comparison", old: Node, new: Node, path: str) -> Found:
    if "not" not in new.schema:
        return []
    if "not" in old.schema and within.reads(new.child(new.schema["not"]), old.child(old.schema["not"])):
        return []
    message = "more is excluded than was: leave it out of not"
    return [Incompatibility("NOT_TYPE_EXTENDED", f"{path}/not", message)]


def _condition(within: "Comparison", old: Node, new: Node, path: str) -> Found:
    if "if" not in new.schema or not {"then", "else"} & new.schema.keys():
        return []
    if "if" not in old.schema:
        message = "what was valid had to meet no condition: leave if, then and else out"
        return [Incompatibility("CONDITION_ADDED", f"{path}/if", message)]
    was, now = old.child(old.schema["if"]), new.child(new.schema["if"])
    if not (within.reads(was, now) and within.reads(now, was)):
        return [Incompatibility("CONDITION_CHANGED", f"{path}/if", "the condition is another: keep it as it was")]
    return [
        each
        for part in ("then", "else")
        for each in within.of(
            old.child(old.schema.get(part, True)), new.child(new.schema.get(part, True)), f"{path}/{part}"
        )
    ]


def _branches(node: Node, kind: str) -> list[Node]:
    return [node.child(each) for each in node.schema.get(kind, [])]
