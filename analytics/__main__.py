"""Runs `python -m analytics`."""

from analytics.cli import main

main()
