"""Pseudonyms: a keyed hash in the stead of an id, which cannot be reversed by trying all ids."""

import hmac
from functools import cache
from pathlib import Path


def pseudonym(text: str) -> str | None:
    """Return the pseudonym of an id, 16 hexadecimal digits: HMAC-SHA-256 with a secret key; None when no key is set.

    The key is in the file that EVENTLIB_PERSONAL_PSEUDONYMS names, else it follows from the installation's key. Guarantee: one id
    has one pseudonym for each key, and without the key nothing tells which id that is. Raises: WiringError for a file that
    others can read, or that is no key.
    """
    from eventlib.identity.options import identity_options
    from eventlib.personal.opening import personal_options

    path = personal_options().personal_pseudonyms
    installation = identity_options().installation_key() if path is None else None
    if path is None and installation is None:
        return None
    key = hmac.digest(installation, b"pseudonyms", "sha256") if installation else key_in(str(path))
    return hmac.digest(key, text.encode(), "sha256")[:8].hex()


@cache
def key_in(path: str) -> bytes:
    """Return the key in a file, which is read once."""
    from eventlib.personal.secret_file import read_secret

    return read_secret(Path(path), "pseudonyms' key")
