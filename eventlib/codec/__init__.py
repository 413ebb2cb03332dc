"""Codecs: how events and states become bytes, and bytes become events again.

It knows the model, the log's records, personal data's ciphers and the registry. Begin with `wire_format`, then `avro`.
"""
