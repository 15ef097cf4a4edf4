"""The guarded way out: it reaches public addresses alone, whatever a name, a URL or a resolver says."""

import ipaddress
import shutil
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import anyio
import httpx
import pytest
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.tls import TLSListener

from transom import outbound
from transom.config import Config, Outbound
from transom.outbound import OutboundService, forbidden, networks
from transom_hookspecs import TransomError

pytestmark = pytest.mark.anyio

LOOPBACK = ("127.0.0.0/8", "::1/128")


class Server:
    """An HTTP server on loopback that says which Host it was asked for; `asked` has the heads, `opened` counts connections."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.asked: list[str] = []
        self.opened = 0
        self.answer = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"

    async def serve(self, stream: ByteStream) -> None:
        """Answer what one connection asks."""
        self.opened += 1
        head = b""
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
            async with stream:
                while True:
                    head += await stream.receive()
                    if head.endswith(b"\r\n\r\n"):
                        self.asked.append(head.decode())
                        head = b""
                        await stream.send(self.answer.encode())


@asynccontextmanager
async def server(context: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    """A running server, with TLS when a context is given."""
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        made = Server(listener.extra(SocketAttribute.local_port))
        tls = listener
        if context is not None:
            tls = TLSListener(listener, context, standard_compatible=False)
        async with anyio.create_task_group() as group:
            group.start_soon(tls.serve, made.serve)
            yield made
            group.cancel_scope.cancel()


@asynccontextmanager
async def guarded(
    *hosts: str, allow: tuple[str, ...] = LOOPBACK, dev: bool = False, ca: str = ""
) -> AsyncIterator[httpx.AsyncClient]:
    """A client whose requests go through the guarded way out."""
    service = OutboundService(Config(dev=dev, outbound=Outbound(allow_networks=allow, ca_file=ca)))
    async with httpx.AsyncClient(transport=service.guarded(hosts), timeout=5) as client:
        yield client


Names = Callable[..., list[str]]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    """Makes names resolve as told: each asking takes the next list of addresses, the last one stays."""
    table: dict[str, list[list[str]]] = {}
    asked: list[str] = []

    async def resolve(host: str, port: int) -> list[ipaddress.IPv4Address | ipaddress.IPv6Address]:
        asked.append(host)
        answers = table[host]
        found = answers.pop(0) if len(answers) > 1 else answers[0]
        return [ipaddress.ip_address(each) for each in found]

    def tell(host: str, *answers: list[str]) -> list[str]:
        table[host] = list(answers)
        return asked

    monkeypatch.setattr(outbound, "resolve", resolve)
    return tell


async def refusal(client: httpx.AsyncClient, url: str, *, code: str = "permission_denied") -> str:
    """Why a request is refused."""
    with pytest.raises(TransomError) as caught:
        await client.get(url)
    assert caught.value.code == code
    return caught.value.message


# -- addresses ------------------------------------------------------------------------------------------------------

FORBIDDEN = {
    "this host": "0.0.0.0",
    "loopback": "127.0.0.1",
    "all of loopback": "127.255.255.254",
    "private 10": "10.1.2.3",
    "private 172": "172.16.0.1",
    "private 192": "192.168.1.1",
    "shared": "100.64.0.1",
    "link local, metadata": "169.254.169.254",
    "metadata in the shared network": "100.100.100.200",
    "metadata among protocol assignments": "192.0.0.192",
    "metadata at an address that looks public": "168.63.129.16",
    "protocol assignments": "192.0.0.1",
    "documentation": "192.0.2.1",
    "6to4 relays": "192.88.99.1",
    "benchmarks": "198.18.0.1",
    "multicast": "224.0.0.1",
    "reserved": "240.0.0.1",
    "broadcast": "255.255.255.255",
    "v6 unspecified": "::",
    "v6 loopback": "::1",
    "v6 of v4, mapped": "::ffff:127.0.0.1",
    "v6 of v4, mapped, private": "::ffff:10.0.0.1",
    "v6 of v4, compatible": "::127.0.0.1",
    "v6 of v4, translated": "::ffff:0:127.0.0.1",
    "v6 of v4, NAT64": "64:ff9b::7f00:1",
    "v6 of v4, NAT64, metadata": "64:ff9b::a9fe:a9fe",
    "v6 of v4, local NAT64": "64:ff9b:1::7f00:1",
    "v6 of v4, 6to4": "2002:7f00:1::",
    "v6 of v4, 6to4, private": "2002:c0a8:101::1",
    "v6 of v4, Teredo": "2001:0:808:808::80ff:fffe",
    "v6 link local": "fe80::1",
    "v6 site local": "fec0::1",
    "v6 site local, its end": "feff:ffff::1",
    "v6 unique local": "fd00::1",
    "v6 documentation": "2001:db8::1",
    "v6 documentation, the larger": "3fff::1",
    "v6 segments": "5f00::1",
    "v6 discard": "100::1",
    "v6 multicast": "ff02::1",
}
PUBLIC = {
    "v4": "8.8.8.8",
    "v6": "2606:4700:4700::1111",
    "v6 of v4, mapped": "::ffff:8.8.8.8",
    "v6 of v4, NAT64": "64:ff9b::808:808",
    "v6 of v4, 6to4": "2002:808:808::1",
}


@pytest.mark.parametrize("text", FORBIDDEN.values(), ids=FORBIDDEN)
def test_an_address_that_is_not_public_is_forbidden(text):
    assert forbidden(ipaddress.ip_address(text), ())


@pytest.mark.parametrize("text", PUBLIC.values(), ids=PUBLIC)
def test_a_public_address_is_not_forbidden(text):
    assert not forbidden(ipaddress.ip_address(text), ())


def test_a_network_that_the_operator_listed_is_not_forbidden_and_nothing_beside_it():
    listed = networks(["10.1.0.0/16", "fd00:1::/32"])

    assert not forbidden(ipaddress.ip_address("10.1.2.3"), listed)
    assert not forbidden(ipaddress.ip_address("::ffff:10.1.2.3"), listed)
    assert not forbidden(ipaddress.ip_address("fd00:1::1"), listed)
    assert forbidden(ipaddress.ip_address("10.2.0.1"), listed)
    assert forbidden(ipaddress.ip_address("fd00:2::1"), listed)


def test_a_network_that_is_none_is_told():
    with pytest.raises(TransomError, match=r"outbound\.allow_networks: .*10\.0\.0\.0/99"):
        networks(["10.0.0.0/99"])


# -- what a URL says ------------------------------------------------------------------------------------------------

HIDDEN = {
    "plain": "127.0.0.1",
    "a name": "localhost",
    "a name with its dot": "localhost.",
    "a name in capitals": "LOCALHOST",
    "decimal": "2130706433",
    "hexadecimal": "0x7f000001",
    "hexadecimal and short": "0x7f.1",
    "octal": "017700000001",
    "short": "127.1",
    "zero": "0",
    "full-width dots": "127。0。0。1",
    "v6": "[::1]",
    "v6 mapped": "[::ffff:127.0.0.1]",
    "v6 mapped, hexadecimal": "[::ffff:7f00:1]",
    "v6 with a zone": "[fe80::1%25lo]",
}


@pytest.mark.parametrize("host", HIDDEN.values(), ids=HIDDEN)
async def test_loopback_is_not_reached_however_it_is_written(host):
    async with server() as served, guarded(allow=()) as client:
        with pytest.raises(TransomError) as caught:
            await client.get(f"http://{host}:{served.port}/")

    assert caught.value.code in ("permission_denied", "unavailable")  # a resolver need not know all of these forms
    assert served.opened == 0


@pytest.mark.parametrize("scheme", ["ftp", "file", "gopher", "ws"])
async def test_no_scheme_but_http_and_https_is_taken(scheme):
    """As a request to the transport itself: httpx's client takes no other scheme either."""
    transport = OutboundService(Config(dev=True)).guarded()

    with pytest.raises(TransomError, match=f"scheme '{scheme}' is not allowed; use http or https"):
        await transport.handle_async_request(httpx.Request("GET", f"{scheme}://127.0.0.1/"))


