"""The four patch types and field management."""
