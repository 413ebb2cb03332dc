"""Invariants of every order: its steps, its money, its end, the status its customer sees, and that it is forgotten."""

from eventlib.invariants import invariant
from services.dispatch.decider import forgotten_at as shipment_forgotten_at
from services.dispatch.decider import shipments
from services.dispatch.state import Shipment
from services.invariants.story import Story, story
from services.order.decider import orders
from services.order.state import Order, Status
from services.payment.decider import forgotten_at as payment_forgotten_at
from services.payment.decider import payments
from services.payment.state import Payment
from services.stock.reservation import forgotten_at as reservation_forgotten_at
from services.stock.reservation import reservations
from services.stock.state import Reservation


@invariant(story)
def steps_happen_once(totals: Story) -> bool:
    """Every step of an order happens once, for each line where it has one."""
    once = (
        totals.placed,
        totals.stock_reserved,
        totals.stock_closed,
        totals.charges,
        totals.payment_answers,
        totals.compensations,
        totals.dispatches,
        totals.dispatched,
        totals.recalls,
        totals.called_off,
    )
    answered = totals.reserved + totals.refused
    by_line = (totals.requested, answered, totals.release_requested, totals.shipped)
    return max(once) <= 1 and max(by_line) <= totals.lines and totals.released <= totals.release_requested


@invariant(story)
def orders_end_once(totals: Story) -> bool:
    """An order that was placed ends once, completed or cancelled."""
    return totals.completed + totals.cancelled <= totals.placed


@invariant(story)
def money_is_conserved(totals: Story) -> bool:
    """Never is more money returned than was taken, nor more taken than the order's total."""
    return 0 <= totals.returned_cents <= totals.taken_cents <= totals.amount_cents


@invariant(story)
def charges_follow_stock(totals: Story) -> bool:
    """Nobody is charged without an order whose stock is set aside, nor after the payment was waived."""
    return totals.charges <= totals.stock_reserved <= totals.placed and not (totals.charges and totals.payment_waived)


@invariant(story)
def accepted_charges_are_confirmed(totals: Story) -> bool:
    """Money of a charge that the gateway only accepted counts as taken once the gateway has confirmed it."""
    return not (totals.payments_taken and totals.charges_accepted) or totals.charges_confirmed > 0


@invariant(story)
def accepted_bookings_are_collected(totals: Story) -> bool:
    """A parcel that the carrier only agreed to fetch counts as dispatched once the carrier says that it has it."""
    return not (totals.dispatched and totals.bookings_accepted) or bool(totals.collected or totals.recalls)


@invariant(story)
def cancelled_parcels_stay(totals: Story) -> bool:
    """No carrier is asked to bring an order that was cancelled in time."""
    return not (totals.dispatches and totals.called_off)


@invariant(story)
def completed_orders_are_whole(totals: Story) -> bool:
    """A completed order was dispatched, all its lines have left the shelves, and its total was taken and kept."""
    if not totals.completed:
        return True
    shipped = totals.shipped == totals.lines and totals.shipped_units == totals.units
    paid = totals.taken_cents == totals.amount_cents and totals.returned_cents == 0
    return totals.dispatched == 1 and shipped and paid and not totals.release_requested


@invariant(story)
def cancelled_orders_leave_nothing(totals: Story) -> bool:
    """A cancelled order gave back all that was set aside and all that was taken, and says why and how much."""
    if not totals.cancelled:
        return True
    answered = totals.reserved + totals.refused == totals.requested
    back = totals.released == totals.reserved and totals.released_units == totals.reserved_units and not totals.shipped
    repaid = totals.taken_cents == totals.returned_cents == totals.refunded_cents
    return answered and back and repaid and not totals.dispatched and totals.end_reason in totals.reasons


@invariant(story, at_rest=True)
def submitted_orders_are_placed(totals: Story) -> bool:
    """Every order that was submitted is placed."""
    return totals.placed > 0 or not totals.submitted


@invariant(story, at_rest=True)
def orders_come_to_an_end(totals: Story) -> bool:
    """Every order that was placed ends."""
    return totals.placed == totals.completed + totals.cancelled


@invariant(story, at_rest=True)
def wishes_are_answered(totals: Story) -> bool:
    """Who wished to cancel an order is told that it was too late, unless it is cancelled; nobody is told more often than asked."""
    answered = bool(totals.wishes_refused or totals.cancelled or not totals.wishes or not totals.placed)
    return answered and totals.wishes_refused <= totals.wishes + 1  # once more for the order's own deadline


@invariant(story, orders, at_rest=True)
def customers_are_told_the_truth(totals: Story, order: Order) -> bool:
    """What an order's customer is told is what happened."""
    if not totals.placed:
        return True
    ended_as = Status.COMPLETED if totals.completed else Status.CANCELLED
    money = (order.taken_cents, order.refunded_cents) == (totals.taken_cents, totals.returned_cents)
    return order.status is ended_as and money


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
