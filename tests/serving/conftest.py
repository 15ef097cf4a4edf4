"""`transom serve` as a process, and certificates made for the test."""

import datetime
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

NOW = datetime.datetime.now(datetime.UTC)


class Authority:
    """Signs certificates, and writes them into a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = self._sign(self.name, self.key, x509.BasicConstraints(ca=True, path_length=0))
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str, use=ExtendedKeyUsageOID.CLIENT_AUTH, days: int = 1) -> "Issued":
        """A certificate for somebody, or for a server on 127.0.0.1; of negative days, one that is over."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        names = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
        usage = x509.ExtendedKeyUsage([use])
        made = self._sign(subject, key, x509.BasicConstraints(ca=False, path_length=None), names, usage, days=days)
        return Issued(self.folder / name, made, key)

    def _sign(self, subject, key, *extensions, days: int = 1) -> x509.Certificate:
        begin = NOW - datetime.timedelta(days=10)
        made = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin)
            .not_valid_after(NOW + datetime.timedelta(days=days))
        )
        for extension in extensions:
            made = made.add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
        return made.sign(self.key, hashes.SHA256())


class Issued:
    """A certificate with its key, as files."""

    def __init__(self, stem: Path, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self.cert, self.key = stem.with_suffix(".crt"), stem.with_suffix(".key")
        self.sha256 = certificate.fingerprint(hashes.SHA256()).hex()
        self.cert.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        self._key = key
        self.write_key(serialization.NoEncryption())

    def write_key(self, encryption: serialization.KeySerializationEncryption) -> None:
        form = serialization.PrivateFormat.PKCS8
        self.key.write_bytes(self._key.private_bytes(serialization.Encoding.PEM, form, encryption))

    @property
    def pair(self) -> tuple[str, str]:
        """As httpx takes it."""
        return str(self.cert), str(self.key)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def authority(folder: Path) -> Authority:
    """Who signs the servers' certificates and the operators'."""
    return Authority(folder, "authority")


@pytest.fixture
def make_authority(folder: Path):
    """Another one, of a name."""
    return lambda name: Authority(folder, name)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


class Serving:
    """A `transom serve` on the settings in a folder."""

    def __init__(self, folder: Path, settings: str, management_port: int | None = None) -> None:
        (folder / "transom.toml").write_text(settings)
        self.management = f"https://127.0.0.1:{management_port or free_port()}"
        self._log = folder / "server.log"
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TRANSOM_")}
        if "[management]" in settings:
            environment["TRANSOM_MANAGEMENT__PORT"] = self.management.rpartition(":")[2]
        with self._log.open("wb") as log:
            command = [sys.executable, "-m", "transom", "serve", "--json", "--port", "0"]
            self.process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=log, env=environment)
        line = self.process.stdout.readline()
        self.url = json.loads(line)["url"] if line else ""

    @property
    def said(self) -> str:
        """What it wrote to its log."""
        return self._log.read_text()

    def stop(self, seconds: float = 20) -> int:
        """SIGTERM; returns the exit code, which must come within so many seconds."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=seconds)
        self.process.stdout.close()
        return code


@pytest.fixture
def serve(folder: Path) -> Iterator[object]:
    """Serve with settings; ends with the test."""
    running: list[Serving] = []

    def start(settings: str, **options: int) -> Serving:
        running.append(Serving(folder, settings, **options))
        return running[-1]

    yield start
    for each in running:
        each.stop()
