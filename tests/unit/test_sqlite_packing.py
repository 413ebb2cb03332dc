"""What is in a row of several records, and what is no such row."""

import msgspec
import pytest
from zstandard import ZstdCompressor

from eventlib.log.sqlite.packing import contents


@pytest.mark.parametrize(
    "value",
    [b"", b"no frame", ZstdCompressor().compress(b"no batch"), ZstdCompressor().compress(msgspec.msgpack.encode(7))],
    ids=["empty", "no frame", "another content", "another type"],
)
def test_what_is_no_batch_is_refused_as_one(value: bytes) -> None:
    with pytest.raises(ValueError, match=r"it (is not a batch of records|has another size)"):
        contents(7, value)
