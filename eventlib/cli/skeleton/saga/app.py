"""The application: all services that share its log, the outside world, and the HTTP API."""

from eventlib import Choreography

from . import service
from .api import create_app
from .effects import open_bank

app = Choreography("thing", [service], ports=open_bank, http=create_app)
