"""One module per kind of request."""
