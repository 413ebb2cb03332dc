"""The Django application that brings the outbox's table."""

from django.apps import AppConfig


class OutboxConfig(AppConfig):
    """Its migration makes the table."""

    name = "eventlib.outbox.django"
    label = "eventlib_outbox"
    verbose_name = "eventlib outbox"
