"""Traces, metrics and structured logs: what a process reports to its operators. Only here is OpenTelemetry known."""
