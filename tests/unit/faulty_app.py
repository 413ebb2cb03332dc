"""An application that is wired wrongly, and commands that must fail."""

from collections.abc import Callable

Refused = Callable[..., str]

APP = """
from dataclasses import dataclass
from eventlib import Choreography, Decider, Event, Service

class Heard(Event, topic="t", key="k"):
    k: str

class Said(Event, topic="u", key="k"):
    k: str

@dataclass(frozen=True)
class State:
    pass

talker = Decider("talker", state=State, key="k")

@talker.on(Heard)
def answer(state: State, heard: Heard) -> list[Said]:
    return [Said(k=heard.k)]

app = Choreography("faulty", [Service("talk", deciders=[talker])])
other = 3
"""
