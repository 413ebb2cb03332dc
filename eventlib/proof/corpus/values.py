"""Values of a corpus: Avro with the schema that wrote them, so that later code reads them as it reads a log."""

from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

from eventlib.codec.format import Read, Write
from eventlib.codec.formats import format_of
from eventlib.codec.registry import AVRO
from eventlib.errors import ContractError
from eventlib.model.schema.derive import record_of


class Values:
    """Writes and reads values; `schemas` has the text of each schema by its number.

    Personal fields are written as they are: a corpus holds pseudonyms.
    """

    def __init__(self, schemas: Mapping[str, str] | None = None) -> None:
        self.schemas = dict(schemas or {})
        self._numbers = {text: number for number, text in self.schemas.items()}
        self._writers: dict[type, tuple[str, Write]] = {}
        self._readers: dict[tuple[type, str], Read] = {}

    def write(self, value: object) -> str:
        """Return a value as text: the number of its schema, and base64 of its bytes."""
        cls = type(value)
        if cls not in self._writers:
            record, avro = record_of(cls), format_of(AVRO)
            text = avro.schema(record).text
            number = self._numbers.setdefault(text, str(len(self._numbers) + 1))
            self.schemas[number] = text
            self._writers[cls] = number, avro.writer(record, b"")
        number, write = self._writers[cls]
        return f"{number}:{b64encode(write(value)).decode()}"

    def read(self, cls: type[Any], text: str) -> Any:
        """Return a value of a class. Raises: ContractError when the class cannot be read from what was written."""
        number, _, data = text.partition(":")
        if (cls, number) not in self._readers:
            schema = self.schemas.get(number)
            if schema is None:
                raise ContractError(f"schema {number} is not in schemas.json: cut the corpus again")
            self._readers[cls, number] = format_of(AVRO).reader(record_of(cls), schema, 0)
        return self._readers[cls, number](b64decode(data))
