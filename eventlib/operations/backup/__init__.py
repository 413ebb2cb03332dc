"""Backups of an embedded log: taken while services write, verified record by record, and restored."""
