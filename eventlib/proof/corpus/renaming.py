"""Pseudonyms for a corpus: one text has one pseudonym everywhere, of the same shape, and nothing leads back."""

import hmac
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from secrets import token_bytes
from string import ascii_lowercase, ascii_uppercase, digits
from typing import Any

from pydantic import BaseModel

from eventlib.model.event import Event, key_of
from eventlib.model.personal import is_plain, personal_fields
from eventlib.personal.pseudonyms import pseudonym
from eventlib.proof.corpus.decisions import CorpusDecision, item_of

_ALPHABETS = (digits, ascii_lowercase, ascii_uppercase)
_ATTEMPTS = 20


class Renamer:
    """Replaces keys and personal texts wherever they stand; letters by letters, digits by digits, all else stays.

    Guarantee: within a corpus different texts have different pseudonyms. With a pseudonyms' key (see `pseudonym`) they are the
    same in the next corpus; without one they follow from a secret that is forgotten.
    """

    def __init__(self) -> None:
        secret = pseudonym("corpus")
        self._secret = token_bytes(32) if secret is None else secret.encode()
        self._names = dict[str, str]()
        self._given = set[str]()

    def learn(self, decisions: Iterable[CorpusDecision]) -> None:
        """Learn which texts are to be replaced: keys, and what stands in personal fields."""
        texts = {text for decision in decisions for text in _texts_of(decision) if text}
        for text in sorted(texts):
            self._names[text] = self._pseudonym(text)

    def of(self, decision: CorpusDecision) -> CorpusDecision:
        """Return a decision with pseudonyms."""
        return decision._replace(
            key=self._renamed(decision.key),
            saga=self._renamed(decision.saga),
            state=self._renamed(decision.state),
            event=self._renamed(decision.event),
            meta=decision.meta._replace(subject=self._renamed(decision.meta.subject), headers={}, traceparent=None),
            emitted=[item_of(self._renamed(event)) for event in decision.events],
        )

    def _pseudonym(self, text: str) -> str:
        for attempt in range(_ATTEMPTS):
            found = self._shaped(text, attempt)
            if found not in self._given and found != text:
                break
        else:
            found = f"{text[:0]}{hmac.digest(self._secret, text.encode(), 'sha256').hex()[:16]}"
        self._given.add(found)
        return found

    def _shaped(self, text: str, attempt: int) -> str:
        """Return a text of the same shape, drawn by a keyed hash."""
        made = list[str]()
        for index, letter in enumerate(text):
            seed = f"{attempt}/{index // 32}/{text}".encode()
            drawn = hmac.digest(self._secret, seed, "sha256")[index % 32]
            alphabet = next((each for each in _ALPHABETS if letter in each), None)
            other = "x" if letter.isalpha() else letter
            made.append(other if alphabet is None else alphabet[drawn % len(alphabet)])
        return "".join(made)

    def _renamed(self, value: Any) -> Any:
        if isinstance(value, str) and not isinstance(value, Enum):
            return self._names.get(value, value)
        match value:
            case BaseModel():
                names = type(value).model_fields
                return value.model_copy(update={name: self._renamed(getattr(value, name)) for name in names})
            case Mapping():
                return {self._renamed(key): self._renamed(each) for key, each in value.items()}
            case tuple() | list() | set() | frozenset():
                return type(value)(map(self._renamed, value))
        if is_dataclass(value) and not isinstance(value, type):
            return replace(value, **{each.name: self._renamed(getattr(value, each.name)) for each in fields(value)})
        return value


def _texts_of(decision: CorpusDecision) -> Iterator[str]:
    yield decision.key
    for value in (decision.state, decision.event, *decision.events):
        if isinstance(value, Event):
            yield key_of(value) or ""
        for name in () if value is None else personal_fields(type(value)):
            text = getattr(value, name)
            if isinstance(text, str) and not is_plain(text):
                yield text
