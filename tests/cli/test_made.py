"""Commands made of the table of operations."""

import json
from contextlib import asynccontextmanager
from types import SimpleNamespace

import click
import depot
import httpx
import pytest
from click.testing import CliRunner

from transom_cli.commands import COMMANDS
from transom_cli.commands.made import with_made
from transom_cli.remote import RemoteClient
from transom_hookspecs import Operation, TransomError

BY_NAME = {operation.name: operation for operation in depot.OPERATIONS}


class Launcher:
    """A kernel that calls the handlers; what was called is kept."""

    config_path = ""

    def __init__(self) -> None:
        self.requests: list = []

    @asynccontextmanager
    async def embedded(self, **_: object):
        yield self

    async def call(self, name: str, request, origin):
        self.requests.append(request)

        async def audit(**_: object) -> None: ...

        return await BY_NAME[name].handler(SimpleNamespace(origin=origin, audit=audit), request)


@pytest.fixture
def launcher() -> Launcher:
    return Launcher()


@pytest.fixture
def transom(launcher, monkeypatch):
    for name in ("TRANSOM_URL", "OZ0_URL", "TRANSOM_TENANT"):
        monkeypatch.delenv(name, raising=False)
    group = click.Group("transom", commands={command.name: command for command in with_made(COMMANDS, depot.OPERATIONS)})

    def run(*args: str, input: str | bytes | None = None):
        return CliRunner().invoke(group, list(args), input=input, obj=launcher, prog_name="transom")

    return run


def put(launcher, transom, *args: str) -> depot.PutThing:
    result = transom("depot", "put", "lamp", "3", *args)
    assert result.exit_code == 0, result.output
    return launcher.requests[-1]


@pytest.mark.parametrize(
    ("args", "fields"),
    [
        pytest.param((), {}, id="nothing but what is needed"),
        pytest.param(("--colour", "blue"), {"colour": "blue"}, id="a choice"),
        pytest.param(("--weight", "2.5"), {"weight": 2.5}, id="a number or null"),
        pytest.param(("--fragile",), {"fragile": True}, id="a flag"),
        pytest.param(("--no-insured",), {"insured": False}, id="a flag that is on"),
        pytest.param(("--checked",), {"checked": True}, id="yes, no, or neither: yes"),
        pytest.param(("--no-checked",), {"checked": False}, id="yes, no, or neither: no"),
        pytest.param(("--tag", "a", "--tag", "-b"), {"tag": ("a", "-b")}, id="a list"),
        pytest.param(("--tag", ""), {"tag": ("",)}, id="an empty word, where nothing given is no null"),
        pytest.param(("--rooms", "1", "--rooms", "2"), {"rooms": (1, 2)}, id="a list of numbers"),
        pytest.param(("--notes", '{"a": [1]}'), {"notes": {"a": [1]}}, id="JSON"),
        pytest.param(("--depot-url", "x"), {"url": "x"}, id="a name that an option of all commands has"),
    ],
)
def test_options_become_the_requests_fields(launcher, transom, args, fields):
    assert put(launcher, transom, *args) == depot.PutThing(name="lamp", size=3, **fields)


def test_an_empty_list_can_be_given_where_nothing_given_leaves_it_as_it_is(launcher, transom):
    tags = Operation(
        name="Tag",
        request=type("Tag", (depot.msgspec.Struct,), {"__annotations__": {"words": "tuple[str, ...] | None"}, "words": None}),
        response=depot.Nothing,
        permission="",
        handler=depot.archive,
        command="tag",
    )
    BY_NAME["Tag"] = tags
    (command,) = with_made((), [tags])
    for args, words in (([], None), (["--words", ""], ()), (["--words", "a", "--words", ""], ("a", ""))):
        assert CliRunner().invoke(command, args, obj=launcher).exit_code == 0
        assert launcher.requests[-1].words == words


