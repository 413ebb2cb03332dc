"""Where rebuilt tables are: Parquet, Iceberg or Delta, in versions of which one is current, with all tables at once."""

from analytics.stores.manifest import Manifest, TableFormat, current, format_of, needed, read_manifest, version_at
from analytics.stores.opening import begin_version, tables
from analytics.stores.published import entry_of
from analytics.stores.version import Staged, Version

__all__ = [
    "Manifest",
    "Staged",
    "TableFormat",
    "Version",
    "begin_version",
    "current",
    "entry_of",
    "format_of",
    "needed",
    "read_manifest",
    "tables",
    "version_at",
]
