"""Checks of names, durations, rights and pages that several operations make; each refusal names field and remedy."""

import re
from collections.abc import Collection, Sequence
from typing import TypeVar, get_args

import msgspec

from transom_hookspecs import NAME, Call, Caller, Role, TransomError

from .home import Home
from .requests import Page

R = TypeVar("R", bound=msgspec.Struct)

ROLES: tuple[Role, ...] = get_args(Role)

_DURATION = re.compile(r"([1-9][0-9]{0,8})([smhd])")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,127}")
_SUBJECT = re.compile(r"[\x21-\x7e]{1,200}")
_RIGHT = re.compile(r"-?[a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
MANY = 100
"""Values that a field may have at most."""


def check_name(field: str, name: str) -> str:
    """A name of letters, digits, - and _."""
    if not NAME.match(name):
        raise wrong(field, f"{name[:60]!r} is no name", "use letters, digits, - and _, at most 63, beginning with no sign")
    return name


def check_person(field: str, id: str) -> str:
    """A person's id: a name, or an address."""
    if not _ID.fullmatch(id):
        raise wrong(
            field, f"{id[:60]!r} is no person's id", "use letters, digits and ._@+-, at most 128, beginning with no sign"
        )
    return id


def check_subject(field: str, id: str) -> str:
    """A subject's id."""
    if not _SUBJECT.fullmatch(id):
        raise wrong(field, "it is no subject's id", "use 1 to 200 visible ASCII characters")
    return id


def check_text(field: str, text: str, most: int = 200) -> str:
    """A line of text for people, as long as `most` characters."""
    if len(text) > most or _CONTROL.search(text):
        raise wrong(field, "it is too long or has control characters", f"use one line of at most {most} characters")
    return text


def check_scopes(field: str, scopes: Sequence[str]) -> tuple[str, ...] | None:
    """Names of agents; none at all means no limit."""
    few(field, scopes)
    return tuple(sorted({check_name(field, scope) for scope in scopes})) or None


def check_rights(field: str, rights: Sequence[str]) -> tuple[str, ...]:
    """Permissions, each perhaps with a - before it."""
    few(field, rights)
    for right in rights:
        if not _RIGHT.fullmatch(right):
            raise wrong(
                field, f"{right[:60]!r} is no permission", "write one such as audit.read, or -feeds.read to take it away"
            )
    return tuple(sorted(set(rights)))


def few(field: str, values: Collection[str]) -> None:
    """Not more values than anybody needs."""
    if len(values) > MANY:
        raise wrong(field, f"it has {len(values)} values", f"give at most {MANY}")


def seconds_of(field: str, text: str, most: int) -> int:
    """A duration (`30d`, `12h`, `90m`, `3600s`) in seconds, of `most` seconds at most."""
    found = _DURATION.fullmatch(text)
    seconds = int(found[1]) * _UNITS[found[2]] if found else 0
    if not 0 < seconds <= most:
        raise wrong(
            field, f"{text[:40]!r} will not do", f"write a duration such as 30d, 12h or 90m, of at most {most // 86_400}d"
        )
    return seconds


def wrong(field: str, problem: str, remedy: str) -> TransomError:
    """An invalid_argument that names the field, the problem and the remedy."""
    return TransomError("invalid_argument", f"{field}: {problem}; {remedy}")


def missing(what: str, name: str) -> TransomError:
    """There is no such thing in this tenant."""
    return TransomError("not_found", f"there is no {what} {name[:128]!r} here")


def taken(what: str, name: str) -> TransomError:
    """There is one already."""
    return TransomError("already_exists", f"there is a {what} {name!r} already; choose another name")


def is_operator(caller: Caller) -> bool:
    """Whether the caller is of the process, not of a tenant."""
    return caller.kind in ("operator", "system") and not caller.tenant


async def check_no_more_than_own(
    home: Home,
    call: Call,
    *,
    roles: Sequence[Role | None],
    content: bool = False,
    rights: Sequence[str] = (),
    scopes: tuple[str, ...] | None = None,
) -> None:
    """Nobody gives, changes or takes what is more than her own: neither role, nor content, nor right, nor reach.

    Parameters:
        roles: those that are given or taken.
        content: whether content may be read by what is given.
        rights: those that are given.
        scopes: the reach that is given; None is every agent.

    Raises:
        TransomError: permission_denied.
    """
    caller, tenant = call.origin.caller, call.origin.tenant
    if is_operator(caller):
        return
    member = await home.member(caller, tenant)
    own = ROLES.index(member.role) if member is not None and member.role is not None else -1
    if any(role is not None and ROLES.index(role) > own for role in roles):
        raise TransomError("permission_denied", "a role above one's own is not one's to give, change or take")
    reach = [each for each in (caller.scopes, member.scopes if member else ()) if each is not None]
    if any(scopes is None or not set(scopes) <= set(each) for each in reach):
        raise TransomError("permission_denied", "scope: a key that reaches some agents gives nothing that reaches others")
    for right in (*rights, *(("content.read",) if content else ())):
        if not right.startswith("-"):
            await call.require(right)


def reads_content(role: Role, content: bool | None) -> bool:
    """Whether somebody of this role, and with this setting, may read content."""
    return role != "reader" if content is None else content


def is_herself(caller: Caller, person: str) -> bool:
    """Whether the caller is that person, and no app that acts for her."""
    return caller.is_person and caller.id == person and not caller.via.startswith("app:")


async def page(home: Home, tenant: str, type: type[R], request: Page, key: str = "name") -> tuple[list[R], str]:
    """A page of a tenant's records in the order of their key, and the cursor of the next page.

    Parameters:
        key: the field that they are ordered by.
    """
    limit = limit_of(request.limit)
    after = (request.cursor,) if request.cursor else None
    rows = await home.kernel.store.select(tenant, type, "all", after=after, limit=limit)
    cursor = getattr(rows[-1], key) if len(rows) == limit else ""
    return [row for row in rows if home.kernel.dev or not getattr(row, "dev", False)], cursor


def limit_of(limit: int) -> int:
    """A page's length."""
    if not 1 <= limit <= 200:
        raise wrong("limit", f"{limit} will not do", "ask for 1 to 200")
    return limit
