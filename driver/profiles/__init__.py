"""Device profiles of the reference driver."""