def test_json_stands_in_a_file_or_on_standard_input(launcher, transom, tmp_path):
    file = tmp_path / "notes.json"
    file.write_text('{"from": "file"}')
    assert put(launcher, transom, "--notes", f"@{file}").notes == {"from": "file"}
    assert transom("depot", "put", "lamp", "3", "--notes", "-", input='{"from": "stdin"}').exit_code == 0
    assert launcher.requests[-1].notes == {"from": "stdin"}


def test_of_two_required_lists_one_is_an_argument_and_one_an_option(launcher, transom):
    result = transom("depot", "join", "bolt", "yes", "a", "b", '{"metres": 2}', "--places", "1", "--places", "2")
    assert result.exit_code == 0, result.output
    expected = depot.Join(how="bolt", exact=True, parts=("a", "b"), places=(1, 2), plan=depot.Size(metres=2))
    assert launcher.requests == [expected]
    assert transom("depot", "join", "bolt", "no", "a", '{"metres": 2}').exit_code == 2


@pytest.mark.parametrize(
    ("args", "says"),
    [
        pytest.param(("lamp",), "SIZE", id="something is missing"),
        pytest.param(("lamp", "ten"), "integer", id="no number"),
        pytest.param(("lamp", "10"), "1<=x<=9", id="out of bounds"),
        pytest.param(("Lamp", "1"), "NAME: Expected `str` matching regex", id="not of the form"),
        pytest.param(("lamp", "1", "--colour", "green"), "'red', 'blue'", id="none of the choices"),
        pytest.param(("lamp", "1", "--notes", "{"), "--notes", id="no JSON"),
        pytest.param(("lamp", "1", "--notes", "[]"), "NOTES: Expected `object`, got `array`", id="JSON of another kind"),
        pytest.param(("lamp", "1", "--notes", "@/no/file"), "cannot be read", id="no file"),
        pytest.param(("lamp", "1", "--colours", "red"), "--colour", id="an option that is none"),
    ],
)
def test_what_does_not_fit_is_2_and_names_the_field(launcher, transom, args, says):
    result = transom("depot", "put", *args)
    assert (result.exit_code, launcher.requests) == (2, [])
    assert says in result.stderr


def test_help_says_what_everything_is(transom):
    text = transom("depot", "put", "--help").stdout
    assert "Usage: transom depot put [OPTIONS] NAME SIZE" in text
    for line in (
        "Put a thing on a shelf.",
        "Its place is found by the depot.",
        "Needs the permission depot.use.",
        "NAME  What it is called.",
        "SIZE  In metres and kilograms.",
        "--weight FLOAT",
        "[default: red]",
        "--insured / --no-insured",
        "[default: yes]",
        "Words to find it by, as many as there are. May be",
        "Where it was bought.",
        "--tenant NAME",
    ):
        assert line in text, text
    assert "--no-fragile" not in text
    arguments = transom("depot", "join", "--help").stdout
    assert "[OPTIONS] HOW EXACT PARTS... PLAN" in arguments
    assert "HOW    One of: glue, bolt." in arguments
    assert "EXACT  One of: yes, no." in arguments
    listed = transom("depot", "--help").stdout
    assert "put     Put a thing away." in listed
    assert "list    The things." in listed, "the request tells what the operation does not"
    assert "How many. [default: 50]" in transom("depot", "list", "-h").stdout
    assert "Commands of depot." in transom("--help").stdout


def test_a_written_group_gets_the_made_commands_and_keeps_its_own(launcher, transom):
    listed = transom("job", "--help").stdout
    assert "archive" in listed
    assert "Look at jobs, follow, cancel and tag them." in listed
    result = transom("job", "archive", "mine")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "Done.\n")
    assert launcher.requests == [depot.Archive(id="mine")]
    assert "List recent jobs" in transom("job", "list", "--help").stdout, "what was written is not replaced"
    group = next(command for command in COMMANDS if command.name == "job")
    assert "archive" not in group.commands, "the written group is another kernel's too"