async def test_a_user_and_a_password_in_an_address_are_refused():
    async with guarded() as client:
        assert "user and password" in await refusal(client, "http://example.com:secret@127.0.0.1/")


async def test_only_the_hosts_that_were_named_are_reached(names):
    names("api.example.com", ["127.0.0.1"])
    names("xn--bcher-kva.example", ["127.0.0.1"])
    async with server() as served, guarded("example.com", "bücher.example") as client:
        assert (await client.get(f"http://api.example.com:{served.port}/")).text == "ok"
        assert (await client.get(f"http://bücher.example:{served.port}/")).text == "ok"
        for host in ("example.org", "badexample.com", "example.com.evil.test", "127.0.0.1"):
            assert "not among those" in await refusal(client, f"http://{host}:{served.port}/")


# -- what a resolver says -------------------------------------------------------------------------------------------


async def test_a_name_of_loopback_is_refused(names):
    names("inside.test", ["127.0.0.1"])
    async with server() as served, guarded(allow=()) as client:
        assert "'inside.test' has an address that is not public" in await refusal(client, f"http://inside.test:{served.port}/")
    assert served.opened == 0


async def test_one_address_that_is_not_public_refuses_the_name(names):
    names("both.test", ["8.8.8.8", "127.0.0.1"])
    async with guarded(allow=()) as client:
        await refusal(client, "http://both.test/")


async def test_a_name_that_leads_elsewhere_the_second_time_is_asked_once_a_request_and_checked_again(names):
    asked = names("rebinding.test", ["127.0.0.1"], ["10.0.0.1"])
    async with server() as served, guarded() as client:
        assert (await client.get(f"http://rebinding.test:{served.port}/")).text == "ok"
        assert asked == ["rebinding.test"]
        await refusal(client, f"http://rebinding.test:{served.port}/")
        assert asked == ["rebinding.test", "rebinding.test"]
    assert len(served.asked) == 1


