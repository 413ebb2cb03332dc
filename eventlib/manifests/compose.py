"""Outboxes, sinks and webhooks as services of Compose, in a file beside that of the application's own services.

What these have in their own file is in a file of variables here: `settings.env` has the log and who the process is, `NAME.env`
what is secret, as a ConfigMap and a Secret have on Kubernetes.
"""

from collections.abc import Iterable
from typing import Any

from eventlib.log.kafka.options import KafkaOptions
from eventlib.manifests.connectors import SUBSCRIBERS, ConnectorProgram
from eventlib.manifests.pods import METRICS, METRICS_HOST, connecting, stops_s

_READY = f"from urllib.request import urlopen; urlopen('http://127.0.0.1:{METRICS}/readyz', timeout=5)"


def connector_services(connectors: Iterable[ConnectorProgram], options: KafkaOptions) -> dict[str, Any]:
    """Return the file's content: each runs twice, and one takes over from the other."""
    found: dict[str, Any] = {"services": {}}
    for each in connectors:
        found["services"][each.name] = _service(each, options)
        if each.files:
            text = each.files[SUBSCRIBERS].replace("$", "$$")  # Compose puts variables in
            found.setdefault("configs", {})[each.name] = {"content": text}
    return found


def _service(connector: ConnectorProgram, options: KafkaOptions) -> dict[str, Any]:
    environment = {**connecting(connector).environment}
    del environment[METRICS_HOST]  # where others may ask for metrics, `settings.env` says who they are, too
    configs = [{"source": connector.name, "target": environment["EVENTLIB_WEBHOOKS"]}] if connector.files else []
    return {
        "image": f"{options.application}-services",
        "command": [*connector.command],
        "environment": environment,
        "env_file": ["settings.env", f"{connector.name}.env"],
        "configs": configs,
        "read_only": True,
        "tmpfs": ["/tmp"],  # noqa: S108  a container's own
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "init": True,
        "restart": "unless-stopped",
        "stop_grace_period": f"{stops_s()}s",
        "deploy": {"replicas": 2},
        "healthcheck": {
            "test": ["CMD", "python", "-c", _READY],
            "interval": "15s",
            "timeout": "10s",
            "retries": 4,
            "start_period": "60s",
        },
    }
