"""GetJobBoard: the notes of a job's tree, for people; their words only for those who may read content."""

from transom_hookspecs import Call, GetJobBoard, Job, JobBoard, Kernel, NoteView, Operation, TransomError, Verdict

from .notes import Note

_PAGE = 200


class BoardReader:
    """The handler of GetJobBoard; `kernel` is set while the plugin runs."""

    kernel: Kernel

    def operation(self) -> Operation:
        """Its row of the table."""
        return Operation(
            name="GetJobBoard",
            request=GetJobBoard,
            response=JobBoard,
            permission="jobs.read",
            audit="job.board.read",
            late=True,
            handler=self.read,
            description="The notes that the jobs of a tree pinned.",
        )

    async def read(self, call: Call, request: GetJobBoard) -> JobBoard:
        """Read a board; audited when words are shown.

        Raises:
            TransomError: not_found when there is no such job, permission_denied when the caller may not see it.
        """
        tenant = call.origin.tenant
        job = await self.kernel.store.get(tenant, Job, request.id)
        if job is None:
            await call.require("jobs.read", request.id)
            raise TransomError("not_found", f"there is no job {request.id!r} here")
        await call.require("jobs.read", job.id, job)
        verdict = await self._content(call, job)
        content = verdict.ruling == "allow"
        notes = tuple(_view(note, content=content) for note in await self._notes(tenant, job.tree))
        if content and notes:
            await call.audit(object=job.id, details={"notes": len(notes)})
        return JobBoard(tree=job.tree, notes=notes, content=content, redacted=verdict.label)

    async def _content(self, call: Call, job: Job) -> Verdict:
        """A board is the whole tree's: a child's reader sees its words only with a right to the root as well."""
        verdict = await self._shows(call, job)
        if verdict.ruling != "allow" or job.tree == job.id:
            return verdict
        root = await self.kernel.store.get(call.origin.tenant, Job, job.tree)
        return Verdict(ruling="deny") if root is None else await self._shows(call, root)

    async def _shows(self, call: Call, job: Job) -> Verdict:
        return await self.kernel.may(call.origin.caller, call.origin.tenant, "content.read", job.id, job)

    async def _notes(self, tenant: str, tree: str) -> list[Note]:
        notes: list[Note] = []
        while True:
            after = (notes[-1].number,) if notes else None
            page = await self.kernel.store.select(tenant, Note, "board", {"tree": tree}, after=after, limit=_PAGE)
            notes += page
            if len(page) < _PAGE:
                return notes


def _view(note: Note, *, content: bool) -> NoteView:
    return NoteView(
        id=note.number,
        kind=note.kind,
        job=note.job,
        agent=note.agent,
        at=note.at,
        text=note.text if content else "",
        tags=note.tags if content else (),
        supersedes=note.supersedes,
        superseded_by=note.superseded_by,
        tainted=note.tainted,
        labels=note.labels,
    )
