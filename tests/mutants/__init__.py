"""Broken drivers: the reference driver with one fault each, and the requirement that must catch it."""
