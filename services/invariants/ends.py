"""Invariants of state retention: every service forgets an order in the end."""

from eventlib.invariants import invariant
from services.dispatch.decider import forgotten_at as shipment_forgotten_at
from services.dispatch.decider import shipments
from services.dispatch.state import Shipment
from services.payment.decider import forgotten_at as payment_forgotten_at
from services.payment.decider import payments
from services.payment.state import Payment
from services.stock.reservation import forgotten_at as reservation_forgotten_at
from services.stock.reservation import reservations
from services.stock.state import Reservation


@invariant(reservations, at_rest=True)
def reservations_are_forgotten(reservation: Reservation) -> bool:
    """A reservation that is known when nothing is in flight has a day on which it is forgotten."""
    return reservation == Reservation() or reservation_forgotten_at(reservation) is not None


@invariant(payments, at_rest=True)
def payments_are_forgotten(payment: Payment) -> bool:
    """A payment that is known when nothing is in flight has a day on which it is forgotten."""
    return payment == Payment() or payment_forgotten_at(payment) is not None


@invariant(shipments, at_rest=True)
def shipments_are_forgotten(shipment: Shipment) -> bool:
    """A shipment that is known when nothing is in flight has a day on which it is forgotten."""
    return shipment == Shipment() or shipment_forgotten_at(shipment) is not None
