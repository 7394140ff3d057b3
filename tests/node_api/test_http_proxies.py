"""Which proxy leads to an API server, by the variables that Kubernetes' clients heed."""

from __future__ import annotations

import pytest

from node_api.access import proxy
from node_api.access.errors import AccessError


@pytest.mark.parametrize(
    ("server", "exceptions", "through"),
    [
        ("https://api.example.com", "", True),
        ("https://api.example.com", "example.com", False),
        ("https://example.com", "example.com", False),
        ("https://notexample.com", "example.com", True),
        ("https://api.example.com", ".example.com", False),
        ("https://example.com", ".example.com", True),
        ("https://api.example.com:6443", "api.example.com:6443", False),
        ("https://api.example.com:6443", "example.com:6443", False),
        ("https://api.example.com:6443", "example.com:443", True),
        ("https://api.example.com", "*", False),
        ("https://10.1.2.3:6443", "10.0.0.0/8", False),
        ("https://10.128.0.1:443", "10.96.0.0/12, .svc", True),
        ("https://10.1.2.3:6443", "10.1.2.3", False),
        ("https://10.1.2.3:6443", "10.1.2.3:443", True),
        ("https://[fd00::1]:6443", "fd00::1", False),
        ("https://[fd00::1]:6443", "[fd00::1]", False),
        ("https://[fd00::1]:6443", "fd00::/8", False),
        ("https://[fd00::1]:6443", "fe80::/10", True),
        ("https://127.0.0.1:6443", "", False),
        ("https://[::1]:6443", "", False),
        ("https://localhost", "", False),
        # That variable is for servers without TLS.
        ("http://10.96.0.1", "", False),
    ],
)
def test_no_proxy_is_read_as_kubernetes_clients_do(
    server: str, exceptions: str, through: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("https_proxy", "http_proxy", "HTTP_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", "proxy.example.com:3128")
    monkeypatch.setenv("NO_PROXY", exceptions)
    assert proxy.for_server(server) == ("http://proxy.example.com:3128" if through else "")


def test_a_proxy_that_cannot_be_used_is_named_without_its_password() -> None:
    with pytest.raises(AccessError, match=r"proxy socks5://proxy: must be an HTTP proxy") as caught:
        proxy.given("socks5://me:secret@proxy:1080")
    assert "secret" not in str(caught.value)
