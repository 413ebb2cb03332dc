"""Manifests for clusters: topics, access rights, Kubernetes resources, made from a choreography.

It knows the model, contracts and settings, and writes no log. Begin with `topics`.
"""
