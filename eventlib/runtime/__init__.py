"""The runtime: read, decide, commit."""

from eventlib.runtime.loop import RuntimeConfig
from eventlib.runtime.runtime import Runtime

__all__ = ["Runtime", "RuntimeConfig"]
