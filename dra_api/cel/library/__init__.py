"""The function libraries of the environment, one module each: declarations and implementations together."""
