"""Where rebuilt tables are: Parquet, Iceberg or Delta, in versions of which one is current, with all tables at once.

They are in a directory, or below a prefix of a bucket on an object store.
"""

from analytics.place import store_of
from analytics.stores.manifest import Manifest, TableFormat
from analytics.stores.opening import AnyVersion, alone_in, begin_version, refuse_unfit, tables
from analytics.stores.published import entry_of, opened_at
from analytics.stores.version import Staged
from analytics.stores.versions import VersionPlace, current, format_of, needed, read_manifest, version_at
from eventlib.ground.object_store import Place

__all__ = [
    "AnyVersion",
    "Manifest",
    "Place",
    "Staged",
    "TableFormat",
    "VersionPlace",
    "alone_in",
    "begin_version",
    "current",
    "entry_of",
    "format_of",
    "needed",
    "opened_at",
    "read_manifest",
    "refuse_unfit",
    "store_of",
    "tables",
    "version_at",
]
