"""The operators' port: whoever comes in shows a certificate, and nothing that is sent can stand for one."""

import hashlib
import socket
import ssl
from contextlib import ExitStack

import httpx
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID

from transom.config import load
from transom.web import listeners
from transom_hookspecs import TransomError

pytestmark = pytest.mark.req("IDN-2", "REST-8")

TOKEN = "a-token-that-is-long-and-random-enough"

SETTINGS = """
data = "data"

[management]
cert_file = "server.crt"
key_file = "server.key"
client_ca_file = "authority.pem"

[identity.operators.root]
certificate_sha256 = "{sha256}"

[identity.callers.omar]
kind = "person"
role = "operator"
token_sha256 = "{token}"
"""


@pytest.fixture
def root(authority):
    """The operator's certificate; the server's is there too."""
    authority.issue("server", ExtendedKeyUsageOID.SERVER_AUTH)
    return authority.issue("root")


def settings(root, top: str = "") -> str:
    return top + SETTINGS.format(sha256=root.sha256, token=hashlib.sha256(TOKEN.encode()).hexdigest())


def client(authority, shown=None) -> httpx.Client:
    """A client that trusts the authority, and shows a certificate or none."""
    trust = ssl.create_default_context(cafile=authority.file)
    if shown is not None:
        trust.load_cert_chain(*shown.pair)
    return httpx.Client(verify=trust, trust_env=False, timeout=10)


def test_an_operator_comes_in_by_certificate_and_may_act(serve, authority, root):
    serving = serve(settings(root))
    with client(authority, root) as operator:
        answer = operator.post(f"{serving.management}/v1/operations/PublishEvent", json={"source": "s"})
        assert (answer.status_code, answer.json()) == (200, {"jobs": []})


def test_one_whose_certificate_is_not_listed_is_nobody(serve, authority, root):
    serving = serve(settings(root))
    with client(authority, authority.issue("mallory")) as stranger:
        answer = stranger.get(f"{serving.management}/v1/jobs")
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")


def test_one_without_a_certificate_of_the_authority_does_not_get_in(serve, authority, root, make_authority):
    serving = serve(settings(root))
    wrong = {
        "none": None,
        "of another authority": make_authority("another").issue("root2"),
        "over": authority.issue("old", days=-1),
        "a server's": authority.issue("other", ExtendedKeyUsageOID.SERVER_AUTH),
    }
    for why, shown in wrong.items():
        with client(authority, shown) as outside, pytest.raises(httpx.TransportError):
            pytest.fail(f"{why}: {outside.get(f'{serving.management}/healthz')}")
    with httpx.Client(trust_env=False) as plain, pytest.raises(httpx.TransportError):
        plain.get(serving.management.replace("https", "http"))
    assert "Traceback" not in serving.said


HEADERS = {
    "client-cert": ":AAAA:",
    "ssl-client-cert": "x",
    "x-client-cert": "x",
    "x-forwarded-client-cert": "Hash={sha256}",
    "x-ssl-client-sha256": "{sha256}",
    "certificate": "sha256:{sha256}",
    "transom.certificate": "sha256:{sha256}",
    "authorization": "Certificate sha256:{sha256}",
}


def test_on_the_other_port_no_header_is_a_certificate(serve, authority, root):
    serving = serve(settings(root))
    assert serving.url.startswith("http://")
    with client(authority, root) as operator:
        for name, value in HEADERS.items():
            answer = operator.get(f"{serving.url}/v1/jobs", headers={name: value.format(sha256=root.sha256)})
            assert answer.status_code == 401, name
        answer = operator.get(f"{serving.url}/v1/jobs", headers={"authorization": f"Bearer {TOKEN}"})
        assert answer.status_code == 200


