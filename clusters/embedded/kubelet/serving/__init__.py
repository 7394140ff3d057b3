"""What a kubelet serves: logs and metrics over HTTPS, the Pod resources API on a Unix socket."""
