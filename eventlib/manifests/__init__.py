"""Manifests for clusters: topics, access rights, Kubernetes resources."""
