"""Custom services, as README shows them."""
