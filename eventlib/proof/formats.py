"""A comparison in forms that other tools read: JSON, Markdown, JUnit and SARIF."""

from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import version
from typing import Any
from xml.etree.ElementTree import Element, SubElement, tostring

from eventlib.model.measures import Measures
from eventlib.proof.differing import Diff, DifferenceGroup, Total
from eventlib.replay.difference_lines import difference_lines
from eventlib.replay.report import Difference
from eventlib.values import escaped, from_ms

_KINDS = {
    "other": "emits other events",
    "silent": "emits nothing now",
    "talks": "emits something now",
    "raises": "raises, so that the input is parked",
    "unreadable": "cannot read the input, which is parked",
    "no-deadline": "sets no such deadline",
    "overdue": "would have let a deadline pass",
    "unhandled": "does not handle the input",
    "state": "keeps another state",
    "recovers": "handles what was parked",
}


def headline(found: Diff) -> str:
    """Return how much differs, and what that comes to."""
    scope = f"{found.decisions:,} decisions on {found.events:,} events"
    if not found.groups:
        return f"Nothing differs from {found.base}, in {scope}."
    sagas = found.sagas
    parts = [_total(each) for each in found.totals]
    parts += [f"{found.parked:,} parked"] if found.parked else []
    told = f": {', '.join(parts)}" if parts else ""
    return f"{count_of(len(sagas), 'saga')} {'differs' if len(sagas) == 1 else 'differ'}, in {found.differences:,} of {scope}{told}."


def group_line(group: DifferenceGroup) -> str:
    """Return what a group's decisions have in common."""
    delta = f" ({' '.join(group.signature.delta)})" if group.signature.delta else ""
    return f"{group.signature.handler} on {group.signature.input} {_KINDS[group.signature.kind]}{delta}"


def counts(group: DifferenceGroup) -> str:
    """Return how many decisions, and in how many sagas."""
    return f"{count_of(group.decisions, 'decision')} in {count_of(len(group.sagas), 'saga')}"


def debugger_command(difference: Difference) -> str:
    """Return the command that stops in the handler with the arguments of a decision."""
    cause, decider = difference.input.cause, difference.decider
    return f"eventlib debug {difference.key} {cause} --decider {decider}"


def amounts(measures: Measures) -> str:
    """Return what money and units come to: `412.00 GBP, 3 units`."""
    return ", ".join(f"{amount:+,f} {unit}" for unit, amount in sorted(measures.items()))


def _total(total: Total) -> str:
    more = (
        f"{abs(total.events):,} {total.type} {'more' if total.events > 0 else 'less'}" if total.events else total.type
    )
    return f"{more} ({amounts(total.measures)})" if total.measures else more


