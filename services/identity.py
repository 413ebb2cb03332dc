"""The secrets of one installation of the shop, for where no operator hands them out: made once, and then kept."""

from pathlib import Path
from secrets import token_hex

from eventlib.identity import Role, add_token, write_private

_CLIENTS = {"prometheus": Role.MONITOR, "web-shop": Role.SHOP, "operator": Role.OPERATOR}


def make_identity(directory: Path) -> list[Path]:
    """Make the key, the file of tokens, and the text of each client's token in a directory; return what is new.

    Guarantee: what is there is kept, and each file is complete, so that an interrupted call can be repeated.
    Raises: WiringError for a file of tokens that cannot be read.
    """
    directory.mkdir(parents=True, exist_ok=True)
    made = list[Path]()
    key = directory / "key"
    if not key.exists():
        write_private(key, token_hex(32))
        made.append(key)
    for name, role in _CLIENTS.items():
        text = directory / f"{name}.token"
        if not text.exists():
            token, _ = add_token(directory / "tokens.json", name, [role], renew=True)
            write_private(text, token)
            made.append(text)
    return made
