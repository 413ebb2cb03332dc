"""What errors mean to operators, in the admin API and in the console."""

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError

from eventlib.errors import ContractError, EventlibError, UndecodableRecord, WiringError
from eventlib.http.problems import RETRY_AFTER_S, Refusal, problem, refusal_of, try_later
from eventlib.identity.principal import IdentityUnavailable
from eventlib.operations.act import Ambiguous, NotThere
from eventlib.personal.base import NoRight


def answer_errors(app: FastAPI) -> None:
    """Answer errors as problems: 404 for what is not there, 422 for what does not fit, 503 where the outcome is unknown.

    403 is for personal data that this process may not write.
    """

    async def answer(_request: Request, error: Exception) -> Response:
        return problem(_refusal(error), None)

    for kind in (HTTPException, RequestValidationError, EventlibError, TimeoutError):
        app.add_exception_handler(kind, answer)


def _refusal(error: Exception) -> Refusal:
    match error:
        case IdentityUnavailable():
            return try_later("identity-unavailable", "the identity provider is out of reach: try again")
        case NoRight():
            code = 403
        case WiringError() | NotThere():
            code = 404
        case Ambiguous():
            code = 409
        case ContractError() if not isinstance(error, UndecodableRecord):
            code = 422
        case EventlibError() | TimeoutError():
            detail = str(error) or "the log did not answer in time"
            return Refusal(503, "", detail, headers={"Retry-After": str(RETRY_AFTER_S)})
        case _:
            return refusal_of(error)
    return Refusal(code, "", str(error))