def count_of(count: int, what: str) -> str:
    """Return a number with its noun: `1 saga`, `2,500 sagas`."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


_SARIF = "https://json.schemastore.org/sarif-2.1.0.json"


def as_json(found: Diff) -> Mapping[str, object]:
    """Return it as JSON."""
    return {
        "base": found.base,
        "head": found.head,
        "events": found.events,
        "decisions": found.decisions,
        "differences": found.differences,
        "sagas": found.sagas,
        "parked": found.parked,
        "totals": [each._asdict() for each in found.totals],
        "groups": [_group(group) for group in found.groups],
        "stale": found.stale,
        "notes": found.notes,
        "damaged": found.damaged,
    }


def _group(group: DifferenceGroup) -> Mapping[str, object]:
    example = group.example
    return {
        **group.signature._asdict(),
        "decisions": group.decisions,
        "sagas": group.sagas,
        "lines": group.lines,
        "reason": group.reason,
        "example": {
            **{name: getattr(example.difference, name) for name in ("key", "saga", "why")},
            "at": from_ms(example.difference.at_ms),
            "input": asdict(example.difference.input),
            "before": [asdict(each) for each in example.before],
            "after": [asdict(each) for each in example.after],
            "debug": debugger_command(example.difference),
        },
    }


def as_markdown(found: Diff, limit: int) -> str:
    """Return it as a comment on a pull request: the headline, a table, and the first groups in full."""
    verdict = (
        "No difference" if not found.groups else "Differences" if found.unexpected else "Only expected differences"
    )
    lines = [f"## {verdict}: {_code(found.head)} against {_code(found.base)}", "", plain(headline(found)), ""]
    lines += [f"**Damage:** {plain(each)}; what depends on it is not compared.\n" for each in found.damaged]
    lines += [f"Note: {plain(each)}.\n" for each in found.notes]
    if found.groups:
        lines += ["| what differs | decisions | sagas | changed lines that run | expected |", "|---|---:|---:|---|---|"]
        lines += [_row(group) for group in found.groups]
        lines.append("")
    for group in found.groups[:limit]:
        difference = group.example.difference
        told = difference_lines(group.example.before, group.example.after, difference.why)
        lines += [
            f"<details><summary>{plain(group_line(group))}: the smallest of {counts(group)}</summary>\n",
            "```diff",
            *(f"{sign} {escaped(text).replace('```', '` ` `')}" for sign, text in told),
            "```\n",
            f"Open it: {_code(debugger_command(difference))}\n",
            "</details>\n",
        ]
    if len(found.groups) > limit:
        lines.append(f"… and {len(found.groups) - limit} groups more.")
    lines += [f"Expected, and not there: {plain(each)}\n" for each in found.stale]
    return "\n".join(lines).rstrip()


def _row(group: DifferenceGroup) -> str:
    run = "<br>".join(map(_code, group.lines[:5]))
    what = plain(group_line(group))
    return f"| {what} | {group.decisions:,} | {len(group.sagas):,} | {run} | {plain(group.reason)} |"


def plain(text: str) -> str:
    """Return external text so that Markdown takes it as it is."""
    safe = escaped(text).replace("&", "&amp;").replace("<", "&lt;")
    return "".join(f"\\{each}" if each in "\\`*_[]|#@" else each for each in safe)


def _code(text: str) -> str:
    return f"<code>{plain(text)}</code>"


def as_junit(found: Diff) -> bytes:
    """Return it as JUnit's XML: a test for each group, which fails if it is not expected."""
    return junit(junit_suite(found))


def junit(*suites: Element) -> bytes:
    """Return suites of tests as JUnit's XML."""
    counts = {what: sum(int(suite.get(what, "0")) for suite in suites) for what in ("tests", "failures", "errors")}
    top = Element("testsuites", {"name": "eventlib", **{what: str(count) for what, count in counts.items()}})
    top.extend(suites)
    written: bytes = tostring(top, encoding="utf-8", xml_declaration=True)
    return written


def junit_suite(found: Diff) -> Element:
    """Return a suite with a test for each group, which fails if it is not expected."""
    groups, failures = found.groups, len(found.unexpected)
    counted = {"name": "eventlib diff", "tests": str(max(1, len(groups))), "failures": str(failures)}
    suite = Element("testsuite", counted)
    if not groups:
        SubElement(suite, "testcase", {"classname": "eventlib.diff", "name": _xml(headline(found))})
    for group in groups:
        case = SubElement(suite, "testcase", {"classname": group.signature.handler, "name": _xml(group_line(group))})
        difference = group.example.difference
        told = difference_lines(group.example.before, group.example.after, difference.why)
        text = [counts(group), *group.lines, *(f"{sign} {line}" for sign, line in told), debugger_command(difference)]
        if group.is_expected:
            SubElement(case, "system-out").text = _xml(f"expected: {group.reason}")
        else:
            SubElement(case, "failure", {"message": counts(group)}).text = "\n".join(map(_xml, text))
    return suite


def _xml(text: str) -> str:
    return escaped(text)  # XML has no control characters


def as_sarif(found: Diff) -> Mapping[str, object]:
    """Return it as SARIF 2.1.0: a result for each group, at the changed lines that run, or else without a place."""
    rules = sorted({group.signature.kind for group in found.groups})
    driver = {
        "name": "eventlib diff",
        "version": version("eventlib-sagas"),
        "rules": [{"id": rule} for rule in rules],
    }
    results = [_result(group, rules) for group in found.groups]
    return {"$schema": _SARIF, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


def _result(group: DifferenceGroup, rules: list[str]) -> Mapping[str, Any]:
    result: dict[str, Any] = {
        "ruleId": group.signature.kind,
        "ruleIndex": rules.index(group.signature.kind),
        "level": "note" if group.is_expected else "warning",
        "message": {"text": f"{escaped(group_line(group))}: {counts(group)}"},
    }
    places = [each.partition(" in ")[0].rpartition(":") for each in group.lines]
    if places:
        result["locations"] = [
            {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": {"startLine": int(line)}}}
            for uri, _, line in places
        ]
    if group.is_expected:
        result["suppressions"] = [{"kind": "external", "justification": group.reason}]
    return result