def test_the_other_port_encrypted_asks_for_no_certificate_and_takes_none(serve, authority, root):
    serving = serve(settings(root, 'cert_file = "server.crt"\nkey_file = "server.key"\n'))
    assert serving.url.startswith("https://")
    with client(authority, root) as operator:
        assert operator.get(f"{serving.url}/v1/jobs").status_code == 401
        answer = operator.get(f"{serving.url}/v1/jobs", headers={"authorization": f"Bearer {TOKEN}"})
        assert answer.status_code == 200
        assert operator.get(f"{serving.management}/v1/jobs").status_code == 200


ASKER = """
name: asker
model: scripted
tools: [oz.ask]
options:
  script:
    turns:
      - calls: [{ function: oz.ask, arguments: { question: "How many?" } }]
      - text: "{result}"
"""


def test_both_ports_end_promptly_on_sigterm_whoever_is_connected(serve, authority, root, folder):
    (folder / "bundle/agents").mkdir(parents=True)
    (folder / "bundle/agents/asker.yaml").write_text(ASKER)
    serving = serve(settings(root, 'bundle = ["bundle"]\ncert_file = "server.crt"\nkey_file = "server.key"\n'))
    with client(authority, root) as operator, ExitStack() as connected:
        for url in (serving.url, serving.management):  # one that never says a word, not even of TLS
            address = ("127.0.0.1", int(url.rpartition(":")[2]))
            connected.enter_context(socket.create_connection(address))
        bearer = {"authorization": f"Bearer {TOKEN}"}
        job = operator.post(f"{serving.url}/v1/agents/asker/jobs", headers=bearer).json()["id"]
        streams = []
        for url, headers in ((serving.url, bearer), (serving.management, {})):
            events = f"{url}/v1/jobs/{job}/events"
            stream = connected.enter_context(operator.stream("GET", events, headers=headers)).iter_lines()
            assert next(stream).startswith("id: 1-")
            streams.append(stream)
        assert serving.stop(seconds=10) == 0
        for stream in streams:
            assert list(stream)[-1] == ""
    assert "Traceback" not in serving.said


WRONG = {
    "no such file": ('cert_file = "none.crt"', "cert_file: none.crt cannot be used: there is no such file"),
    "no certificate": ('cert_file = "transom.toml"', "cert_file, key_file: transom.toml, transom.toml cannot be used"),
    "a key alone": ('key_file = "server.key"', "key_file: there is no cert_file beside it"),
    "another's key": ('cert_file = "server.crt"\nkey_file = "root.key"', "KEY_VALUES_MISMATCH"),
    "no key": ('cert_file = "server.crt"', "cert_file, key_file: server.crt, server.crt cannot be used"),
    "a key under a password": ('cert_file = "server.crt"\nkey_file = "locked.key"', "without a password"),
}


def refused(folder, text: str) -> str:
    """Why no port is opened with these settings."""
    (folder / "transom.toml").write_text(text)
    with pytest.raises(TransomError) as caught:
        listeners(load(str(folder / "transom.toml"), {}, port=0))
    return caught.value.message


@pytest.mark.parametrize("name", WRONG)
def test_files_that_will_not_do_are_named(authority, root, folder, name):
    authority.issue("locked").write_key(serialization.BestAvailableEncryption(b"secret"))
    lines, words = WRONG[name]
    assert words in refused(folder, settings(root, f"{lines}\n"))


def test_the_management_ports_files_are_named_by_their_table(root, folder):
    (folder / "authority.pem").write_text("no certificate")
    assert "management.client_ca_file: authority.pem cannot be used" in refused(folder, settings(root))
    (folder / "authority.pem").unlink()
    assert "management.client_ca_file: authority.pem cannot be used: No such file" in refused(folder, settings(root))


def test_a_table_without_the_clients_authority_is_refused(root, folder):
    text = settings(root).replace("client_ca_file", "# client_ca_file")
    assert "`client_ca_file` - at `$.management`" in refused(folder, text)


def test_a_management_port_that_is_taken_stops_the_start(serve, authority, root):
    taken = int(serve(settings(root)).url.rpartition(":")[2])
    second = serve(settings(root), management_port=taken)
    assert second.process.wait(timeout=20) not in (0, None)
    assert f"cannot listen on 127.0.0.1:{taken}" in second.said
