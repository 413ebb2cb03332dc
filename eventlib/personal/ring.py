"""The key ring: the cipher of processes with the right to personal data, and the mask of those without it."""

from base64 import urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from secrets import token_bytes
from time import monotonic, time_ns
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from eventlib.errors import ContractError, WiringError
from eventlib.model.personal import ERASED, MASKED
from eventlib.personal.base import PREFIX, FieldCipher, Mask, is_ciphertext
from eventlib.personal.cipher import DataKey, sealed_bytes
from eventlib.personal.master import MasterKey
from eventlib.personal.store import KEY_BYTES, KEY_ID_BYTES, NONCE_BYTES, KeyRow, KeyStore, new_row

_RING_BYTES = 32
_CACHED = 20_000
_TEXTS = 5_000
"""How many values are kept encrypted, and texts decrypted."""
_ASK_EVERY_S = 0.05
"""How long a destroyed key may stay in use in another process."""


class KeyRing(FieldCipher):
    """Encrypts and decrypts with the keys of a store.

    Guarantee: a subject that was erased stays erased: new text under it is written as `ERASED`. Another process's erasure
    takes effect here within 50 ms and one question to the store; while that is out of reach, nothing is encrypted or decrypted
    after those 50 ms. With `create=False` it makes no key for a subject that has none.
    """

    def __init__(self, store: KeyStore, master: MasterKey, *, create: bool) -> None:
        self.store = store
        self._drops = list[Callable[[], object]]()
        self._create = create
        self._aead = AESGCM(_ring_key(store, master, create=create))
        self._of_subject: OrderedDict[str, DataKey | None] = OrderedDict()
        self._of_id: OrderedDict[bytes, DataKey | None] = OrderedDict()
        self._encrypted = dict[tuple[str, tuple[str, ...], tuple[str | None, ...]], Mapping[str, str]]()
        self._decrypted = dict[str, str]()
        self._watch = _Watch(store, store.erasures())

    def encrypt(self, subject: str, field: str, text: str) -> str:
        """See `FieldCipher.encrypt`."""
        self._look()
        try:
            key = self._of_subject[subject]
        except KeyError:
            key = self._key_of(subject)
        return ERASED if key is None else key.encrypt(field, text)

    def encrypt_all(self, subject: str, fields: tuple[str, ...], texts: tuple[str | None, ...]) -> Mapping[str, str]:
        """See `FieldCipher.encrypt_all`; the same texts are encrypted once, since a state is written again and again."""
        self._look()
        asked = subject, fields, texts
        known = self._encrypted.get(asked)
        if known is None:
            known = super().encrypt_all(subject, fields, texts)
            _remember(self._encrypted, asked, known)
        return known

    def prepare(self, subjects: Iterable[str]) -> None:
        """See `FieldCipher.prepare`."""
        new = [each for each in dict.fromkeys(subjects) if each not in self._of_subject]
        if new and self._create:
            for row in self.store.add_all([self._new_row(each) for each in new]):
                self._keep(row)

    def decrypt(self, text: str, subject: str | None = None) -> str:
        """See `FieldCipher.decrypt`."""
        if not is_ciphertext(text):
            return ERASED if subject and self._is_erased(subject) else text
        self._look()
        known = self._decrypted.get(text)
        if known is None:
            known = self._opened(text)
            _remember(self._decrypted, text, known)
        return known

    def _is_erased(self, subject: str) -> bool:
        self._look()
        if subject not in self._of_subject:
            row = self.store.of_subject(subject)
            return row is not None and self._keep(row) is None
        return self._of_subject[subject] is None

    def _opened(self, text: str) -> str:
        sealed = sealed_bytes(text)
        key_id = sealed[:KEY_ID_BYTES]
        try:
            key = self._of_id[key_id]
        except KeyError:
            row = self.store.of_id(key_id)
            if row is None:
                raise ContractError(f"a personal field needs a key that is not in {self.store.name}") from None
            key = self._keep(row)
        return ERASED if key is None else key.decrypt(sealed)

    def on_erasure(self, call: Callable[[], object]) -> None:
        """See `FieldCipher.on_erasure`."""
        self._drops.append(call)

    def close(self) -> None:
        """Forget the keys, and close the store."""
        for each in (self._of_subject, self._of_id, self._encrypted, self._decrypted):
            each.clear()
        self.store.close()

    def _key_of(self, subject: str) -> DataKey | None:
        row = self.store.of_subject(subject)
        if row is None:
            if not self._create:
                raise ContractError(f"subject {subject!r} has no key, and a reader makes none")
            (row,) = self.store.add_all([self._new_row(subject)])
        return self._keep(row)

    def _new_row(self, subject: str) -> KeyRow:
        row, nonce = new_row(subject), token_bytes(NONCE_BYTES)
        return row._replace(wrapped=nonce + self._aead.encrypt(nonce, token_bytes(KEY_BYTES), _bound_to(row)))

    def _keep(self, row: KeyRow) -> DataKey | None:
        key = None
        if row.erased_ms is None:
            nonce, body = row.wrapped[:NONCE_BYTES], row.wrapped[NONCE_BYTES:]
            try:
                secret = self._aead.decrypt(nonce, body, _bound_to(row))
            except InvalidTag as error:
                raise ContractError(f"the key of subject {row.subject!r} in {self.store.name} is damaged") from error
            key = DataKey(row.id, secret)
        self._of_subject[row.subject] = self._of_id[row.id] = key
        while len(self._of_subject) > _CACHED:
            self._of_subject.popitem(last=False)
        while len(self._of_id) > _CACHED:
            self._of_id.popitem(last=False)
        return key

    def _look(self) -> None:
        if monotonic() >= self._watch.due:
            self.drop_erased()

    def drop_erased(self) -> None:
        """Drop the keys that were destroyed, now."""
        erased = self._watch.new()
        if not erased:
            return
        for subject, key_id in erased:
            self._of_subject[subject] = self._of_id[key_id] = None
        self._encrypted.clear()
        self._decrypted.clear()
        for call in self._drops:
            call()


