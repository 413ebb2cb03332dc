"""Stock: shelves with units on them, reserved for whole orders or not at all."""

from eventlib import Service
from services.stock.reservation import reservations
from services.stock.shelf import deliveries, shelves

service = Service("stock", deciders=[shelves, reservations, deliveries], effects="all")
