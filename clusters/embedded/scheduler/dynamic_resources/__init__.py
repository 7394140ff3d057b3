"""The plugin DynamicResources: devices for the claims of pods (components section 2)."""
