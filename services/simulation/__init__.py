"""Simulated gateway and carrier with configurable faults, and a ledger of every call that took effect."""

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
