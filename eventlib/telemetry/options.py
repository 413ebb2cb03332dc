"""What is set from outside: OpenTelemetry's own variables, where it has one.

| variable | means |
|---|---|
| OTEL_TRACES_EXPORTER | `otlp`, `console` or `none` (the default): where spans go; `OTEL_EXPORTER_OTLP_…` say how |
| OTEL_TRACES_SAMPLER_ARG | the share of the sagas that are traced, 0 to 1; see `eventlib.sampling` |
| OTEL_EXPORTER_PROMETHEUS_PORT, …_HOST | where `eventlib run` serves metrics, as `--metrics-port` does |
| OTEL_RESOURCE_ATTRIBUTES | what all spans and metrics say of this process |
| OTEL_SDK_DISABLED | true: no spans, no metrics |
"""

from typing import Annotated, Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from eventlib.variables import read_settings

Exporter = Literal["otlp", "console", "none"]


class TelemetryOptions(BaseSettings):
    """What a process tells, and to whom."""

    model_config = SettingsConfigDict(env_prefix="OTEL_", env_ignore_empty=True, frozen=True, extra="ignore")

    sdk_disabled: bool = False
    traces_exporter: Exporter = "none"
    exporter_prometheus_host: str = "127.0.0.1"
    exporter_prometheus_port: Annotated[int, Field(ge=0, le=65_535)] | None = None

    @property
    def traces(self) -> bool:
        """Whether spans go anywhere."""
        return self.traces_exporter != "none" and not self.sdk_disabled

    @property
    def metrics_place(self) -> str | None:
        """Where metrics are served, as HOST:PORT; None: nowhere."""
        host, port = self.exporter_prometheus_host, self.exporter_prometheus_port
        return None if port is None or self.sdk_disabled else f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def telemetry_options() -> TelemetryOptions:
    """Return the options as the environment has them. Raises: SettingsError."""
    return read_settings(TelemetryOptions, {}, also=None)
