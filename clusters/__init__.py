"""Clusters behind one interface, driver descriptors, and the two proxies."""
