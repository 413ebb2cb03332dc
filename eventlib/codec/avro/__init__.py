"""Avro: schemas derived from event and state classes, and the converters between Python values and Avro data."""
