"""What a process answers to those who ask whether it lives, and whether it can do without the one before it."""

import httpx


async def test_a_process_lives_from_the_start_and_is_ready_when_nothing_is_missing_any_more() -> None:
    from eventlib.telemetry.http import Measured

    lacks = "3 tasks are being restored"

    async def exposition() -> bytes:
        return b"figures"

    measured = Measured(exposition, lambda: lacks)
    transport = httpx.ASGITransport(measured)
    async with httpx.AsyncClient(transport=transport, base_url="http://process") as client:
        answers = [await client.get(path) for path in ("/healthz", "/readyz", "/metrics", "/")]
        assert [(answer.status_code, answer.text) for answer in answers[:3]] == [
            (200, "well\n"),
            (503, "3 tasks are being restored\n"),
            (200, "figures"),
        ]
        assert answers[3].status_code == 404
        lacks = ""
        assert (await client.get("/readyz")).status_code == 200
