"""Personal fields as columns: with rights their texts, and NULL once their subject is erased."""

from collections.abc import Callable
from functools import lru_cache

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from analytics.schema import SCHEMA
from eventlib.model.event import Event
from eventlib.model.personal import is_erased, personal_fields
from eventlib.personal.base import FieldCipher
from eventlib.personal.opening import open_ring, personal_options
from eventlib.personal.options import PersonalOptions


def decrypted(rows: DataFrame, event: type[Event], url: str) -> DataFrame:
    """Return rows of `analytics.events` with the texts of the event's personal fields; NULL for who was erased.

    The keys are those of the log at `url`, as the settings EVENTLIB_PERSONAL_… name them; each worker has to reach them.
    Without this step the columns have ciphertext, in which equal texts of one person are equal. A table that is written with
    the texts keeps them after an erasure: decrypt when it is read. Raises: WiringError without a master key.
    """
    options = personal_options()
    open_ring(url, options, create=False).close()  # so that what is missing is found here, and not in a worker
    decrypt = f.udf(_decrypter(url, options), "string")
    for name in personal_fields(event):
        column = f"event_{name}" if name in SCHEMA.names else name
        rows = rows.withColumn(column, decrypt(f.col(column)))
    return rows


def _decrypter(url: str, options: PersonalOptions) -> Callable[[str | None], str | None]:
    def decrypt(text: str | None) -> str | None:
        if not text:
            return text
        found = text if is_erased(text) else _ring(url, options).decrypt(text)
        return None if is_erased(found) else found

    return decrypt


@lru_cache(maxsize=1)
def _ring(url: str, options: PersonalOptions) -> FieldCipher:
    """Return the keys of a worker's process."""
    return open_ring(url, options, create=False)
