"""Broken components of the embedded cluster, one module for each component."""
