"""Webhooks: HTTP requests that carry an event, signed by their sender."""
