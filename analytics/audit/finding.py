"""A rule of the audit, and its findings."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from pyspark.sql import types as t

Severity = Literal["error", "warning"]

FINDING = t.StructType([
    t.StructField("rule", t.StringType()),
    t.StructField("severity", t.StringType()),
    t.StructField("order", t.StringType()),
    t.StructField("about", t.StringType()),
    t.StructField("evidence", t.ArrayType(t.StringType())),
    t.StructField("sentence", t.StringType()),
])  # fmt: skip
"""One row per finding: `order` is the key under which its saga ends, empty if it concerns none; `about` names the
field and key that the rule is about; `evidence` are the ids of events."""


@dataclass(frozen=True)
class Rule:
    """What must hold on a log, in one sentence, and the severity of a violation."""

    name: str
    severity: Severity
    sentence: str


class Finding(NamedTuple):
    """A violation of a rule, as a row of `FINDING`."""

    rule: str
    severity: Severity
    order: str
    about: str
    evidence: Sequence[str]
    sentence: str
