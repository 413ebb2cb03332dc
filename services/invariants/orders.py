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
def steps_happen_once(told: Story) -> bool:
    """Every step of an order happens once, for each line where it has one."""
    once = (
        told.placed,
        told.stock_reserved,
        told.stock_closed,
        told.charges,
        told.payment_answers,
        told.compensations,
        told.dispatches,
        told.dispatched,
        told.recalls,
        told.called_off,
    )
    answered = told.reserved + told.refused
    by_line = (told.requested, answered, told.release_requested, told.shipped)
    return max(once) <= 1 and max(by_line) <= told.lines and told.released <= told.release_requested


@invariant(story)
def orders_end_once(told: Story) -> bool:
    """An order that was placed ends once, completed or cancelled."""
    return told.completed + told.cancelled <= told.placed


@invariant(story)
def money_is_conserved(told: Story) -> bool:
    """Never is more money returned than was taken, nor more taken than the order's total."""
    return 0 <= told.returned_cents <= told.taken_cents <= told.amount_cents


@invariant(story)
def charges_follow_stock(told: Story) -> bool:
    """Nobody is charged without an order whose stock is set aside, nor after the payment was waived."""
    return told.charges <= told.stock_reserved <= told.placed and not (told.charges and told.payment_waived)


@invariant(story)
def accepted_charges_are_confirmed(told: Story) -> bool:
    """Money of a charge that the gateway only accepted counts as taken once the gateway has confirmed it."""
    return not (told.payments_taken and told.charges_accepted) or told.charges_confirmed > 0


@invariant(story)
def accepted_bookings_are_collected(told: Story) -> bool:
    """A parcel that the carrier only agreed to fetch counts as dispatched once the carrier says that it has it."""
    return not (told.dispatched and told.bookings_accepted) or bool(told.collected or told.recalls)


@invariant(story)
def cancelled_parcels_stay(told: Story) -> bool:
    """No carrier is asked to bring an order that was cancelled in time."""
    return not (told.dispatches and told.called_off)


@invariant(story)
def completed_orders_are_whole(told: Story) -> bool:
    """A completed order was dispatched, all its lines have left the shelves, and its total was taken and kept."""
    if not told.completed:
        return True
    shipped = told.shipped == told.lines and told.shipped_units == told.units
    paid = told.taken_cents == told.amount_cents and told.returned_cents == 0
    return told.dispatched == 1 and shipped and paid and not told.release_requested


@invariant(story)
def cancelled_orders_leave_nothing(told: Story) -> bool:
    """A cancelled order gave back all that was set aside and all that was taken, and says why and how much."""
    if not told.cancelled:
        return True
    answered = told.reserved + told.refused == told.requested
    back = told.released == told.reserved and told.released_units == told.reserved_units and not told.shipped
    repaid = told.taken_cents == told.returned_cents == told.refunded_cents
    return answered and back and repaid and not told.dispatched and told.end_reason in told.reasons


@invariant(story, at_rest=True)
def submitted_orders_are_placed(told: Story) -> bool:
    """Every order that was submitted is placed."""
    return told.placed > 0 or not told.submitted


@invariant(story, at_rest=True)
def orders_come_to_an_end(told: Story) -> bool:
    """Every order that was placed ends."""
    return told.placed == told.completed + told.cancelled


@invariant(story, at_rest=True)
def wishes_are_answered(told: Story) -> bool:
    """Who wished to cancel an order is told that it was too late, unless it is cancelled; nobody is told more often than asked."""
    answered = bool(told.wishes_refused or told.cancelled or not told.wishes or not told.placed)
    return answered and told.wishes_refused <= told.wishes + 1  # once more for the order's own deadline


@invariant(story, orders, at_rest=True)
def customers_are_told_the_truth(told: Story, order: Order) -> bool:
    """What an order's customer is told is what happened."""
    if not told.placed:
        return True
    ended_as = Status.COMPLETED if told.completed else Status.CANCELLED
    money = (order.taken_cents, order.refunded_cents) == (told.taken_cents, told.returned_cents)
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
