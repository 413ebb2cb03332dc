"""Asks an application's API, again where it does not answer at once."""

from collections.abc import Mapping
from time import sleep
from typing import Self

import httpx

from eventlib.config.settings import credentials
from eventlib.errors import ContractError, LogUnavailable
from eventlib.ground.http_client import sync_client
from eventlib.ground.url import refuse_userinfo

TRIES = 5
_PAUSE_S = 0.5
_TIMEOUT_S = 30.0


class ApiClient:
    """Asks an API over HTTP, with the credentials of the settings; `what` names it in messages."""

    def __init__(self, url: str, what: str, transport: httpx.BaseTransport | None = None) -> None:
        refuse_userinfo(url, "--api", f"{what} takes none")
        self._url, self._what = url.rstrip("/"), what
        self._client = sync_client(base_url=self._url, timeout=_TIMEOUT_S, transport=transport, headers=credentials())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connections."""
        self._client.close()

    def get(self, path: str, params: Mapping[str, str], *, may_lack: bool = False) -> httpx.Response:
        """Return an answer; `may_lack` accepts that there is nothing.

        Raises: LogUnavailable when the API does not answer; ContractError when it is another one.
        """
        problem = ""
        for left in reversed(range(TRIES)):
            try:
                answer = self._client.get(path, params=dict(params))
            except httpx.HTTPError as error:
                problem = str(error) or type(error).__name__
            else:
                if answer.is_success or (may_lack and answer.status_code == httpx.codes.NOT_FOUND):
                    return answer
                problem = f"{answer.status_code} {answer.text[:200]}"
                if answer.is_client_error:
                    raise ContractError(f"{self._url}{path} is not {self._what}: {problem}")
            if left:
                sleep(_PAUSE_S)
        raise LogUnavailable(f"{self._what} at {self._url} does not answer: {problem}")
