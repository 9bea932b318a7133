"""Probes: how the server itself reads the performing system, one module per type (docs/probes.md)."""
