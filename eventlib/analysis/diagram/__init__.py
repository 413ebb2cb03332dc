"""Diagrams of a choreography, as Mermaid, DOT and SVG."""