async def test_a_name_without_addresses_is_unavailable(monkeypatch):
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    async with guarded() as client:
        assert "'nowhere.test' cannot be resolved" in await refusal(client, "http://nowhere.test/", code="unavailable")


async def test_the_servers_host_is_the_name_though_the_address_is_connected_to(names):
    names("named.test", ["127.0.0.1"])
    async with server() as served, guarded() as client:
        await client.get(f"http://named.test:{served.port}/path?q=1")
    (head,) = served.asked
    assert head.startswith("GET /path?q=1 HTTP/1.1\r\n")
    assert f"\r\nHost: named.test:{served.port}\r\n" in head


async def test_an_address_that_takes_no_connection_is_followed_by_the_next(names):
    names("several.test", ["127.0.0.2", "127.0.0.3", "127.0.0.1"])
    async with server() as served, guarded() as client:
        assert (await client.get(f"http://several.test:{served.port}/")).text == "ok"
    assert len(served.asked) == 1


async def test_when_no_address_takes_the_connection_that_is_said(names):
    names("down.test", ["127.0.0.2", "127.0.0.3"])
    async with server() as served, guarded() as client:
        with pytest.raises(httpx.ConnectError):
            await client.get(f"http://down.test:{served.port}/")


async def test_a_redirect_is_handed_back_and_not_followed(names):
    names("moved.test", ["127.0.0.1"])
    async with server() as served, guarded() as client:
        served.answer = "HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/\r\ncontent-length: 0\r\n\r\n"
        answer = await client.get(f"http://moved.test:{served.port}/")
    assert (answer.status_code, answer.headers["location"]) == (302, "http://169.254.169.254/")
    assert len(served.asked) == 1


async def test_where_a_client_follows_redirects_each_place_is_checked(names):
    names("moved.test", ["127.0.0.1"])
    names("169.254.169.254", ["169.254.169.254"])
    async with server() as served, guarded() as client:
        served.answer = "HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/\r\ncontent-length: 0\r\n\r\n"
        with pytest.raises(TransomError, match=r"'169\.254\.169\.254' has an address that is not public"):
            await client.get(f"http://moved.test:{served.port}/", follow_redirects=True)


async def test_in_development_a_private_address_is_reached():
    async with server() as served, guarded(allow=(), dev=True) as client:
        assert (await client.get(f"http://127.0.0.1:{served.port}/")).text == "ok"


async def test_no_proxy_of_the_environment_is_used(names, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    names("direct.test", ["127.0.0.1"])
    async with server() as served, guarded() as client:
        assert (await client.get(f"http://direct.test:{served.port}/")).text == "ok"


# -- TLS ------------------------------------------------------------------------------------------------------------


class Certificate:
    """A certificate of its own for some names, as a file; `context` serves with it, `asked` are the SNIs that came."""

    def __init__(self, folder: str, *names: str) -> None:
        self.file, key = f"{folder}/certificate.pem", f"{folder}/key.pem"
        described = ["-subj", f"/CN={names[0]}", "-addext", f"subjectAltName={','.join(f'DNS:{name}' for name in names)}"]
        made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
        subprocess.run([*made, "-keyout", key, "-out", self.file, *described], check=True, capture_output=True)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(self.file, key)
        self.asked: list[str | None] = []
        self.context.sni_callback = lambda _, name, __: self.asked.append(name)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """The certificate of evil.test and bücher.example."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is needed to make a certificate")
    return Certificate(str(tmp_path_factory.mktemp("tls")), "evil.test", "xn--bcher-kva.example")


async def test_a_connection_verified_for_one_name_carries_no_request_of_another(names, certificate):
    names("evil.test", ["127.0.0.1"])
    names("bank.test", ["127.0.0.1"])
    async with server(certificate.context) as served, guarded(ca=certificate.file) as client:
        assert (await client.get(f"https://evil.test:{served.port}/")).text == "ok"
        with pytest.raises(httpx.ConnectError, match="Hostname mismatch"):
            await client.get(f"https://bank.test:{served.port}/")
        assert (await client.get(f"https://evil.test:{served.port}/")).text == "ok"
    assert [head.count("evil.test") for head in served.asked] == [1, 1]
    assert served.opened == 1, "and a name's own connection is used again"


@pytest.mark.parametrize(
    ("host", "sni"),
    [("evil.test", "evil.test"), ("evil.test.", "evil.test"), ("bücher.example", "xn--bcher-kva.example")],
)
async def test_the_server_is_told_the_name_as_dns_writes_it(names, certificate, host, sni):
    names(sni, ["127.0.0.1"])
    names(f"{sni}.", ["127.0.0.1"])
    certificate.asked.clear()
    async with server(certificate.context) as served, guarded(ca=certificate.file) as client:
        assert (await client.get(f"https://{host}:{served.port}/")).text == "ok"
    assert certificate.asked == [sni]
