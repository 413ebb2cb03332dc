"""The shop's invariants: for each order, each product, and against the external systems."""

from services.invariants.ends import payments_are_forgotten, reservations_are_forgotten, shipments_are_forgotten
from services.invariants.orders import (
    accepted_bookings_are_collected,
    accepted_charges_are_confirmed,
    cancelled_orders_leave_nothing,
    cancelled_parcels_stay,
    charges_follow_stock,
    completed_orders_are_whole,
    customers_are_told_the_truth,
    money_is_conserved,
    orders_come_to_an_end,
    orders_end_once,
    steps_happen_once,
    submitted_orders_are_placed,
    wishes_are_answered,
)
from services.invariants.outside import the_carrier_agrees, the_gateway_agrees
from services.invariants.stock import (
    nothing_stays_set_aside,
    shelves_are_never_negative,
    shelves_hold_what_the_log_says,
    units_are_conserved,
)

INVARIANTS = (
    steps_happen_once,
    orders_end_once,
    money_is_conserved,
    charges_follow_stock,
    accepted_charges_are_confirmed,
    accepted_bookings_are_collected,
    cancelled_parcels_stay,
    completed_orders_are_whole,
    cancelled_orders_leave_nothing,
    submitted_orders_are_placed,
    orders_come_to_an_end,
    wishes_are_answered,
    customers_are_told_the_truth,
    units_are_conserved,
    nothing_stays_set_aside,
    shelves_are_never_negative,
    shelves_hold_what_the_log_says,
    the_gateway_agrees,
    the_carrier_agrees,
    reservations_are_forgotten,
    payments_are_forgotten,
    shipments_are_forgotten,
)
