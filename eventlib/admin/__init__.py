"""An HTTP API for operators: how services stand, what is parked, and what to do about it. Off without a token."""

from eventlib.admin.app import create_admin

__all__ = ["create_admin"]
