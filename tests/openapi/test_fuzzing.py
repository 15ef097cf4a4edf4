"""A fuzzer that reads the document, against a real server: what it sends is in the document, and so is what comes back."""

import os
import subprocess
import sys

import anyio
import pytest
from servers import Server

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
)
"""What each answer is checked for. What the document allows may still be refused: no schema says which jobs there are."""

RUN = (
    *("--checks", ",".join(CHECKS), "--phases", "examples,coverage,fuzzing", "--max-examples", "3", "--seed", "1"),
    *("--request-timeout", "30", "--no-shrink", "--warnings", "off"),
)


@pytest.mark.req("REST-3", "REST-6")
async def test_every_answer_is_what_the_document_says(tmp_path):
    server = await Server(tmp_path / "data", TRANSOM_REST__STREAM="0.1").start()
    try:
        async with server.client("ada") as client:
            answer = await client.get("/v1/openapi.json")
        (tmp_path / "transom.json").write_bytes(answer.content)  # the fuzzer leaves out an operation that it read it from
        command = [sys.executable, "-m", "schemathesis.cli", "run", "transom.json", "--url", server.url, *RUN]
        command += ["-H", f"Authorization: Bearer {server.tokens['ada']}"]
        done = await anyio.run_process(
            command, check=False, stderr=subprocess.STDOUT, cwd=tmp_path, env={**os.environ, "NO_COLOR": "1"}
        )
        said = done.stdout.decode()
        assert done.returncode == 0, said[-8000:]
        count = sum(map(len, answer.json()["paths"].values()))
        assert f"Tested: {count}\n" in said, "every operation was"
    finally:
        server.stop()
