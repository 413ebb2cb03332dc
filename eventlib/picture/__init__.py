"""A choreography's picture: its events and what leads to them, as Mermaid, as DOT, and drawn as SVG."""
