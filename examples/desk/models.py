"""What the desk keeps."""

from django.db import models


class Customer(models.Model):
    """A customer, and what was ordered of the limit."""

    id = models.TextField(primary_key=True)
    limit_cents = models.BigIntegerField()
    spent_cents = models.BigIntegerField(default=0)
