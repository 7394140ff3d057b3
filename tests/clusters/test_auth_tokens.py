"""Tokens, authentication, impersonation, reviews and token requests (api-machinery section 14)."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from memory_reader import MemoryReader
from multidict import CIMultiDict

from clusters.api_status import ApiError
from clusters.embedded.apiserver.auth import reviews
from clusters.embedded.apiserver.auth.attributes import Attributes, Decision
from clusters.embedded.apiserver.auth.authentication import Authenticator
from clusters.embedded.apiserver.auth.authorizer import standard
from clusters.embedded.apiserver.auth.impersonation import impersonate
from clusters.embedded.apiserver.auth.rbac import GROUP, Rbac
from clusters.embedded.apiserver.auth.token_request import create_token
from clusters.embedded.apiserver.auth.tokens import Reference, StaticTokens, TokenError, TokenIssuer
from clusters.embedded.apiserver.auth.users import User, node_user

ISSUER = "https://kubernetes.default.svc"


class World:
    """A clock, stored objects, and everything that deals with tokens."""

    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.reader = MemoryReader()
        self.reader.add("serviceaccounts", "sa", namespace="a")
        self.reader.add("nodes", "n1")
        self.reader.add("pods", "p", namespace="a", spec={"serviceAccountName": "sa", "nodeName": "n1"})
        self.issuer = TokenIssuer(lambda: self.now)
        self.static = StaticTokens({"static": User("bob", groups=("team",))})
        self.authenticator = self.make()

    def make(self, **options: Any) -> Authenticator:
        return Authenticator(
            static_tokens=self.static,
            issuer=self.issuer,
            reader=self.reader,
            clock=lambda: self.now,
            **options,
        )

    def request(self, name: str = "sa", **spec: Any) -> dict[str, Any]:
        return create_token(
            {"spec": spec}, namespace="a", name=name, reader=self.reader, issuer=self.issuer, now=self.now
        )

    def user(self, token: str) -> User:
        return self.authenticator.authenticate({"Authorization": f"Bearer {token}"})


@pytest.fixture
def world() -> World:
    return World()


TOO_SHORT = (
    'TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 599: '
    "may not specify a duration less than 10 minutes"
)
OTHER_UID = (
    'Operation cannot be fulfilled on Pod "p": the UID in the bound object reference (x) does not match the UID in '
    "record. The object might have been deleted and then recreated"
)
JOB = {"kind": "Job", "apiVersion": "batch/v1", "name": "p"}
POD = {"kind": "Pod", "apiVersion": "v1", "name": "p"}


def test_static_token_and_anonymous(world: World) -> None:
    assert world.user("static") == User("bob", groups=("team", "system:authenticated"))
    for headers in ({}, {"Authorization": "Basic xyz"}, {"Authorization": "Bearer "}):
        assert world.authenticator.authenticate(headers).name == "system:anonymous"
    world.static.remove("static")
    with pytest.raises(ApiError) as caught:
        world.user("static")
    assert caught.value.status() == {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "Unauthorized", "reason": "Unauthorized", "code": 401,
    }  # fmt: skip
    with pytest.raises(ApiError):
        world.make(allow_anonymous=False).authenticate({})


def test_pod_token_has_the_claims_of_a_real_one(world: World) -> None:
    answer = world.request(boundObjectRef=POD)
    header, claims = (
        json.loads(base64.urlsafe_b64decode(part + "==")) for part in answer["status"]["token"].split(".")[:2]
    )
    assert header == {"alg": "RS256", "kid": world.issuer.key_id}
    assert len(claims.pop("jti")) == 36
    assert claims == {
        "aud": [ISSUER],
        "exp": 1_003_600,
        "iat": 1_000_000,
        "nbf": 1_000_000,
        "iss": ISSUER,
        "sub": "system:serviceaccount:a:sa",
        "kubernetes.io": {
            "namespace": "a",
            "node": {"name": "n1", "uid": "uid-n1"},
            "pod": {"name": "p", "uid": "uid-p"},
            "serviceaccount": {"name": "sa", "uid": "uid-sa"},
        },
    }
    assert answer["metadata"] == {
        "name": "sa", "namespace": "a", "uid": "uid-sa", "creationTimestamp": "1970-01-12T13:46:40Z",
    }  # fmt: skip
    # 1000000 s + 3600 s
    assert answer["status"]["expirationTimestamp"] == "1970-01-12T14:46:40Z"


def test_user_of_a_pod_token(world: World) -> None:
    token = world.request(boundObjectRef=POD)["status"]["token"]
    user = world.user(token)
    claims = world.issuer.claims(token)
    assert claims is not None
    assert (user.name, user.uid) == ("system:serviceaccount:a:sa", "uid-sa")
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated")
    assert user.extra == {
        "authentication.kubernetes.io/credential-id": (f"JTI={claims['jti']}",),
        "authentication.kubernetes.io/pod-name": ("p",),
        "authentication.kubernetes.io/pod-uid": ("uid-p",),
        "authentication.kubernetes.io/node-name": ("n1",),
        "authentication.kubernetes.io/node-uid": ("uid-n1",),
    }


def test_unbound_and_secret_tokens_name_no_node(world: World) -> None:
    world.reader.add("secrets", "s", namespace="a")
    bound = {"kind": "Secret", "apiVersion": "v1", "name": "s"}
    for answer in (world.request(), world.request(boundObjectRef=bound)):
        assert list(world.user(answer["status"]["token"]).extra) == [
            "authentication.kubernetes.io/credential-id"
        ]


def test_bound_token_outlives_its_pod_by_the_cache_only(world: World) -> None:
    token = world.request(boundObjectRef=POD)["status"]["token"]
    world.user(token)
    world.reader.objects.pop(("", "pods", "a", "p"))
    world.now += 9
    world.user(token)
    world.now += 2
    with pytest.raises(ApiError):
        world.user(token)
    with pytest.raises(TokenError, match="service account token has been invalidated"):
        world.authenticator.authenticate_token(token)


@pytest.mark.parametrize(("seconds", "valid"), [(59, True), (61, False)])
def test_deleting_pod_vouches_for_a_minute(world: World, seconds: int, valid: bool) -> None:
    token = world.request(boundObjectRef=POD)["status"]["token"]
    # 1970-01-12T13:46:40Z is second 1000000.
    world.reader.objects["", "pods", "a", "p"]["metadata"]["deletionTimestamp"] = "1970-01-12T13:46:40Z"
    world.now += seconds
    if valid:
        world.user(token)
    else:
        with pytest.raises(ApiError):
            world.user(token)


def test_recreated_objects_do_not_vouch(world: World) -> None:
    token = world.request(boundObjectRef=POD)["status"]["token"]
    node_bound = world.request(boundObjectRef={"kind": "Node", "apiVersion": "v1", "name": "n1"})["status"][
        "token"
    ]
    assert world.make().authenticate_token(node_bound).user.extra[
        "authentication.kubernetes.io/node-name"
    ] == ("n1",)
    world.reader.add("pods", "p", namespace="a", uid="new")
    with pytest.raises(
        TokenError, match=r"pod UID \(new\) does not match service account pod ref claim \(uid-p\)"
    ):
        world.make().authenticate_token(token)
    world.reader.add("nodes", "n1", uid="new")
    with pytest.raises(TokenError, match=r"node UID \(new\) does not match"):
        world.make().authenticate_token(node_bound)
    world.reader.add("serviceaccounts", "sa", namespace="a", uid="new")
    with pytest.raises(TokenError, match=r"service account UID \(new\) does not match claim \(uid-sa\)"):
        world.make().authenticate_token(token)


def test_expiry_has_a_minute_of_leeway(world: World) -> None:
    token = world.request(expirationSeconds=600)["status"]["token"]
    world.now += 660
    assert world.user(token).uid == "uid-sa"
    world.now += 11
    with pytest.raises(TokenError, match="token has expired"):
        world.authenticator.authenticate_token(token)


def test_forged_and_foreign_tokens_fail(world: World) -> None:
    head, claims, signature = world.request()["status"]["token"].split(".")
    other = world.issuer.issue("a", Reference("other", "u")).split(".")
    deep = base64.urlsafe_b64encode(b"[" * 100_000).decode()
    unsigned = base64.urlsafe_b64encode(b'{"alg":"none"}').rstrip(b"=").decode()
    forged = (
        f"{head}.{other[1]}.{signature}",
        f"{unsigned}.{claims}.",
        f"{unsigned}.{claims}.{signature}",
        f"{head}.{claims}.{signature}=",
        f"{head}.{claims}.!{signature}",
        f"{head}.{deep}.{signature}",
    )
    for token in (*forged, "a.b.c", "nonsense", f"{head}.{claims}.###"):
        with pytest.raises(TokenError, match="invalid bearer token"):
            world.authenticator.authenticate_token(token)


def test_token_review_answers(world: World) -> None:
    good = world.request(audiences=["x", "y"])["status"]["token"]
    review = reviews.token_review({"spec": {"token": good, "audiences": ["y", "z"]}}, world.authenticator)
    assert (review["status"]["authenticated"], review["status"]["audiences"]) == (True, ["y"])
    assert review["status"]["user"]["username"] == "system:serviceaccount:a:sa"
    wrong = reviews.token_review({"spec": {"token": good}}, world.authenticator)
    assert wrong["status"] == {
        "user": {},
        "error": '[invalid bearer token, token audiences ["x" "y"] is invalid '
        f'for the target audiences ["{ISSUER}"]]',
    }
    bad = reviews.token_review({"spec": {"token": "nonsense"}}, world.authenticator)
    assert bad["status"] == {"user": {}, "error": "invalid bearer token"}


@pytest.mark.parametrize(
    ("spec", "code", "message"),
    [
        ({"expirationSeconds": 599}, 422, TOO_SHORT),
        ({"boundObjectRef": {**POD, "name": "q"}}, 404, 'pods "q" not found'),
        ({"boundObjectRef": {**POD, "uid": "x"}}, 409, OTHER_UID),
        ({"boundObjectRef": JOB}, 400, "cannot bind token to object of type batch/v1, Kind=Job"),
    ],
)  # fmt: skip
def test_token_requests_that_do_not_fit(world: World, spec: dict[str, Any], code: int, message: str) -> None:
    with pytest.raises(ApiError) as caught:
        world.request(**spec)
    assert (caught.value.code, caught.value.message) == (code, message)


def test_token_of_another_account_cannot_be_bound(world: World) -> None:
    world.reader.add("serviceaccounts", "default", namespace="a")
    with pytest.raises(ApiError) as caught:
        world.request("default", boundObjectRef=POD)
    assert caught.value.message == (
        'cannot bind token for serviceaccount "default" to pod running with different serviceaccount name.'
    )
    with pytest.raises(ApiError, match='serviceaccounts "none" not found'):
        world.request("none")


def test_mounted_tokens_are_extended_to_a_year(world: World) -> None:
    answer = world.request(boundObjectRef=POD, expirationSeconds=3607)
    claims = world.issuer.claims(answer["status"]["token"])
    assert claims is not None
    # 365 * 86400 = 31536000
    assert claims["exp"] == 1_000_000 + 31_536_000
    assert claims["kubernetes.io"]["warnafter"] == 1_003_607


class Allow:
    """Allows what is listed, as verb resource name."""

    def __init__(self, *allowed: str) -> None:
        self.allowed = set(allowed)

    def authorize(self, attributes: Attributes) -> Decision:
        return Decision(f"{attributes.verb} {attributes.full_resource} {attributes.name}" in self.allowed)


def test_impersonation() -> None:
    bob = User("bob")
    headers: CIMultiDict[str] = CIMultiDict()
    assert impersonate(bob, headers, Allow()) is bob
    headers.add("Impersonate-User", "system:serviceaccount:a:sa")
    headers.add("Impersonate-Extra-Authentication.kubernetes.io%2Fnode-Name", "n1")
    allowed = Allow(
        "impersonate serviceaccounts sa", "impersonate userextras/authentication.kubernetes.io/node-name n1"
    )
    user = impersonate(bob, headers, allowed)
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated")
    assert user.extra == {"authentication.kubernetes.io/node-name": ("n1",)}
    with pytest.raises(ApiError) as caught:
        impersonate(bob, headers, Allow("impersonate serviceaccounts sa"))
    assert caught.value.message == (
        'userextras.authentication.k8s.io "n1" is forbidden: User "bob" cannot impersonate resource '
        '"userextras/authentication.kubernetes.io/node-name" in API group "authentication.k8s.io" at the cluster scope'
    )


def test_impersonated_groups_replace_the_own_ones() -> None:
    headers = CIMultiDict({"Impersonate-User": "eve", "Impersonate-Uid": "7"})
    headers.add("Impersonate-Group", "g")
    allowed = Allow("impersonate users eve", "impersonate groups g", "impersonate uids 7")
    assert impersonate(User("bob"), headers, allowed) == User("eve", "7", ("g", "system:authenticated"))
    with pytest.raises(ApiError, match="without impersonating a user"):
        impersonate(User("bob"), CIMultiDict({"Impersonate-Group": "g"}), allowed)


def test_access_reviews() -> None:
    reader = MemoryReader()
    reader.add(
        "clusterroles", "r", group=GROUP, rules=[{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]
    )
    reader.add("clusterrolebindings", "b", group=GROUP, subjects=[{"kind": "User", "name": "bob"}],
               roleRef={"kind": "ClusterRole", "name": "r"})  # fmt: skip
    authorizer = standard(reader)
    pods = {"verb": "get", "resource": "pods", "namespace": "a"}
    answer = reviews.subject_access_review({"spec": {"user": "bob", "resourceAttributes": pods}}, authorizer)
    assert answer["status"] == {
        "allowed": True,
        "reason": 'RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "r" to User "bob"',
    }
    answer = reviews.self_subject_access_review(
        {"spec": {"resourceAttributes": pods}}, User("eve"), authorizer
    )
    assert answer["status"] == {"allowed": False}
    path = {"nonResourceAttributes": {"path": "/x", "verb": "get"}}
    assert not reviews.self_subject_access_review({"spec": path}, User("bob"), authorizer)["status"][
        "allowed"
    ]
    rules = reviews.self_subject_rules_review({"spec": {"namespace": "a"}}, User("bob"), Rbac(reader))[
        "status"
    ]
    assert rules == {
        "resourceRules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}],
        "nonResourceRules": [],
        "incomplete": False,
    }
    assert reviews.self_subject_rules_review({"spec": {"namespace": "a"}}, node_user("n"), Rbac(reader))[
        "status"
    ]["incomplete"]


def test_access_reviews_that_do_not_fit() -> None:
    authorizer = standard(MemoryReader())
    with pytest.raises(ApiError) as caught:
        reviews.self_subject_access_review({"spec": {}}, User("bob"), authorizer)
    assert caught.value.code == 422
    assert caught.value.message == (
        '.authorization.k8s.io "" is invalid: spec: Invalid value: null: '
        "exactly one of nonResourceAttributes or resourceAttributes must be specified"
    )
    assert "kind" not in (caught.value.details or {})
    spec = {"user": "bob", "resourceAttributes": {"namespace": "b", "verb": "get", "resource": "pods"}}
    with pytest.raises(ApiError, match=r"must match metadata\.namespace"):
        reviews.local_subject_access_review({"spec": spec}, authorizer, "a")


def test_who_am_i() -> None:
    user = User("bob", "7", ("g",), {"k": ("v",)})
    answer = reviews.self_subject_review({}, user, "2026-01-01T00:00:00Z")
    assert answer == {
        "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"},
        "status": {"userInfo": {"username": "bob", "uid": "7", "groups": ["g"], "extra": {"k": ["v"]}}},
    }