class _Watch:
    """Notices the erasures in a store: it is to be asked again when that is due, before a key is used."""

    def __init__(self, store: KeyStore, seen: int) -> None:
        self.due = 0.0
        self._store = store
        self._seen = seen

    def new(self) -> list[tuple[str, bytes]]:
        """Return the subjects and key ids that were erased since the last call."""
        now = monotonic()
        last = self._store.erasures()
        found = [] if last == self._seen else self._store.erased_after(self._seen)
        self._seen, self.due = last, now + _ASK_EVERY_S  # only now that the store has answered
        return found


def _bound_to(row: KeyRow) -> bytes:
    """Return what a wrapped key is bound to: it does not open under another id or subject."""
    return row.id + row.subject.encode()


def _remember(texts: dict[Any, Any], key: object, text: object) -> None:
    if len(texts) >= _TEXTS:
        texts.clear()
    texts[key] = text


class StoreMask(Mask):
    """Shows `MASKED` in the stead of personal text, and `ERASED` where the store has an erasure; needs no master key."""

    def __init__(self, store: KeyStore) -> None:
        self.store = store
        self._watch = _Watch(store, 0)
        self._subjects, self._ids = set[str](), set[bytes]()

    def decrypt(self, text: str, subject: str | None = None) -> str:
        """See `FieldCipher.decrypt`."""
        if text == ERASED:
            return text
        if monotonic() >= self._watch.due:
            for gone, key_id in self._watch.new():
                self._subjects.add(gone)
                self._ids.add(key_id)
        if is_ciphertext(text):
            return ERASED if sealed_bytes(text)[:KEY_ID_BYTES] in self._ids else MASKED
        return ERASED if subject in self._subjects else MASKED

    def close(self) -> None:
        """Close the store."""
        self.store.close()


def marker_of(key_id: bytes) -> bytes:
    """Return how each ciphertext of a key begins, in bytes: a scan finds a subject's records by it without a key."""
    return (PREFIX + urlsafe_b64encode(key_id).decode()).encode()


def erase(store: KeyStore, subject: str, at_ms: int | None = None) -> bool:
    """Destroy a subject's key; return whether it had one. It needs no master key.

    Guarantee: as `KeyStore.erase`; a subject without a key is erased, too, so that none is made for it later.
    """
    return store.erase(new_row(subject), time_ns() // 1_000_000 if at_ms is None else at_ms)


def _ring_key(store: KeyStore, master: MasterKey, *, create: bool) -> bytes:
    wrapped = store.ring()
    if wrapped is None:
        if not create:
            raise WiringError(f"the personal keys at {store.name} have not been used yet: start a service first")
        store.set_ring(master.wrap(token_bytes(_RING_BYTES)))
        wrapped = store.ring()
        assert wrapped is not None  # noqa: S101  it was stored a moment ago
    return master.unwrap(wrapped)
