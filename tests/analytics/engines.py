"""Tables as engines of others read them."""

import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from analytics.rebuilding import tables
from analytics.stores import Place

Read = Callable[[Path], pa.Table]
Rows = dict[str, Counter[str]]
_OFFLINE: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}


def in_duckdb(function: str) -> Read:
    return lambda path: asked_of_duckdb(f"{function}('{path}')", "avro", "iceberg", "delta")


def asked_of_duckdb(table: str, *extensions: str, secret: str = "") -> pa.Table:
    """Return a table's rows as DuckDB reads them, with extensions that are packages: it fetches none."""
    import duckdb

    with duckdb.connect(config=_OFFLINE) as connection:
        for name in extensions:
            site = Path(duckdb.__file__).parents[1]
            (extension,) = site.glob(f"duckdb_extension_{name}/extensions/*/{name}.duckdb_extension")
            connection.execute(f"LOAD '{extension}'")
        connection.execute("SET TimeZone = 'UTC'")
        if secret:
            connection.execute(f"CREATE SECRET ({secret})")
        return connection.execute(f"SELECT * FROM {table}").to_arrow_table()  # noqa: S608  a test's path


def on_store_in_duckdb(table: str, url: str, settings: Mapping[str, str]) -> pa.Table:
    """Return the rows that DuckDB reads from a store."""
    secret = {
        "TYPE": "s3",
        "KEY_ID": settings["AWS_ACCESS_KEY_ID"],
        "SECRET": settings["AWS_SECRET_ACCESS_KEY"],
        "REGION": settings["AWS_REGION"],
        "ENDPOINT": url.removeprefix("http://"),
        "URL_STYLE": "path",
        "USE_SSL": "false",
    }
    given = ", ".join(f"{name} '{value}'" for name, value in secret.items())
    return asked_of_duckdb(table, "httpfs", "avro", "iceberg", secret=given)


def in_polars_iceberg(path: Path) -> pa.Table:
    import polars as pl

    with warnings.catch_warnings():  # that planning by pyiceberg is slower
        warnings.simplefilter("ignore")
        return pl.scan_iceberg(str(path)).collect().to_arrow()


def in_pyiceberg(path: Path) -> pa.Table:
    from pyiceberg.table import StaticTable

    return StaticTable.from_metadata(str(path)).scan().to_arrow()


def in_delta_rs(path: Path) -> pa.Table:
    from deltalake import DeltaTable

    return DeltaTable(str(path)).to_pyarrow_table()


def in_polars_delta(path: Path) -> pa.Table:
    import polars as pl

    return pl.scan_delta(str(path)).collect().to_arrow()


ENGINES: Mapping[str, Mapping[str, Read]] = {
    "iceberg": {
        "DuckDB": in_duckdb("iceberg_scan"),
        "pyiceberg": in_pyiceberg,
        "Polars": in_polars_iceberg,
    },
    "delta": {
        "DuckDB": in_duckdb("delta_scan"),
        "delta-rs": in_delta_rs,
        "Polars": in_polars_delta,
    },
}


def rows_of(table: pa.Table) -> Counter[str]:
    """How often each row is there, its values in the order of the columns' names."""
    return Counter(repr([(name, plain(row[name])) for name in sorted(row)]) for row in table.to_pylist())


def spark_rows(rows: DataFrame) -> Counter[str]:
    return rows_of(rows.toArrow())


def rows_in(spark: SparkSession, place: Place, version: int | None = None) -> Rows:
    return {name: spark_rows(rows) for name, rows in tables(spark, place, version=version).items()}


def plain(value: Any) -> Any:
    match value:
        case datetime():
            return value.astimezone(UTC).isoformat()
        case list():
            return [plain(each) for each in value]
        case dict():
            return {name: plain(each) for name, each in value.items()}
        case _:
            return value
