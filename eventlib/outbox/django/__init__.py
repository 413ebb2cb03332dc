"""What Django finds of the outbox: add "eventlib.outbox.django" to INSTALLED_APPS, and migrate."""
