"""Codecs: how events and states become bytes, and bytes become events again."""
