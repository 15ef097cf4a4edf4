"""What it costs to know a caller and what she may: with 10,000 keys, 10,000 people and 1,000 grants."""

import asyncio
import random
import time
from pathlib import Path

from transom import Transom
from transom_hookspecs import Caller, RequestHead, Tx
from transom_identity import keys
from transom_identity.records import Credential, Key, Person
from transom_identity.tokens import digest, make
from transom_policy.book import AgentGrant
from transom_testing.fixtures import resolve, settings_of

MANY = 10_000
GRANTS = 1_000
ROUNDS = 10_000


async def microseconds(folder: Path) -> float:
    """CPU of authenticating a request and authorizing a start, in µs; half of the requests are keys', half people's."""
    tokens = {form: [make(form) for _ in range(MANY)] for form in ("key", "pat")}
    plugins = resolve(["identity", "policy", "sqlite"])
    async with Transom(settings_of({}, str(folder / "data")), plugins=plugins, entry_points=False) as transom:
        kernel = transom.kernel
        await kernel.store.transact("default", lambda tx: fill(tx, tokens["key"], tokens["pat"]))
        shown = random.Random(7).sample(tokens["key"], ROUNDS // 2) + random.Random(7).sample(tokens["pat"], ROUNDS // 2)
        heads = [
            RequestHead(method="POST", path="/v1/agents/echo/jobs", headers={"authorization": (f"Bearer {token}",)})
            for token in shown
        ]
        random.Random(7).shuffle(heads)

        async def one(head: RequestHead) -> Caller:
            caller = await kernel.authenticate(head)
            await kernel.may(caller, "default", "jobs.start", "echo")
            return caller

        for head in heads:  # each is known from its first request on, until something changes
            await one(head)
            await asyncio.sleep(0)
        begun = time.process_time()
        for head in heads:
            await one(head)
        return (time.process_time() - begun) / ROUNDS * 1e6


def fill(tx: Tx, key_tokens: list[str], person_tokens: list[str]) -> None:
    """The keys, people, their tokens and the grants."""
    for n, token in enumerate(key_tokens):
        key = Key(name=f"k{n}", hash=digest(token), role="member", created_at=tx.now)
        tx.put(key)
        tx.system.put(keys.credential_of(key, "default"))
    for n, token in enumerate(person_tokens):
        tx.put(Person(id=f"p{n}", role="member", created_at=tx.now))
        row = Credential(hash=digest(token), id=f"t{n}", form="pat", tenant="default", owner=f"person:p{n}")
        tx.system.put(row)
    for n in range(GRANTS):
        tx.put(AgentGrant(agent=f"a{n % 100}", to=f"person:p{n}"))
