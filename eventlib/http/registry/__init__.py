"""The registry as a server: Confluent's REST API over HTTP."""
