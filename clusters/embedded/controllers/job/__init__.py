"""The Job controller: Pods that run to completion, and the removal of Jobs whose time after that is over.

Source of orders, reasons and texts: kubernetes v1.37.2 `pkg/controller/job`, `pkg/controller/ttlafterfinished`.
"""

from clusters.embedded.controllers.job.controller import JobController
from clusters.embedded.controllers.job.ttl import TtlAfterFinishedController

__all__ = ["JobController", "TtlAfterFinishedController"]
