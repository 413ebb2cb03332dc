"""On a log of the shop with parked orders: each preview is what then happens, whichever service, decider and act."""

from pathlib import Path

from eventlib.queries.parked import parkings, waiting_inputs
from services.payment.decider import payments
from services.payment.events import PaymentTaken
from services.stock.events import LineReserved
from services.stock.reservation import reservations
from tests.integration.test_parked_previews import contents, facts
from tests.operators import preview_discards, preview_retries, request_discard, request_retries
from tests.saga.eventful import bug
from tests.saga.running import running_shop

KEYS = [f"bug-{n}" for n in range(6)]


async def test_retries_and_discards_of_the_shop_are_what_was_previewed(tmp_path: Path) -> None:
    async with running_shop(f"sqlite:///{tmp_path}/log.db", tmp_path) as running:
        with bug(payments, PaymentTaken, KEYS[:3]), bug(reservations, LineReserved, KEYS[3:]):
            async with running.services() as runtime:
                await running.submit(*KEYS)
                await runtime.idle()
                await running.cancel(KEYS[1])
                await runtime.idle()
        log = running.log
        found = await parkings(log)
        given_up = [each for each in found if each.key in {KEYS[2], KEYS[5]}]
        tried = [each for each in found if each not in given_up]
        causes = {each.name: {w.record.event_id for w in await waiting_inputs(log, each)} for each in found}
        before = await contents(log)
        seen = [*await preview_retries(log, tried), *await preview_discards(log, given_up)]
        assert await contents(log) == before
        assert {each.parking.service for each in seen} == {"payment", "stock"}
        assert {each.prospect for each in seen} == {"is handled", "is discarded"}
        await request_retries(log, tried, "a test")
        for each in given_up:
            await request_discard(log, each, "a test", "a test order")
        async with running.services() as runtime:
            await runtime.idle()
        after = await contents(log)
        new = [each for topic, records in after.items() for each in records if each not in before.get(topic, ())]
        for preview in seen:
            source = f"{preview.parking.service}/{preview.parking.decider}"
            of_it = [
                each for each in new if each.source == source and each.causation_id in causes[preview.parking.name]
            ]
            emitted = [each for each in of_it if not each.topic.endswith((".changelog", ".latest"))]
            assert facts(preview.records) == facts(emitted)
        assert any(preview.records for preview in seen)
