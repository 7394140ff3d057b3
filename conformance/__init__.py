"""Requirement catalogue, suites, runner and reports."""
