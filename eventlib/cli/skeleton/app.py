"""The application: every service that runs on its log."""

from eventlib import Choreography

from . import service

app = Choreography("thing", [service])
