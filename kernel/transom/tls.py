"""TLS: the server's certificates, and what a peer's certificate is known by."""

import hashlib
import ssl
from pathlib import Path

from transom_hookspecs import TransomError

from .config import Config, Management


def main_context(config: Config) -> ssl.SSLContext | None:
    """TLS of the main port, or None when it is served plainly.

    Raises:
        TransomError: failed_precondition, naming the setting whose file will not do.
    """
    if config.cert_file:
        return _context(config, "", config.cert_file, config.key_file)
    if config.key_file:
        raise TransomError("failed_precondition", "key_file: there is no cert_file beside it; set both, or neither")
    return None


def management_context(config: Config, management: Management) -> ssl.SSLContext:
    """TLS of the management port: no client comes in whose certificate is not signed by the authority in the settings.

    Raises:
        TransomError: failed_precondition, naming the setting whose file will not do.
    """
    made = _context(config, "management.", management.cert_file, management.key_file)
    try:
        made.load_verify_locations(_path(config, management.client_ca_file))
    except (OSError, ssl.SSLError) as error:
        raise _unreadable("management.client_ca_file", management.client_ca_file, error) from error
    made.verify_mode = ssl.CERT_REQUIRED
    return made


def fingerprint(peer: ssl.SSLObject | None) -> str:
    """A peer's certificate as `sha256:<hex>` of its DER; empty when it was not asked for one, or is not encrypted at all."""
    der = peer.getpeercert(binary_form=True) if peer is not None else None
    return f"sha256:{hashlib.sha256(der).hexdigest()}" if der else ""


def _context(config: Config, table: str, cert: str, key: str) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    made.set_alpn_protocols(["http/1.1"])
    for name, file in (("cert_file", cert), ("key_file", key)):
        if file and not _path(config, file).is_file():
            raise _unreadable(table + name, file, FileNotFoundError("there is no such file"))
    try:
        # a key under a password fails, with this empty one, instead of asking for it at a terminal
        made.load_cert_chain(_path(config, cert), _path(config, key) if key else None, password="")
    except (OSError, ssl.SSLError) as error:
        raise _unreadable(f"{table}cert_file, {table}key_file", f"{cert}, {key or cert}", error) from error
    return made


def _path(config: Config, file: str) -> Path:
    """A file of the settings, which is relative to theirs."""
    return Path(config.path).parent / file if config.path else Path(file)


def _unreadable(setting: str, file: str, error: Exception) -> TransomError:
    why = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
    return TransomError(
        "failed_precondition",
        f"{setting}: {file} cannot be used: {why}; give PEM files, the certificate with its chain and a key without a password",
    )
