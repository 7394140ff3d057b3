"""Plugins other than DynamicResources, one a module, under their upstream names."""
