"""What is set from outside: OpenTelemetry's own variables, where it has one."""

from typing import Annotated, Literal

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from eventlib.ground.url import no_userinfo
from eventlib.ground.variables import read_settings

Exporter = Literal["otlp", "console", "none"]


class TelemetryOptions(BaseSettings):
    """What a process exports, and where to."""

    model_config = SettingsConfigDict(env_prefix="OTEL_", env_ignore_empty=True, frozen=True, extra="ignore")

    sdk_disabled: Annotated[bool, Field(description="no spans, no metrics")] = False
    traces_exporter: Annotated[Exporter, Field(description="where spans go: otlp, console or none")] = "none"
    exporter_prometheus_host: Annotated[str, Field(description="the address at which metrics are served")] = "127.0.0.1"
    exporter_prometheus_port: Annotated[
        Annotated[int, Field(ge=0, le=65_535)] | None,
        Field(
            description="the port at which `eventlib run` and `eventlib live` serve metrics, as their --metrics-port does"
        ),
    ] = None

    @property
    def traces(self) -> bool:
        """Whether spans go anywhere."""
        return self.traces_exporter != "none" and not self.sdk_disabled

    @property
    def metrics_place(self) -> str | None:
        """Where metrics are served, as HOST:PORT; None: nowhere."""
        host, port = self.exporter_prometheus_host, self.exporter_prometheus_port
        return None if port is None or self.sdk_disabled else f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class SdkVariables(BaseSettings):
    """What OpenTelemetry's SDK reads by itself, of which it has more: they are declared here, and used there."""

    model_config = SettingsConfigDict(env_prefix="OTEL_", env_ignore_empty=True, frozen=True, extra="ignore")

    exporter_otlp_endpoint: Annotated[
        str, no_userinfo("set OTEL_EXPORTER_OTLP_HEADERS"), Field(description="where spans go by OTLP over HTTP")
    ] = "http://localhost:4318"
    exporter_otlp_headers: Annotated[SecretStr | None, Field(description="headers of these requests: name=value,…")] = (
        None
    )
    exporter_otlp_certificate: Annotated[str | None, Field(description="a PEM file of authorities to trust there")] = (
        None
    )
    resource_attributes: Annotated[
        str, Field(description="attributes of all spans and metrics of this process: name=value,…")
    ] = ""


def telemetry_options() -> TelemetryOptions:
    """Return the options as the environment has them. Raises: SettingsError."""
    return read_settings(TelemetryOptions, {}, also=None)
