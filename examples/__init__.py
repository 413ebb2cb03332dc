"""Services of one's own, as README shows them."""
