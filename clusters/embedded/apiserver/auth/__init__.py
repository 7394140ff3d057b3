"""Authentication and authorization of the embedded API server."""
