from __future__ import annotations

import base64
import datetime
import ssl
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from driver.sdk import kubeconfig
from driver.sdk.errors import SettingsError


def pair() -> tuple[bytes, bytes]:
    """A self-signed certificate and its key, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM), key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def write(folder: Path, user: dict[str, Any], cluster: dict[str, Any] | None = None, **change: Any) -> Path:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "one", "user": "me"}}],
        "clusters": [{"name": "one", "cluster": {"server": "https://127.0.0.1:1/", **(cluster or {})}}],
        "users": [{"name": "me", "user": user}],
        **change,
    }
    path = folder / "config"
    path.write_text(yaml.safe_dump(document))
    return path


def test_a_token_becomes_a_header_and_the_address_has_no_slash_at_its_end(tmp_path: Path) -> None:
    found = kubeconfig.load(write(tmp_path, {"token": "secret"}))
    assert found.server == "https://127.0.0.1:1"
    assert found.headers() == {"Authorization": "Bearer secret"}
    assert found.ssl_context.verify_mode is ssl.CERT_REQUIRED


def test_a_token_file_is_read_for_each_request_because_it_is_rotated(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("first\n")
    found = kubeconfig.load(write(tmp_path, {"tokenFile": "token"}))
    assert found.headers() == {"Authorization": "Bearer first"}
    (tmp_path / "token").write_text("second\n")
    assert found.headers() == {"Authorization": "Bearer second"}


def test_the_authority_is_taken_from_data_or_file(tmp_path: Path) -> None:
    certificate, _ = pair()
    (tmp_path / "ca.pem").write_bytes(certificate)
    for cluster in (
        {"certificate-authority-data": base64.b64encode(certificate).decode()},
        {"certificate-authority": "ca.pem"},
    ):
        found = kubeconfig.load(write(tmp_path, {"token": "t"}, cluster))
        assert len(found.ssl_context.get_ca_certs()) == 1


def test_a_client_certificate_is_loaded_from_data_or_files(tmp_path: Path) -> None:
    certificate, key = pair()
    (tmp_path / "c.pem").write_bytes(certificate)
    (tmp_path / "k.pem").write_bytes(key)
    data = {"client-certificate-data": certificate, "client-key-data": key}
    for user in (
        {name: base64.b64encode(value).decode() for name, value in data.items()},
        {"client-certificate": "c.pem", "client-key": "k.pem"},
        {"client-certificate": "c.pem", "client-key-data": base64.b64encode(key).decode()},
    ):
        assert kubeconfig.load(write(tmp_path, user)).headers() == {}


def test_plain_credentials_do_without_the_slow_package(tmp_path: Path) -> None:
    before = set(sys.modules)
    kubeconfig.load(write(tmp_path, {"token": "t"}))
    assert not any(name.startswith("kubernetes.") for name in set(sys.modules) - before)


def test_other_credentials_are_left_to_the_package(tmp_path: Path) -> None:
    certificate, _ = pair()
    (tmp_path / "ca.pem").write_bytes(certificate)
    program = tmp_path / "plugin"
    answer = '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "made"}}'
    program.write_text(f"#!{sys.executable}\nprint('''{answer}''')\n")
    program.chmod(0o755)
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": str(program),
        "interactiveMode": "Never",
    }
    path = write(tmp_path, {"exec": plugin}, {"certificate-authority": str(tmp_path / "ca.pem")})
    assert kubeconfig.load(path).headers() == {"Authorization": "Bearer made"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"current-context": "there"}, 'no entry "there" in contexts'),
        ({"users": []}, 'no entry "me" in users'),
        ({"clusters": [{"name": "one", "cluster": {}}]}, 'server "" of context'),
    ],
)
def test_what_is_missing_is_named_with_the_file(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = write(tmp_path, {"token": "t"}, **change)
    with pytest.raises(SettingsError, match=message) as caught:
        kubeconfig.load(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [("[: ", "while parsing|expected"), ("just text", "must be a mapping"), ("", "must be a mapping")],
)
def test_what_is_no_kubeconfig_is_told_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(SettingsError, match=message) as caught:
        kubeconfig.load(path)
    assert "\n" not in str(caught.value)


def test_wrong_base64_and_a_missing_key_are_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="certificate-authority-data: not base64"):
        kubeconfig.load(write(tmp_path, {"token": "t"}, {"certificate-authority-data": "*"}))
    certificate, _ = pair()
    with pytest.raises(SettingsError, match="client-key"):
        kubeconfig.load(write(tmp_path, {"client-certificate-data": base64.b64encode(certificate).decode()}))
