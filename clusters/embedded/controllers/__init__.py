"""Controllers of the embedded control plane, each a component of its own."""
