"""The outside world, simulated: a gateway and a carrier with faults on demand, and a ledger of what really happened."""

from services.simulation.carrier import SimulatedCarrier
from services.simulation.faults import CarrierFaults, Faults, GatewayFaults
from services.simulation.gateway import SimulatedGateway
from services.simulation.ledger import Ledger, LedgerConflict

__all__ = [
    "CarrierFaults",
    "Faults",
    "GatewayFaults",
    "Ledger",
    "LedgerConflict",
    "SimulatedCarrier",
    "SimulatedGateway",
]
