"""Kinds that are answered and never stored: reviews of tokens, of oneself and of access (section 14)."""

from __future__ import annotations

from clusters.embedded.apiserver.auth import reviews
from clusters.embedded.apiserver.call import Call, Reply
from clusters.embedded.apiserver.handlers.write import decode_object, write_options
from clusters.embedded.apiserver.resources import Served
from clusters.embedded.apiserver.times import timestamp
from dra_api.decode import as_json


def create(call: Call, served: Served) -> Reply:
    """POST of a review: its answer is the review with a status."""
    review = as_json(decode_object(call, served, write_options(call, "CreateOptions")))
    api = call.api
    kind = served.resource.kind
    if kind == "TokenReview":
        answer = reviews.token_review(review, api.authenticator)
    elif kind == "SelfSubjectReview":
        answer = reviews.self_subject_review(review, call.user, timestamp(api.now()))
    elif kind == "SubjectAccessReview":
        answer = reviews.subject_access_review(review, api.authorizer)
    elif kind == "LocalSubjectAccessReview":
        answer = reviews.local_subject_access_review(review, api.authorizer, call.info.namespace)
    elif kind == "SelfSubjectAccessReview":
        answer = reviews.self_subject_access_review(review, call.user, api.authorizer)
    else:
        answer = reviews.self_subject_rules_review(review, call.user, api.rbac)
    return Reply(answer, 201, served=served)
