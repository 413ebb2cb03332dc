"""Backups of a log in a file: made while services write, verified record by record, and put back."""
