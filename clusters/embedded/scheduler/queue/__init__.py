"""Pods that wait to be scheduled."""
