"""What kubelet, driver and container runtime speak: gRPC services, Unix sockets, CDI."""
