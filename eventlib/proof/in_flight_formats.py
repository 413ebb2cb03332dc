"""A proof of what is in flight in forms that other tools read: JSON, Markdown and JUnit."""

from collections.abc import Mapping
from xml.etree.ElementTree import Element, SubElement

from eventlib.proof.formats import count_of, junit, plain
from eventlib.proof.proving import InFlightProof, Proved
from eventlib.values import escaped

_NAMED = 5


def headline(found: InFlightProof) -> str:
    """Return what is in flight, and whether it ends lawfully."""
    if not found.in_flight and not found.damaged:
        return "Nothing is in flight."
    sagas = f"{found.in_flight:,} in flight, {count_of(found.shapes, 'shape')}"
    if found.holds:
        return f"{sagas}, all end lawfully within {count_of(found.farthest, 'step')}."
    parts = [
        f"{sum(len(each.keys) for each in those):,} {what}"
        for what, those in (("that do not end lawfully", found.unlawful), ("not explored to the end", found.open))
        if those
    ]
    if found.damaged:
        places = count_of(len(found.damaged), "damaged place")
        parts.append(f"{places} on the log, so what else is in flight is not known")
    return f"{sagas}: {', '.join(parts)}."


def keys_of(each: Proved) -> str:
    """Return the key of the saga that was explored, and some of those like it."""
    others = [key for key in each.keys if key != each.key]
    if not others:
        return each.key
    named = ", ".join(others[:_NAMED]) + (", …" if len(others) > _NAMED else "")
    return f"{each.key} (and {len(others):,} like it: {named})"


def as_json(found: InFlightProof) -> dict[str, object]:
    """Return it as JSON."""
    return {
        "holds": found.holds,
        "in_flight": found.in_flight,
        "shapes": found.shapes,
        "farthest": found.farthest,
        "moments": sum(each.moments for each in found.explored),
        "steps": sum(each.steps for each in found.explored),
        "unlawful": [_proved(each) for each in found.unlawful],
        "unexplored": [_proved(each) for each in found.open],
        "left_out": found.left_out,
        "damaged": found.damaged,
    }


def _proved(each: Proved) -> Mapping[str, object]:
    return {
        "key": each.key,
        "keys": each.keys,
        "why": each.why,
        "law": each.invariant or None,
        "story": each.story,
        "moments": each.moments,
    }


def as_markdown(found: InFlightProof) -> str:
    """Return it as a comment on a pull request: the headline, each saga that does not end lawfully, what is left out."""
    verdict = "Proved" if found.holds else "Not lawful" if found.unlawful else "Not proved"
    lines = [f"## In flight: {verdict}", "", plain(headline(found)), ""]
    for each in found.unlawful:
        lines += [f"- ✗ {plain(keys_of(each))}: {plain(each.why)}"]
        lines += [f"    {number}. {plain(step)}" for number, step in enumerate(each.story, start=1)]
    lines += [f"- ? {plain(keys_of(each))}: not explored to the end: {plain(each.why)}" for each in found.open]
    lines += [f"- ? {plain(each)}" for each in found.damaged]
    if not found.holds:
        lines.append("")
    if found.in_flight:
        lines += ["<details><summary>Not explored</summary>", ""]
        lines += [*(f"- {plain(each)}" for each in found.left_out), "", "</details>"]
    return "\n".join(lines).rstrip()


def as_junit(found: InFlightProof) -> bytes:
    """Return it as JUnit's XML: a test for each saga explored; unlawful is a failure, what is not known an error."""
    return junit(junit_suite(found))


def junit_suite(found: InFlightProof) -> Element:
    """Return a suite with a test for each saga explored; unlawful is a failure, what is not known an error."""
    counted = {
        "name": "eventlib prove",
        "tests": str(max(1, len(found.explored) + len(found.damaged))),
        "failures": str(len(found.unlawful)),
        "errors": str(len(found.open) + len(found.damaged)),
    }
    suite = Element("testsuite", counted)
    if not found.explored and not found.damaged:
        SubElement(suite, "testcase", {"classname": "eventlib.prove", "name": headline(found)})
    for each in found.explored:
        case = SubElement(suite, "testcase", {"classname": "eventlib.prove", "name": escaped(keys_of(each))})
        if each.why:
            wrong = SubElement(case, "error" if each.is_open else "failure", {"message": escaped(each.why)})
            wrong.text = "\n".join(map(escaped, each.story))
    for damage in found.damaged:
        case = SubElement(suite, "testcase", {"classname": "eventlib.prove", "name": escaped(damage.partition(" ")[0])})
        SubElement(case, "error", {"message": escaped(damage)})
    SubElement(suite, "system-out").text = "\n".join(map(escaped, ("not explored:", *found.left_out)))
    return suite
