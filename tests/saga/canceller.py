"""Wishes to cancel orders over HTTP: `python canceller.py URL SEED SPREAD_S ORDER_ID…`.

Every other one as soon as it is known, the rest at random moments. Insists until each has an answer, whoever is away
meanwhile, and prints the answers as one JSON object.
"""

import asyncio
import json
import sys
from random import Random

import httpx

LONGEST_S = 120.0
PAUSE_S = 0.05
NOT_YET = {404, 503}


async def cancel(client: httpx.AsyncClient, order_id: str, after_s: float) -> int:
    """Return the status of the answer; 0 when there was none for a minute."""
    await asyncio.sleep(after_s)
    deadline = asyncio.get_running_loop().time() + LONGEST_S
    while asyncio.get_running_loop().time() < deadline:
        try:
            answer = await client.post(f"/orders/{order_id}/cancel")
        except httpx.TransportError:
            await asyncio.sleep(PAUSE_S)
            continue
        if answer.status_code not in NOT_YET:
            return answer.status_code
        await asyncio.sleep(PAUSE_S)
    return 0


async def main() -> None:
    """Cancel all of them."""
    url, seed, spread_s, *order_ids = sys.argv[1:]
    random = Random(int(seed))
    async with httpx.AsyncClient(base_url=url, timeout=15, trust_env=False) as client:
        moments = [random.uniform(0, float(spread_s)) * (n % 2) for n, _ in enumerate(order_ids)]
        statuses = await asyncio.gather(*map(cancel, [client] * len(order_ids), order_ids, moments))
    print(json.dumps(dict(zip(order_ids, statuses, strict=True))))


if __name__ == "__main__":
    asyncio.run(main())
