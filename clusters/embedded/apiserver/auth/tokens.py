"""Bearer tokens: a static table, and signed service account tokens (api-machinery section 14)."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import re
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from clusters.embedded.apiserver.auth.users import User, service_account_name

DEFAULT_ISSUER: Final = "https://kubernetes.default.svc"
_KEY_BITS: Final = 2048
_BASE64: Final = re.compile(r"[A-Za-z0-9_-]*")


class TokenError(Exception):
    """A token that does not authenticate; the text is what TokenReview reports."""


class StaticTokens:
    """Tokens that stand for fixed users, as a token file does."""

    def __init__(self, tokens: Mapping[str, User] | None = None) -> None:
        self._lock = threading.Lock()
        self._tokens = dict(tokens or {})

    def add(self, token: str, user: User) -> None:
        """Accept one more token."""
        with self._lock:
            self._tokens[token] = user

    def remove(self, token: str) -> None:
        """Accept a token no longer; unknown ones are ignored."""
        with self._lock:
            self._tokens.pop(token, None)

    def user(self, token: str) -> User | None:
        """The user of a token."""
        with self._lock:
            return self._tokens.get(token)


@dataclass(frozen=True)
class Reference:
    """Name and uid of an object in the claims of a token; the uid of a vanished node is empty."""

    name: str
    uid: str = ""

    def claim(self) -> dict[str, str]:
        """The form inside the claims."""
        return {"name": self.name, "uid": self.uid} if self.uid else {"name": self.name}


_process_key_lock = threading.Lock()


def process_key() -> rsa.RSAPrivateKey:
    """The signing key of this process, made at first use: tokens survive a server restarted within it."""
    with _process_key_lock:  # Two threads must not get two keys.
        return _generate_once()


@functools.lru_cache(maxsize=1)
def _generate_once() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=_KEY_BITS)


class TokenIssuer:
    """Signs and reads service account tokens: JWT with RS256.

    `key` is a PEM private key; without one the key of the process serves. `clock` gives seconds since 1970.
    """

    def __init__(
        self, clock: Callable[[], float], issuer: str = DEFAULT_ISSUER, key: bytes | None = None
    ) -> None:
        self.issuer = issuer
        self._clock = clock
        self._pem = key

    @functools.cached_property
    def _key(self) -> rsa.RSAPrivateKey:
        if self._pem is None:
            return process_key()
        loaded = serialization.load_pem_private_key(self._pem, password=None)
        if not isinstance(loaded, rsa.RSAPrivateKey):
            raise TypeError("the service account key must be an RSA private key in PEM form")
        return loaded

    @functools.cached_property
    def key_id(self) -> str:
        """The `kid` of the header: a digest of the public key."""
        public = self._key.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        return _encode(hashlib.sha256(public).digest())

    def issue(
        self,
        namespace: str,
        service_account: Reference,
        *,
        audiences: Sequence[str] = (),
        expiration_seconds: int = 3600,
        pod: Reference | None = None,
        node: Reference | None = None,
        secret: Reference | None = None,
        warn_after_seconds: int = 0,
    ) -> str:
        """A new token, valid from now on. Bound to a pod it also names the pod's node.

        Without audiences it is meant for the API server itself.
        """
        now = int(self._clock())
        private: dict[str, Any] = {"namespace": namespace}
        for key, reference in (("node", node), ("pod", pod), ("secret", secret)):
            if reference is not None:
                private[key] = reference.claim()
        private["serviceaccount"] = service_account.claim()
        if warn_after_seconds:
            private["warnafter"] = now + warn_after_seconds
        claims = {
            "aud": list(audiences) or [self.issuer],
            "exp": now + expiration_seconds,
            "iat": now,
            "iss": self.issuer,
            "jti": str(uuid.uuid4()),
            "kubernetes.io": private,
            "nbf": now,
            "sub": service_account_name(namespace, service_account.name),
        }
        head = _encode(_json({"alg": "RS256", "kid": self.key_id}))
        signed = f"{head}.{_encode(_json(claims))}"
        signature = self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{_encode(signature)}"

    def claims(self, token: str) -> dict[str, Any] | None:
        """The claims of a token of this issuer; None if it is none; TokenError if it is forged."""
        parts = token.split(".")
        if len(parts) != 3:
            return None
        try:
            claims = json.loads(_decode(parts[1]))
            signature = _decode(parts[2])
        except (ValueError, RecursionError):
            return None
        if not isinstance(claims, dict) or claims.get("iss") != self.issuer:
            return None
        try:
            self._key.public_key().verify(
                signature, f"{parts[0]}.{parts[1]}".encode(), padding.PKCS1v15(), hashes.SHA256()
            )
        except InvalidSignature:
            raise TokenError("go-jose/go-jose: error in cryptographic primitive") from None
        return claims


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    # Python skips characters that are no base64; a token has one spelling only.
    if not _BASE64.fullmatch(text):
        raise ValueError("illegal base64 data")
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
