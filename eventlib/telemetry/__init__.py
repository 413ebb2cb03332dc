"""Traces, metrics and structured logs: what a process tells those who look after it. Only here is OpenTelemetry known."""
