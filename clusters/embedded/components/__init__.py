"""What all components of an embedded control plane are built on: client, informer, work queue, events, host."""
