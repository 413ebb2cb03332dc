"""Reprocessing: a service's history run again in a shadow, compared, then cut over."""
