"""Traces, metrics and structured logs: what a process reports to its operators. Only this package imports OpenTelemetry.

It knows the runtime and what goes out, and neither knows it. Begin with `catalogue`, the list of all metrics.
"""
