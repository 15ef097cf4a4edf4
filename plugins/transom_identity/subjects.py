"""Subjects' tokens: short ones that a key's owner gives to the pages of those whom it serves."""

from transom_hookspecs import NEVER, Call, Operation, TransomError, Tx

from .checks import check_subject, wrong
from .credential_requests import CreateSubjectToken, SubjectToken
from .home import Home, add_credential
from .records import Credential, Key
from .rows import operation
from .tokens import digest, make, new_id

SHORTEST, LONGEST = 60, 3_600


class SubjectDesk:
    """The handler of CreateSubjectToken."""

    def __init__(self, home: Home) -> None:
        self._home = home

    def operations(self) -> list[Operation]:
        """Its row of the table."""
        return [
            operation(CreateSubjectToken, SubjectToken, self.create, "capability.subjects", audit="subject.token", late=True)
        ]

    async def create(self, call: Call, request: CreateSubjectToken) -> SubjectToken:
        """Make a token. It dies with the key at the latest."""
        caller, tenant = call.origin.caller, call.origin.tenant
        member = await self._home.member(caller, tenant) if caller.kind == "key" else None
        if member is None or "capability.subjects" not in member.rights:
            raise TransomError(
                "permission_denied", "tokens of subjects are made with an API key that has the capability 'subjects'"
            )
        subject = check_subject("subject", request.subject)
        if not SHORTEST <= request.expires_in <= LONGEST:
            raise wrong("expires_in", f"{request.expires_in} will not do", f"choose {SHORTEST} to {LONGEST:,} seconds")
        token = make("sub")

        def write(tx: Tx) -> SubjectToken:
            key = self._home.shown(tx.get(Key, caller.id))
            if key is None:
                raise TransomError("unauthenticated", "the key was revoked a moment ago")
            row = Credential(
                hash=digest(token),
                id=new_id(),
                form="sub",
                tenant=tenant,
                owner=f"subject:{subject}",
                parent=key.hash,
                label=key.label,
                key=key.name,
                scopes=key.scopes,
                expires_at=min(tx.now + request.expires_in * 1000, key.expires_at, NEVER),
                dev=key.dev,
            )
            add_credential(tx, row)
            return SubjectToken(token=token, subject_id=subject, expires_at=row.expires_at)

        return await call.transact(write, object=f"subject:{subject}")
