"""How an API server is reached: the credentials of kubeconfigs, and the HTTP proxies of their clients."""