def test_words_may_be_one_or_many(launcher, transom):
    assert transom("stock").exit_code == 0
    assert transom("depot", "shelf", "show", "lamp").exit_code == 0
    assert "show" in transom("depot", "shelf", "--help").stdout


@pytest.mark.parametrize(
    ("args", "near"),
    [(("depot", "putt"), "put"), (("depot", "shelf", "sho"), "show"), (("job", "archiv"), "archive"), (("job", "gett"), "get")],
)
def test_a_mistyped_command_is_answered_with_what_is_near(transom, args, near):
    result = transom(*args)
    assert result.exit_code == 2
    assert f"No such command '{args[-1]}'. Did you mean {near}" in result.stderr
    assert "Did you mean" not in transom("depot", "xyzzy").stderr


# -- answers --------------------------------------------------------------------------------------------------------


def test_a_list_is_a_table_without_what_no_row_tells(transom):
    result = transom("depot", "list")
    lines = [line.split("  ") for line in result.stdout.splitlines()]
    heads = [word.strip() for word in lines[0] if word]
    assert heads == ["colour", "id", "created at", "expires at", "size", "tags", "price", "text"]
    assert lines[1][0] == "red"
    assert "2026-02-2" in result.stdout
    assert "never" in result.stdout
    assert "a, b" in result.stdout
    assert '{"metres":2,"litres":1.5}' in result.stdout
    assert result.stderr == ""


def test_a_next_page_is_told_of_and_an_empty_one_says_so(transom):
    assert "--cursor next" in transom("depot", "list", "--limit", "1").stderr
    result = transom("depot", "list", "--limit", "0")
    assert (result.stdout, result.stderr) == ("", "There are no things.\n")


def test_anything_else_is_a_line_a_field(transom):
    lines = transom("depot", "shelf", "show", "lamp").stdout.splitlines()
    assert lines[1].split() == ["id", "lamp"]
    assert next(line for line in lines if line.startswith("expires at")).split()[-1] == "-"
    assert [line.split() for line in lines if line.startswith("fragile")] == [["fragile", "no"]]
    assert lines[lines.index("size") + 1] == "  metres  2"
    assert lines[lines.index("text") + 1 :] == ["  one", "  two"]


def test_texts_are_lines(launcher, transom):
    class Exported(depot.msgspec.Struct):
        lines: tuple[str, ...]
        cursor: str = ""

    async def export(name, request, origin):
        return Exported(lines=('{"a":  1}', "\x1b[2J"), cursor="next")

    launcher.call = export
    result = transom("depot", "list")
    assert result.stdout == '{"a":  1}\n\\x1b[2J\n'
    assert "--cursor next" in result.stderr


def test_several_lists_are_named_below_the_other_fields(transom):
    result = transom("stock")
    assert result.stdout.startswith("checked  2\n\ngood:\ncolour  id")
    assert result.stdout.endswith("\nbad:\n")
    assert "There are no bad." in result.stderr


@pytest.mark.parametrize(
    "answer",
    [depot.Told(heard="\x1b[2J"), depot.Told(heard="a\n\x1b[2J"), depot.Things(things=(depot.Thing(id="\x1b[2J", colour=""),))],
)
def test_what_others_wrote_cannot_write_to_the_terminal(launcher, transom, answer):
    async def tell(name, request, origin):
        return answer

    launcher.call = tell
    printed = transom("depot", "list").stdout
    assert "\x1b" not in printed
    assert "\\x1b[2J" in printed


def test_json_is_the_answer_as_its_struct_has_it(transom):
    answer = json.loads(transom("depot", "list", "--limit", "1", "--json").stdout)
    assert answer["cursor"] == "next"
    assert answer["things"][0]["created_at"] == depot.NOW


def test_an_error_of_the_operation_has_its_exit_code(launcher, transom):
    async def refuse(name, request, origin):
        raise TransomError("permission_denied", "depot.use is not permitted")

    launcher.call = refuse
    assert transom("depot", "list").exit_code == 5
    assert json.loads(transom("depot", "list", "--json").stderr)["code"] == "permission_denied"


