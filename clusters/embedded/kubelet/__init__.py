"""The embedded kubelet; its plugin half registers drivers and calls them."""
