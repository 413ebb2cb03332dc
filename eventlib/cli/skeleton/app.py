"""The application: all services that share its log."""

from eventlib import Choreography

from . import service

app = Choreography("thing", [service])
