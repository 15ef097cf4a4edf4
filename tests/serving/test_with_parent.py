"""A server that a desktop program starts as its child ends with it, however that ends."""

import json
import os
import signal
import subprocess
import sys

import pytest

pytestmark = pytest.mark.req("KERN-8")

CHILD = """
import json, os, sys
from transom.launcher import KernelLauncher

def ready(url, kernel):
    print(json.dumps({"url": url, "pid": os.getpid()}), flush=True)

sys.exit(KernelLauncher("").serve(port=0, dev=True, ready=ready, with_parent=sys.argv[1] == "True"))
"""
PARENT = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {CHILD!r}, sys.argv[1]]).wait()"


@pytest.fixture
def parent(tmp_path, request):
    """A program with a server as its child; gives its process and what the server said of itself."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TRANSOM_")}
    with (tmp_path / "log").open("wb") as log:
        command = [sys.executable, "-c", PARENT, str(request.param)]
        process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=log, env=environment)
    said = json.loads(process.stdout.readline())
    yield process, said
    process.kill()
    process.wait()
    if not request.param:
        os.kill(said["pid"], signal.SIGKILL)
    process.stdout.close()


@pytest.mark.parametrize("parent", [True], indirect=True)
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=str)
def test_it_ends_with_its_parent(parent, how, tmp_path):
    process, _ = parent
    process.send_signal(how)
    process.wait(timeout=20)
    assert process.stdout.read() == b""  # the end of the pipe: the server, which had it too, is gone
    assert (tmp_path / "log").read_text() == ""


@pytest.mark.parametrize("parent", [False], indirect=True)
def test_without_being_asked_to_it_goes_on(parent):
    import httpx

    process, said = parent
    process.kill()
    process.wait(timeout=20)
    with httpx.Client(trust_env=False) as client:
        for _ in range(20):
            assert client.get(f"{said['url']}/healthz").status_code == 200
