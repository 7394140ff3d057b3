"""The controller that checks the types in expressions of ValidatingAdmissionPolicies."""

from __future__ import annotations

from clusters.embedded.controllers.admission_policy_status.controller import AdmissionPolicyStatusController

__all__ = ["AdmissionPolicyStatusController"]
