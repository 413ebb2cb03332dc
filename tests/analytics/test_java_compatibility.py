"""Apache's Java classes judge every Avro case as the registry does; only logical types are judged more strictly here."""

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession

from eventlib.registry.compatibility import unreadable
from eventlib.registry.parsing import SchemaType, parse
from tests.unit.registry.avro_cases import CASES

_STRICTER = frozenset({"LOGICAL_TYPE_MISMATCH"})


@pytest.fixture(scope="session")
def java(spark: SparkSession) -> Any:
    jvm: Any = spark._jvm  # noqa: SLF001  PySpark gives no other way to Java's classes
    return jvm.org.apache.avro


def reads(java: Any, reader: Any, writer: Any) -> bool:
    """Tell what Java says."""
    one, other = (java.Schema.Parser().parse(json.dumps(each)) for each in (reader, writer))
    found = java.SchemaCompatibility.checkReaderWriterCompatibility(one, other)
    return str(found.getType()) == "COMPATIBLE"


def test_java_judges_as_the_registry_does(java: Any) -> None:
    for case in CASES:
        for reader, writer in ((case.new, case.old), (case.old, case.new)):
            one, other = (parse(SchemaType.AVRO, json.dumps(each)) for each in (reader, writer))
            broken = {each.rule for each in unreadable(reader=one, writer=other)}
            assert reads(java, reader, writer) == (broken <= _STRICTER), case.name
