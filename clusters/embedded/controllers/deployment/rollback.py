"""Rollback by annotation, as extensions/v1beta1 asked for it. No input or output."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

from clusters.embedded.components.client import Object
from clusters.embedded.controllers.deployment import model
from clusters.embedded.controllers.pods import annotations_of, labels_of

_NOT_FOUND = "DeploymentRollbackRevisionNotFound"


@dataclass(frozen=True)
class Rollback:
    """The changed Deployment, a warning (reason and text) or nothing, what was done or nothing."""

    deployment: Object
    warning: tuple[str, str] | tuple[()] = ()
    message: str = ""


def wished_revision(deployment: Object) -> int | None:
    """The revision to go back to, 0 being the one before the newest; None when there is no valid wish."""
    try:
        return int(annotations_of(deployment).get(model.ROLLBACK_TO, ""))
    except ValueError:
        return None


def rolled_back(deployment: Object, sets: Sequence[Object], revision: int) -> Rollback:
    """The Deployment with the template of a revision (see `wished_revision`) and without the wish."""
    result = copy.deepcopy(deployment)
    del result["metadata"]["annotations"][model.ROLLBACK_TO]
    if revision == 0:
        revision = model.last_revision(sets)
        if revision == 0:
            return Rollback(result, (_NOT_FOUND, "Unable to find last revision."))
    for one in sets:
        if model.revision_of(one) == revision:
            return _with_template(result, one, revision)
    return Rollback(result, (_NOT_FOUND, "Unable to find the revision to rollback to."))


def _with_template(deployment: Object, one: Object, revision: int) -> Rollback:
    name, template = deployment["metadata"]["name"], one["spec"]["template"]
    if model.same_template(deployment["spec"]["template"], template):
        text = f'The rollback revision contains the same template as current deployment "{name}"'
        return Rollback(deployment, ("DeploymentRollbackTemplateUnchanged", text))
    template = copy.deepcopy(template)
    template["metadata"]["labels"] = {
        key: value for key, value in labels_of(template).items() if key != model.HASH_LABEL
    }
    deployment["spec"]["template"] = template
    # The annotations belong to the revision as well, such as the cause of the change.
    deployment["metadata"]["annotations"] = {
        **{key: value for key, value in annotations_of(deployment).items() if key in model.NOT_COPIED},
        **model.copied_annotations(one),
    }
    return Rollback(deployment, message=f'Rolled back deployment "{name}" to revision {revision}')
