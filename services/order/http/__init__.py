"""The parts of the order API; `services.order.api` puts them together."""
