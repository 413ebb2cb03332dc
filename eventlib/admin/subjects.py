"""The admin API's erasure of a person: shown before it is done, and refused when it would cover something else by then."""

from dataclasses import asdict
from typing import TYPE_CHECKING

from fastapi import FastAPI

from eventlib.admin.bodies import ActBody, Reason
from eventlib.codec.wire_format import FramedCodec
from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.http.gate import Caller
from eventlib.http.paths import KEY
from eventlib.identity.principal import Role, allow
from eventlib.operations.erasure import forget, preview_forget, refuse_changed

if TYPE_CHECKING:
    from eventlib.personal.store import KeyStore


class Forget(ActBody):
    """Why a person is erased. A dry run only tells what that would cover; `uncounted` counts no records."""

    reason: Reason
    uncounted: bool = False


def add_subjects(app: FastAPI, log: EventLog) -> None:
    """Add the route that erases a person."""

    @app.post(f"/subjects/{KEY}/forget")
    @allow(Role.OPERATOR)
    async def forget_subject(key: str, request: Forget, caller: Caller) -> dict[str, object]:
        """Erase a person: destroy the key of their personal data, and return the receipt."""
        store, count = _key_store(log), not request.uncounted
        if request.dry_run:
            seen = await preview_forget(log.port, store, key, count=count)
            return {"done": False, **asdict(seen), "as_previewed": seen.token}
        await refuse_changed(log.port, store, key, request.as_previewed, count=count)
        return {"done": True, **asdict(await forget(log.port, store, key, request.reason, caller.by, count=count))}


def _key_store(log: EventLog) -> "KeyStore":
    from eventlib.personal.ring import KeyRing, StoreMask  # it needs the package cryptography

    cipher = log.codec.personal if isinstance(log.codec, FramedCodec) else None
    if isinstance(cipher, KeyRing | StoreMask):
        return cipher.store
    raise ContractError(
        "this process knows no keys of personal data: the application has no personal fields, or no service had written "
        "any when it started; start it again then, or use `eventlib forget` beside the keys"
    )
