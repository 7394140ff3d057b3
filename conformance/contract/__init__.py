"""Requirements on a driver's own sockets, with the kit playing kubelet."""
