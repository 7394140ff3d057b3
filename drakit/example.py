"""The example that a new cluster comes with."""

from __future__ import annotations

_MANIFEST = """\
# A claim for one device, and a Pod whose container prints what it sees of it.
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata:
  name: one-device
spec:
  spec:
    devices:
      requests:
        - name: device
          exactly:
            deviceClassName: {device_class}
---
apiVersion: v1
kind: Pod
metadata:
  name: example
spec:
  restartPolicy: Never
  resourceClaims:
    - name: device
      resourceClaimTemplateName: one-device
  containers:
    - name: main
      image: busybox
      # It is on every node; without a tag it would be pulled.
      imagePullPolicy: IfNotPresent
      command: [probe]
      resources:
        claims:
          - name: device
"""


def manifest(device_class: str) -> str:
    """A claim template and a Pod that uses it, as YAML."""
    return _MANIFEST.format(device_class=device_class)
