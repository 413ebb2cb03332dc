"""Parked inputs: how they are kept, released, edited and discarded."""
