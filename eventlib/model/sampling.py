"""Which sagas are traced: a share of all, decided by their ids where they begin, by OpenTelemetry's own variables."""

from typing import Annotated, Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from eventlib.ground.variables import read_settings
from eventlib.model.identity import SAMPLED_SHARE

_SHARES = {"parentbased_always_on": 1.0, "parentbased_always_off": 0.0}


class Sampling(BaseSettings):
    """OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG. Every sampler is parent based: a saga is traced whole, or not."""

    model_config = SettingsConfigDict(env_prefix="OTEL_", env_ignore_empty=True, frozen=True, extra="ignore")

    traces_sampler: Annotated[
        Literal["parentbased_traceidratio", "parentbased_always_on", "parentbased_always_off"],
        Field(description="parentbased_traceidratio, parentbased_always_on or parentbased_always_off"),
    ] = "parentbased_traceidratio"
    traces_sampler_arg: Annotated[
        float, Field(ge=0, le=1, description="the share of the sagas that are traced, each whole or not at all")
    ] = SAMPLED_SHARE

    @property
    def share(self) -> float:
        """The share of the sagas that are traced, 0 to 1."""
        return _SHARES.get(self.traces_sampler, self.traces_sampler_arg)


def traced_share() -> float:
    """Return the share of the sagas that begin in this process that are traced. Raises: SettingsError."""
    return read_settings(Sampling, {}, also=None).share
