"""Certificate authorities that live as long as their cluster, and what they sign."""

from __future__ import annotations

import datetime
import ipaddress
import os
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_VALID = datetime.timedelta(days=365)
# Clients on machines whose clock lags a little still accept the certificate.
_BACKDATED = datetime.timedelta(hours=1)
SERVICE_NAMES: Final = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost")


@dataclass(frozen=True)
class Certificates:
    """PEM texts: the CA that the other side trusts, the certificate and its key."""

    ca_pem: bytes
    certificate_pem: bytes
    key_pem: bytes

    def server_context(self) -> ssl.SSLContext:
        """A TLS context for the listening socket."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        # The ssl module loads a chain from files only; this one is in memory, so that no key lies on a disk.
        with os.fdopen(os.memfd_create("chain"), "wb") as file:
            file.write(self.certificate_pem + self.key_pem)
            file.flush()
            context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
        return context


def _name(common_name: str, *organizations: str) -> x509.Name:
    organization = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, name) for name in organizations]
    return x509.Name([*organization, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _usage(*, ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=ca,
        crl_sign=ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


class Authority:
    """A certificate authority whose key lives in this object alone."""

    def __init__(self, name: str = "drakit-ca") -> None:
        self._start = datetime.datetime.now(datetime.UTC) - _BACKDATED
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        key_id = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        certificate = (
            self._builder(self._name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(ca=True), critical=True)
            .add_extension(key_id, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.pem = certificate.public_bytes(serialization.Encoding.PEM)

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._start)
            .not_valid_after(self._start + _VALID)
        )

    def server(self, common_name: str, *hosts: str) -> Certificates:
        """A serving certificate for names and addresses, the loopback addresses included."""
        addresses, names = {"127.0.0.1", "::1"}, set()
        for host in hosts:
            try:
                ipaddress.ip_address(host)
                addresses.add(host)
            except ValueError:
                names.add(host)
        alternatives: list[x509.GeneralName] = [x509.DNSName(name) for name in sorted(names)]
        alternatives += [x509.IPAddress(ipaddress.ip_address(address)) for address in sorted(addresses)]
        return self._issue(
            _name(common_name),
            ExtendedKeyUsageOID.SERVER_AUTH,
            (x509.SubjectAlternativeName(alternatives),),
        )

    def client(self, common_name: str, *organizations: str) -> Certificates:
        """A client certificate for a user and its groups."""
        return self._issue(_name(common_name, *organizations), ExtendedKeyUsageOID.CLIENT_AUTH, ())

    def _issue(
        self, subject: x509.Name, use: x509.ObjectIdentifier, extensions: Sequence[x509.ExtensionType]
    ) -> Certificates:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            self._builder(subject, key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(ca=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([use]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
        )
        for extension in extensions:
            builder = builder.add_extension(extension, critical=False)
        return Certificates(
            ca_pem=self.pem,
            certificate_pem=builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM),
            key_pem=private_key_pem(key),
        )


def generate(host: str) -> Certificates:
    """A fresh CA and a serving certificate for `host` and the loopback addresses."""
    return Authority().server("kube-apiserver", host, *SERVICE_NAMES)


def private_key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """A private key as PEM text."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def key_pair() -> tuple[bytes, bytes]:
    """A new private key and its public key, as PEM texts."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return private_key_pem(key), public


def client_context(ca_pem: bytes) -> ssl.SSLContext:
    """TLS settings of a client that trusts this authority alone."""
    return ssl.create_default_context(cadata=ca_pem.decode())
