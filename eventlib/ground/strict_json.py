"""JSON that every reader takes for the same (RFC 8259)."""

import json

from eventlib.errors import ContractError


class JsonRefused(ContractError):
    """The text is JSON for some readers, and not for others; `member` is the name of the member that it is about."""

    def __init__(self, sentence: str, member: str | None = None) -> None:
        super().__init__(sentence)
        self.member = member


def decode_json(text: str) -> object:
    """Return what a JSON text says.

    Raises: json.JSONDecodeError for what is no JSON; JsonRefused for an object with a member twice, for NaN and
    infinities, and for what is nested too deep or has a number with too many digits.
    """
    try:
        return _DECODER.decode(text)
    except (json.JSONDecodeError, JsonRefused):
        raise
    except RecursionError as error:
        raise JsonRefused("values are nested too deep") from error
    except ValueError as error:
        raise JsonRefused("a number has too many digits") from error


def _members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) < len(pairs):
        seen = set[str]()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]  # adds it
        raise JsonRefused(f"field {ascii(twice)[:60]} is there twice", twice)
    return members


def _no_number(name: str) -> float:
    raise JsonRefused(f"{name} is no number")


_DECODER = json.JSONDecoder(object_pairs_hook=_members, parse_constant=_no_number)
