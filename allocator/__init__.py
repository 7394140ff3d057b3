"""Structured allocator of DRA devices."""
