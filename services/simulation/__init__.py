"""Simulated gateway and carrier with configurable faults, and a ledger of every call that took effect."""
