"""The Deployment controller: ReplicaSets for templates, rolled out step by step.

Source of orders, reasons and texts: kubernetes v1.37.2 `pkg/controller/deployment`.
"""

from clusters.embedded.controllers.deployment.controller import DeploymentController

__all__ = ["DeploymentController"]
