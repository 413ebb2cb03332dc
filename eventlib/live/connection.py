"""How Faust reaches the log: with the brokers, names and security that everything else has."""

from dataclasses import dataclass
from typing import Any

import faust
from faust.types.auth import CredentialsT
from yarl import URL

from eventlib.errors import WiringError
from eventlib.log.kafka.options import KafkaOptions, parse_url
from eventlib.log.kafka.security import connection_arguments, warn_of_plaintext_brokers

_NOBODY = (
    "localhost:9092",
)  # Faust wants a broker's name as soon as views are imported, and calls none until they start


@dataclass(frozen=True, slots=True)
class Connection:
    """Where an app finds the log; `refusal` is why it cannot, for a log that is not on Kafka."""

    url: str
    brokers: tuple[str, ...]
    options: KafkaOptions
    refusal: str | None = None

    def physical(self, topic: str) -> str:
        """Return what a topic is called on the cluster."""
        return self.options.prefix + topic

    def logical(self, topic: str) -> str:
        """Return what a topic of the cluster is called by everybody here."""
        return topic.removeprefix(self.options.prefix)

    def settings(self) -> dict[str, Any]:
        """Return Faust's settings for this place."""
        return {
            "broker": [URL(f"kafka://{each}") for each in self.brokers or _NOBODY],
            "broker_credentials": self._credentials(),
            "broker_session_timeout": self.options.session_timeout_s,
            "broker_heartbeat_interval": self.options.session_timeout_s / 6,
        }

    def _credentials(self) -> CredentialsT | None:
        """Return who we are, to Faust. Raises: WiringError when a certificate cannot be read."""
        options, arguments = self.options, connection_arguments(self.options)
        warn_of_plaintext_brokers(options, [each.rpartition(":")[0] for each in self.brokers])
        context = arguments["ssl_context"]
        if options.sasl == "OAUTHBEARER":
            return faust.OAuthCredentials(oauth_cb=arguments["sasl_oauth_token_provider"], ssl_context=context)
        if options.sasl is not None:
            return faust.SASLCredentials(
                mechanism=options.sasl,
                username=arguments["sasl_plain_username"],
                password=arguments["sasl_plain_password"],
                ssl_context=context,
            )
        return None if context is None else faust.SSLCredentials(context)


def connection_to(url: str | None) -> Connection:
    """Return how a log is reached. Raises: WiringError, and its SettingsError, for a URL or setting that is wrong."""
    if url is None or not url.startswith("kafka:"):
        shown = url or "sqlite:///var/APP.db"
        reason = (
            f"live views need a log on Kafka, and {shown} is not: give --log kafka://host:port, or set EVENTLIB_LOG; "
            f"`eventlib broker start` runs one here, and `eventlib copy --from {shown}` takes the log there"
        )
        return Connection(url or "", (), KafkaOptions(), reason)
    brokers, options = parse_url(url)
    return Connection(url, tuple(brokers), options)


def refuse_elsewhere(url: str) -> None:
    """Refuse a log that is not on Kafka. Raises: WiringError."""
    if (reason := connection_to(url).refusal) is not None:
        raise WiringError(reason)