# -- secrets --------------------------------------------------------------------------------------------------------


def test_secrets_are_lines_of_standard_input(launcher, transom):
    result = transom("depot", "unlock", "door", input="1234\nsp are\nmore\n")
    assert (result.exit_code, result.stdout) == (0, "heard  door 4 sp are\n")
    transom("depot", "unlock", "door", input="1234")
    assert launcher.requests[-1] == depot.Unlock(lock="door", code="1234")


def test_a_single_secret_is_all_of_standard_input_but_its_last_line_end(launcher, transom):
    transom("depot", "seal", "door", input="-----BEGIN\nabc\n-----END\r\n")
    assert launcher.requests[-1].text == "-----BEGIN\nabc\n-----END"


@pytest.mark.parametrize(("input", "says"), [("", "CODE: nothing stands"), ("\nspare\n", "CODE: nothing"), (b"\xff", "UTF-8")])
def test_a_secret_that_is_missing_or_no_text_is_2(launcher, transom, input, says):
    result = transom("depot", "unlock", "door", input=input)
    assert (result.exit_code, launcher.requests) == (2, [])
    assert says in result.stderr


def test_a_secret_that_does_not_fit_is_not_shown(transom):
    result = transom("depot", "unlock", "door", input="xyz\n")
    assert result.exit_code == 2
    assert "CODE: its form is not what it must be." in result.stderr
    assert "xyz" not in result.output


def test_secrets_are_neither_arguments_nor_options_and_help_says_how_they_are_given(transom):
    text = transom("depot", "unlock", "--help").stdout
    assert "[OPTIONS] LOCK\n" in text
    assert "--code" not in text
    assert "CODE and SPARE: asked for at a terminal, never shown; else each a line of" in " ".join(text.split())
    assert "CODE  Four digits or more." in text


# -- a server -------------------------------------------------------------------------------------------------------


def client_of(answers: list, requests: list) -> RemoteClient:
    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        found = answers.pop(0)
        if isinstance(found, int):
            return httpx.Response(found, json={"code": "unavailable" if found == 503 else "internal", "message": "no"})
        return httpx.Response(200, content=depot.msgspec.json.encode(found))

    http = httpx.AsyncClient(transport=httpx.MockTransport(answer), base_url="https://edge.example")
    return RemoteClient(http, "acme", pause=0)


@pytest.mark.anyio
async def test_a_server_is_asked_at_the_route_of_all_operations():
    requests: list[httpx.Request] = []
    client = client_of([depot.Things(things=(depot.LAMP, depot.ROPE), cursor="next")], requests)
    answer = await client.call(BY_NAME["ListThings"], depot.ListThings(limit=2))
    assert answer == depot.Things(things=(depot.LAMP, depot.ROPE), cursor="next")
    (request,) = requests
    assert (request.method, request.url.raw_path) == ("POST", b"/v1/operations/ListThings?tenant=acme")
    assert json.loads(request.content) == {"limit": 2, "cursor": ""}
    assert "idempotency-key" not in request.headers


@pytest.mark.anyio
async def test_a_call_is_sent_again_where_that_does_nothing_twice():
    requests: list[httpx.Request] = []
    client = client_of([503, 503, depot.Told(heard="once")], requests)
    await client.call(BY_NAME["PutThing"], depot.PutThing(name="a", size=1))
    keys = {request.headers["idempotency-key"] for request in requests}
    assert (len(requests), len(keys)) == (3, 1)
    reading = client_of([503, depot.Things(things=())], requests := [])
    await reading.call(BY_NAME["ListThings"], depot.ListThings())
    assert len(requests) == 2
    writing = client_of([503, depot.Nothing()], requests := [])
    with pytest.raises(TransomError):
        await writing.call(BY_NAME["ArchiveJob"], depot.Archive(id="a"))
    assert len(requests) == 1
