"""A process that pays out through a bank over HTTP, under a limit; tests run several of them on one log.

python -m tests.integration.limited_payer LOG BANK
"""

import asyncio
import signal
import sys

import httpx

from eventlib import Choreography, OutcomeUnknown, Runtime, Service, open_log
from eventlib.limits import Limit
from examples.payouts import PayoutSubmitted, payouts

LIMIT = Limit(per_second=38, burst=16, concurrent=16, key="customer_id")
desk = Choreography(
    "desk",
    [Service("payout", deciders=[payouts], effects="all", limits={"bank": LIMIT})],
    facts=[PayoutSubmitted],
)


class HttpBank:
    """A bank over HTTP; an answer that is not 200 is a failed attempt."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def transfer(self, payout_id: str, _amount_cents: int) -> None:
        await self._ask("transfer", payout_id)

    async def recall(self, payout_id: str) -> None:
        await self._ask("recall", payout_id)

    async def _ask(self, what: str, payout_id: str) -> None:
        answer = await self._client.get(f"/{what}", params={"id": payout_id})
        if answer.status_code != httpx.codes.OK:
            raise OutcomeUnknown(f"the bank answered {answer.status_code}")


async def main(url: str, bank: str) -> None:
    """Pay until SIGTERM comes."""
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    async with (
        httpx.AsyncClient(base_url=bank, trust_env=False, timeout=10) as client,
        open_log(url, desk) as log,
        Runtime(log, ports={"bank": HttpBank(client)}) as runtime,
    ):
        print("Running", file=sys.stderr, flush=True)
        failed = asyncio.create_task(runtime.failed())
        waiting = asyncio.create_task(ended.wait())
        done, _ = await asyncio.wait({failed, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if failed in done:
            await failed


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
