"""Checks of a running cluster, through its API and without changing anything (docs/doctor.md)."""
