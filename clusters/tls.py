"""A certificate authority of one server and the serving certificate that it signs."""

from __future__ import annotations

import datetime
import ipaddress
import os
import ssl
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_VALID = datetime.timedelta(days=365)
# Clients on machines whose clock lags a little still accept the certificate.
_BACKDATED = datetime.timedelta(hours=1)
_SERVICE_NAMES = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost")


@dataclass(frozen=True)
class Certificates:
    """PEM texts: the CA that clients trust, the server's chain and its key."""

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


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


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


def generate(host: str) -> Certificates:
    """A fresh CA and a serving certificate for `host` and the loopback addresses."""
    start = datetime.datetime.now(datetime.UTC) - _BACKDATED
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca_name = _name("drakit-ca")
    key_id = x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key())
    ca = (
        x509.CertificateBuilder()
        .subject_name(ca_name)
        .issuer_name(ca_name)
        .public_key(ca_key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + _VALID)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(ca=True), critical=True)
        .add_extension(key_id, critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    addresses = {"127.0.0.1", "::1"}
    names = set(_SERVICE_NAMES)
    try:
        ipaddress.ip_address(host)
        addresses.add(host)
    except ValueError:
        names.add(host)
    alternatives: list[x509.GeneralName] = [x509.DNSName(name) for name in sorted(names)]
    alternatives += [x509.IPAddress(ipaddress.ip_address(address)) for address in sorted(addresses)]
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        x509.CertificateBuilder()
        .subject_name(_name("kube-apiserver"))
        .issuer_name(ca_name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + _VALID)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(ca=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
        )
        .sign(ca_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    return Certificates(
        ca_pem=ca.public_bytes(pem),
        certificate_pem=certificate.public_bytes(pem),
        key_pem=key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )


def client_context(ca_pem: bytes) -> ssl.SSLContext:
    """TLS settings of a client that trusts this authority alone."""
    return ssl.create_default_context(cadata=ca_pem.decode())
