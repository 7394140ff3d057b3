"""Admission policies: what they match, their parameters, and the evaluation of their expressions."""
