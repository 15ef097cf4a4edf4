"""The kernel boots with no plugin at all, and says so."""

import json
import signal
import subprocess
import sys

import httpx
import pytest

from transom import Transom

pytestmark = pytest.mark.req("KERN-1")

BARE = """
import sys
from transom import load
from transom.plugins import installed
from transom.config import PluginsConfig
from transom.web import serve

names = tuple(found.name for found in installed())
plugins = {found.entry.module for found in installed()}

def ready(url, kernel):
    imported = sorted(plugins & set(sys.modules))
    print(url, *imported, flush=True)

serve(load("", {}, dev=True, port=0, plugins=PluginsConfig(block=names)), ready)
"""


def test_a_server_with_every_plugin_blocked_answers_at_healthz(tmp_path):
    with subprocess.Popen([sys.executable, "-c", BARE], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as server:
        try:
            url, *imported = server.stdout.readline().split()
            answer = httpx.get(f"{url}/healthz", trust_env=False)
            missing = httpx.get(f"{url}/v1/agents", trust_env=False)
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(20)
    assert imported == []
    assert answer.status_code == 200
    assert answer.json() == {
        "status": "ok",
        "plugins": 0,
        "problems": ["no plugin is loaded: there is no door, store or engine"],
    }
    assert (missing.status_code, missing.json()["code"]) == (404, "not_found")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.anyio
async def test_a_kernel_in_a_program_opens_without_one():
    async with Transom(entry_points=False) as transom:
        health = transom.kernel.health()
    assert (health.ok, health.plugins) == (True, 0)


def test_the_script_has_no_command_of_its_own(python, tmp_path):
    from transom.plugins import installed

    names = [found.name for found in installed()]
    (tmp_path / "transom.toml").write_text(f"[plugins]\nblock = {json.dumps(names)}\n")
    done = python("-m", "transom", "--help")
    assert done.returncode == 0
    assert "Commands:" not in done.stdout
    assert python("-m", "transom", "--version").stdout.startswith("transom, version ")
