"""Who sends a request: bearer tokens, else anonymous (api-machinery section 14)."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from clusters.api_status import ApiError
from clusters.embedded.apiserver.auth.reader import Reader
from clusters.embedded.apiserver.auth.service_accounts import user_of
from clusters.embedded.apiserver.auth.text import aggregated, quoted_list
from clusters.embedded.apiserver.auth.tokens import StaticTokens, TokenError, TokenIssuer
from clusters.embedded.apiserver.auth.users import User, anonymous

TOKEN_CACHE_SECONDS: Final = 10.0
"""How long a real server trusts a token that it has checked; a bound token outlives its pod by that much."""

_MAX_CACHED: Final = 4096


@dataclass(frozen=True)
class Authenticated:
    """A token's user and those of the wanted audiences that the token is meant for."""

    user: User
    audiences: tuple[str, ...]


def unauthorized() -> ApiError:
    """The 401 of a bad credential."""
    return ApiError(401, "Unauthorized", "Unauthorized")


class Authenticator:
    """Finds the user of a request.

    `clock` gives seconds since 1970 and must be the clock of the issuer; `cache_seconds` 0 checks each time.
    """

    def __init__(
        self,
        *,
        static_tokens: StaticTokens,
        issuer: TokenIssuer,
        reader: Reader,
        clock: Callable[[], float],
        allow_anonymous: bool = True,
        cache_seconds: float = TOKEN_CACHE_SECONDS,
    ) -> None:
        self._static_tokens = static_tokens
        self._issuer = issuer
        self._reader = reader
        self._clock = clock
        self._allow_anonymous = allow_anonymous
        self._cache_seconds = cache_seconds
        self._cache: dict[bytes, tuple[float, Authenticated]] = {}
        self._lock = threading.Lock()

    @property
    def api_audiences(self) -> tuple[str, ...]:
        """The audiences that this server accepts in tokens."""
        return (self._issuer.issuer,)

    def authenticate(self, headers: Mapping[str, str]) -> User:
        """The user of a request with these headers; ApiError 401 for a bad token or forbidden anonymity."""
        token = _bearer(headers.get("Authorization", ""))
        if not token:
            if self._allow_anonymous:
                return anonymous()
            raise unauthorized()
        try:
            return self.authenticate_token(token).user
        except TokenError:
            raise unauthorized() from None

    def authenticate_token(self, token: str, audiences: Sequence[str] = ()) -> Authenticated:
        """The user of a token for the audiences (the server's own by default); TokenError otherwise."""
        wanted = tuple(audiences) or self.api_audiences
        user = self._static_tokens.user(token)
        if user is not None:
            # A static token is meant for the API server alone.
            meant = tuple(item for item in wanted if item in self.api_audiences)
            if not meant:
                raise TokenError("invalid bearer token")
            return Authenticated(user.authenticated(), meant)
        key = hashlib.sha256("\0".join((token, *wanted)).encode()).digest()
        now = self._clock()
        with self._lock:
            cached = self._cache.get(key)
        if cached is not None and 0 <= now - cached[0] < self._cache_seconds:
            return cached[1]
        result = self._check(token, wanted, now)
        if self._cache_seconds > 0:
            with self._lock:
                if len(self._cache) >= _MAX_CACHED:
                    self._cache.clear()
                self._cache[key] = (now, result)
        return result

    def _check(self, token: str, wanted: tuple[str, ...], now: float) -> Authenticated:
        try:
            claims = self._issuer.claims(token)
            if claims is not None:
                offered = claims.get("aud") or []
                meant = tuple(item for item in wanted if item in offered)
                if not meant:
                    raise TokenError(
                        f"token audiences {quoted_list(offered)} is invalid "
                        f"for the target audiences {quoted_list(wanted)}"
                    )
                return Authenticated(user_of(claims, self._reader, now).authenticated(), meant)
        except TokenError as error:
            raise TokenError(aggregated(("invalid bearer token", str(error)))) from None
        raise TokenError("invalid bearer token")


def _bearer(header: str) -> str:
    """The token of an Authorization header, empty if the header holds none."""
    scheme, _, rest = header.strip().partition(" ")
    return rest.split(" ", 1)[0] if scheme.lower() == "bearer" else ""
