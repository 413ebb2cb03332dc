"""People with planted names whose letters are handled, and the search for these names in every byte that was written."""

import base64
import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from eventlib import EventLog
from eventlib.operations.erasure import forget
from eventlib.personal.opening import open_store, personal_options
from eventlib.personal.store import KeyStore
from examples.letters import LetterSubmitted
from tests.handling import handle_all
from tests.integration.letters_app import FlakyPost

STEMS = ("Plantagenet", "Wimbleforth", "Oxbridgeham", "quillwort", "+44 7700")
"""Each planted text has one of them."""
_COMPRESSED = 100_000
"""Bytes of one compressed stream that are looked into: more than a batch of these tests has."""


def person(number: int) -> dict[str, str]:
    return {
        "name": f"Plantagenet-{number:04} Q'Zyx",
        "street": f"{number:04} Wimbleforth Mews",
        "city": f"Oxbridgeham-{number:04}",
        "email": f"{number:04}@quillwort.example",
        "phone": f"+44 7700 9{number:05}",
    }


def letter(number: int) -> LetterSubmitted:
    """Return a person's letter; no stamp is for every sixth one."""
    kind = "unknown" if number % 6 == 5 else "standard"
    return LetterSubmitted(letter_id=f"l{number}", customer_id=f"c{number}", kind=kind, **person(number))


def traces(text: str) -> Iterator[bytes]:
    """Yield the forms in which a text could stand in a file."""
    plain = text.encode()
    yield from (plain, plain.upper(), text.encode("utf-16-le"), text.encode("utf-16-be"), plain.hex().encode())
    for pad in range(3):
        written = base64.b64encode(b"x" * pad + plain)
        yield written[(8 * pad + 5) // 6 : (8 * (pad + len(plain))) // 6]


PATTERNS = [trace for stem in STEMS for trace in traces(stem)]


def found_in(name: str, data: bytes) -> list[str]:
    return [f"{name}: {trace!r}" for trace in PATTERNS if trace in data]


def streams(path: Path) -> Iterator[bytes]:
    """Yield a file's bytes, what is compressed in it, and the columns of a Parquet file."""
    data = path.read_bytes().rstrip(b"\0")  # Kafka allocates its indexes in advance
    yield data
    for head in (b"\x1f\x8b\x08", b"\x78\x01", b"\x78\x9c", b"\x78\xda"):
        at = data.find(head)
        while at >= 0:
            with suppress(zlib.error):
                yield zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(data[at : at + _COMPRESSED], 1_000_000)
            at = data.find(head, at + 1)
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        yield str(pq.read_table(path).to_pylist()).encode()


def guessed_in(directory: Path, *guessed: str | Mapping[str, str]) -> list[str]:
    """Return which files have a hash of texts, or of bodies of JSON."""
    patterns = {*_guesses(*guessed)}
    lengths = {len(each) for each in patterns}
    found = list[str]()
    for path in files_in(directory):
        data = path.read_bytes()
        if any(data[at : at + length] in patterns for length in lengths for at in range(len(data))):
            found.append(path.name)
    return found


def _guesses(*guessed: str | Mapping[str, str]) -> Iterator[bytes]:
    """Yield the forms in which hashes of texts, and of bodies of JSON, could stand in a file; each as it would begin."""
    texts = set[str]()
    for each in guessed:
        if isinstance(each, str):
            texts |= {each, each.lower(), each.upper(), json.dumps(each)}
        else:
            for separators in ((",", ":"), (", ", ": ")):
                texts |= {json.dumps(each, separators=separators, sort_keys=is_sorted) for is_sorted in (False, True)}
    for data in map(str.encode, texts):
        named = ("md5", "sha1", "sha224", "sha256", "sha384", "sha512", "sha3_256", "blake2s")
        digests = [hashlib.new(name, data).digest() for name in named]
        digests += [hashlib.blake2b(data, digest_size=size).digest() for size in (6, 8, 10, 12, 16, 20, 24, 32, 48, 64)]
        for digest in digests:
            yield from (digest[:6], digest[:6].hex().encode(), digest[:6].hex().upper().encode())
            yield from (encode(digest)[:8] for encode in (base64.b64encode, base64.urlsafe_b64encode))


def files_in(*directories: Path) -> list[Path]:
    return [path for each in directories for path in sorted(each.rglob("*")) if path.is_file()]


def leaks(*directories: Path) -> list[str]:
    """Return where something planted stands in a file."""
    return [leak for path in files_in(*directories) for stream in streams(path) for leak in found_in(path.name, stream)]


def key_store(url: str) -> KeyStore:
    """Open the keys of a log that has some."""
    return open_store(url, personal_options(), create=False)


async def posted(log: EventLog, *numbers: int) -> None:
    """Let people's letters be handled."""
    await log.publish_many([letter(number) for number in numbers])
    await settled(log)


async def settled(log: EventLog) -> None:
    await handle_all(log, ports={"post": FlakyPost()})


async def erased(log: EventLog, url: str, *subjects: str) -> None:
    with key_store(url) as store:
        for subject in subjects:
            await forget(log.port, store, subject, "they asked", "ada")
