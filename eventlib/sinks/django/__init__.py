"""The inbox of a Django application: events are taken within Django's own transactions."""
