"""Dashboards and alert rules: they name only what a process measures, and the rules are what is generated."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from eventlib import cli
from eventlib.telemetry.alerts import alerts, rule_groups
from eventlib.telemetry.catalogue import METRICS, Metric
from services import shop

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


ROOT = Path(__file__).parents[2]


def series() -> dict[str, tuple[Metric, bool]]:
    """Return every series that can be asked for, with its metric, and whether it only grows."""
    found = dict[str, tuple[Metric, bool]]()
    for metric in METRICS.values():
        if metric.kind == "histogram":
            found |= {f"{metric.prometheus}_{part}": (metric, True) for part in ("bucket", "count", "sum")}
        else:
            found[metric.prometheus] = (metric, metric.kind == "counter")
    return found


DASHBOARDS = {
    path.name: path.read_text(encoding="utf-8") for path in (ROOT / "eventlib/telemetry/grafana").glob("*.json")
}


def of_dashboards() -> Iterator[str]:
    for text in DASHBOARDS.values():
        for panel in json.loads(text)["panels"]:
            yield from (target["expr"] for target in panel["targets"])


def of_rules() -> Iterator[str]:
    yield from (alert.expression for alert in alerts(shop))


def test_the_files_are_what_is_generated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EVENTLIB_APP", raising=False)
    assert cli.run(["export", "alerts", "--app", "services:shop", "--out", str(tmp_path / "prometheus")]) == 0
    assert cli.run(["export", "metrics", "--out", str(tmp_path)]) == 0
    made = {path.relative_to(tmp_path): path.read_text() for path in tmp_path.rglob("*.*")}
    deploy = ROOT / "deploy"
    paths = [*(deploy / "prometheus").glob("*"), deploy / "metrics.md"]
    kept = {path.relative_to(deploy): path.read_text() for path in paths}
    assert made == kept, "run `eventlib export alerts --out deploy/prometheus`"


def test_the_dashboards_are_exported_as_they_are(tmp_path: Path) -> None:
    assert cli.run(["export", "dashboards", "--app", "services:shop", "--out", str(tmp_path)]) == 0
    assert {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()} == DASHBOARDS
    assert len(DASHBOARDS) == 4


@pytest.mark.parametrize("expression", [*of_dashboards(), *of_rules()])
def test_an_expression_names_what_there_is(expression: str) -> None:
    found, known = named(expression), series()
    assert found.series
    labels = {"le"}
    for name, has_range in found.series:
        metric, grows = known[name]
        assert has_range == grows, f"{name}: a rate is taken of what grows, and of nothing else"
        labels |= {*metric.labels}
    assert {*found.labels} <= labels


def test_every_metric_is_on_a_dashboard() -> None:
    shown = {known[0].name for e in of_dashboards() for name, _ in named(e).series if (known := series().get(name))}
    assert shown == METRICS.keys()


def test_a_label_that_a_text_speaks_of_is_there() -> None:
    for alert in alerts(shop):
        spoken = {*re.findall(r"\$labels\.(\w+)", alert.summary + alert.remedy)}
        by = {*named(alert.expression).labels}
        assert spoken <= by, alert.name


def test_panels_do_not_overlap_and_legends_name_their_labels() -> None:
    for text in DASHBOARDS.values():
        panels = json.loads(text)["panels"]
        places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
        assert len({*places}) == len({panel["id"] for panel in panels}) == len(panels)
        for target in (target for panel in panels for target in panel["targets"]):
            assert {*re.findall(r"{{(\w+)}}", target["legendFormat"])} <= {*named(target["expr"]).labels}


def test_the_rules_are_one_group_of_whole_rules() -> None:
    ((_, rules),) = (group.values() for group in rule_groups(shop))
    assert len(rules) == len(alerts(shop)) == len({rule["alert"] for rule in rules})
    for rule in rules:
        assert [*rule] == ["alert", "expr", "for", "labels", "annotations"]
        assert re.fullmatch(r"\d+m", rule["for"])


@pytest.mark.parametrize(
    "wrong", ["sum(eventlib_lag", "sum)eventlib_lag(", "rate[5m]", "eventlib_lag ? 5", "sum by service (x[5m)"]
)
def test_an_expression_that_is_none_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        named(wrong)
