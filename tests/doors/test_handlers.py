"""A handler of a door answers its errors in the door's own words."""

import httpx
import pytest
from litestar import Litestar

from transom_doors.answers import Answer, status_of
from transom_doors.handlers import handler
from transom_hookspecs import TransomError

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.mark.parametrize(
    ("raised", "status", "text"),
    [
        (TransomError("not_found", "no such thing"), 404, "no such thing"),
        (ValueError("secret"), 500, "something went wrong here; the server's log has the cause"),
    ],
)
async def test_an_error_is_told_as_the_door_tells_it(raised, status, text, caplog):
    async def answer(request):
        raise raised

    def refuse(error):
        return Answer(status_of(error), error.message.encode(), media=b"text/plain")

    app = Litestar([handler("plain", "GET", "/plain", answer, refuse=refuse)], openapi_config=None, logging_config=None)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as client:
        response = await client.get("/plain")
    assert (response.status_code, response.text) == (status, text)
    assert response.headers["content-type"] == "text/plain"
    assert ("secret" in caplog.text) is isinstance(raised, ValueError)
