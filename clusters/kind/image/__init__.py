"""Images of kind clusters: that of the nodes, and those that containers of tests are started from."""

from clusters.kind.image.node import build_image, node_image
from clusters.kind.image.probe import PROBE_IMAGES, probe_archive

__all__ = ["PROBE_IMAGES", "build_image", "node_image", "probe_archive"]
