"""Admission chain of the embedded API server."""
