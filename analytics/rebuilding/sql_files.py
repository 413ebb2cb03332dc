"""Tables that are SQL files, with dbt's habits: `{{ ref('table') }}`, and `{{ config(…) }}` in front."""

import ast
import re
from collections.abc import Callable, Iterator
from importlib.resources import files
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from analytics.table_tests import ColumnTest
from analytics.tables import Column, Table
from eventlib.errors import WiringError

_REF = re.compile(r"\{\{\s*ref\(\s*['\"](\w+)['\"]\s*\)\s*\}\}")
_CONFIG = re.compile(r"\{\{\s*(config\(.*?\))\s*\}\}", re.DOTALL)
_ALLOWED = ("key", "increment", "merges", "columns", "hidden")


def sql_tables(package: str) -> Iterator[Table]:
    """Yield the tables of a package's SQL files, each named as its file. Raises: WiringError."""
    for file in sorted(files(package).iterdir(), key=lambda each: each.name):
        if file.name.endswith(".sql"):
            yield sql_table(file.name.removesuffix(".sql"), file.read_text(encoding="utf-8"), f"{package}/{file.name}")


def sql_table(name: str, text: str, place: str) -> Table:
    """Return the table of one query.

    The tables that it reads are those that it names by `{{ ref('name') }}`: a plain name might be a column's. Lines of
    comment in front are the table's description. Raises: WiringError naming the file and what is wrong in it.
    """
    config = _CONFIG.search(text)
    options = _options(config[1], place) if config else {}
    body = _CONFIG.sub("", text)
    reads = list(dict.fromkeys(_REF.findall(body)))
    left = re.search(r"\{[{%].*", _REF.sub("", body))
    if left:
        raise WiringError(
            f"{place}: {left[0]!r} is not known here: only {{{{ ref('table') }}}} and {{{{ config(…) }}}} are"
        )
    doc = re.match(r"(?:\s*--[^\n]*\n)*", body)
    described = " ".join(line.strip().lstrip("-").strip() for line in (doc[0] if doc else "").splitlines()).strip()
    key = options.pop("key", ())
    return Table(
        name=name,
        make=_maker(body, place),
        reads={each: each for each in reads},
        key=(key,) if isinstance(key, str) else tuple(key),
        columns={
            column: _column(told, f"{place}: column {column}") for column, told in options.pop("columns", {}).items()
        },
        doc=described,
        place=place,
        source=text,
        **options,
    )


def _maker(text: str, place: str) -> Callable[..., DataFrame]:
    def make(**tables: DataFrame) -> DataFrame:
        spark = SparkSession.getActiveSession()
        if spark is None:
            raise WiringError(f"{place}: there is no Spark session to run it")
        for name, rows in tables.items():
            rows.createOrReplaceTempView(f"ref_{name}")
        try:
            return spark.sql(_REF.sub(r"`ref_\1`", text))
        except PySparkException as error:
            raise WiringError(f"{place}: {str(error).partition(chr(10))[0]}") from error

    return make


def _options(text: str, place: str) -> dict[str, Any]:
    try:
        call = ast.parse(text, mode="eval").body
        keywords = call.keywords if isinstance(call, ast.Call) and not call.args else []
        found = {each.arg or "**": ast.literal_eval(each.value) for each in keywords}
    except (SyntaxError, ValueError) as error:
        raise WiringError(f"{place}: {text!r} is no config(name=value, …) with plain values: {error}") from error
    unknown = sorted(set(found) - {*_ALLOWED})
    if unknown:
        raise WiringError(f"{place}: config has {unknown[0]!r}; known are {', '.join(_ALLOWED)}")
    return found


def _column(told: object, where: str) -> Column:
    """Return a column of its description, or of a list: the description, and tests as dbt writes them."""
    doc, *tests = [told] if isinstance(told, str) else list(told) if isinstance(told, list | tuple) else [None]
    if not isinstance(doc, str):
        raise WiringError(f"{where} begins with its description, such as ['The country.', 'not_null']; it is {told!r}")
    return Column(doc, *(_test(each, where) for each in tests))


def _test(told: object, where: str) -> ColumnTest:
    match told:
        case "not_null" | "unique":
            return ColumnTest(told)
        case {"accepted_values": [*values]}:
            return ColumnTest("accepted_values", values=tuple(values))
        case {"relationships": str(to)}:
            return ColumnTest("relationships", text=to)
        case {"holds": str(condition)}:
            return ColumnTest("holds", text=condition)
        case _:
            raise WiringError(
                f"{where} has the test {told!r}; known are 'not_null', 'unique', {{'accepted_values': […]}}, "
                "{'relationships': 'table.column'} and {'holds': 'condition'}"
            )
