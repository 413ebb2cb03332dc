"""The shop after a busy day."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from services.simulation.faults import CarrierFaults, GatewayFaults
from tests.saga.planting import CANCELLED, MANY
from tests.saga.running import RunningShop, running_shop


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[RunningShop]:
    """Return the shop after a busy day: declined, undeliverable, unanswered and cancelled orders, and a restart."""
    async with running_shop("memory://", tmp_path) as running:
        running.set_faults(GatewayFaults(decline=0.2, lost=0.2), CarrierFaults(undeliverable=0.3))
        async with running.services():
            await running.submit(*MANY[:12])
            for order_id in CANCELLED:
                await running.cancel(order_id)
        async with running.services() as runtime:
            await running.submit(*MANY[12:])
            await runtime.idle()
        yield running
