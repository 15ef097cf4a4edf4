"""The kernel's own rows of the table of operations."""

import inspect
from typing import Any, cast

from transom_hookspecs import (
    DecideApproval,
    Decided,
    DecidedTogether,
    DecideTogether,
    EditWait,
    GetWait,
    ListApprovals,
    Operation,
    WaitPage,
    WaitView,
)
from transom_hookspecs import requests as table

from . import decisions, edits, jobs, together

OWN_OPERATIONS: tuple[Operation, ...] = tuple(
    Operation(
        name=request.__name__,
        request=request,
        response=response,
        permission=permission,
        handler=cast(Any, handler),
        audit=audit,
        late=late,
        idempotent=request in (table.StartJob, table.PublishEvent),
        stream=request is table.WatchJob,
        description=inspect.getdoc(request) or "",
    )
    for request, response, permission, handler, audit, late in (
        (table.StartJob, table.JobAnswer, "jobs.start", jobs.start_job, "run.start", True),
        (table.GetJob, table.JobView, "jobs.read", jobs.get_job, "", True),
        (table.ListJobs, table.JobPage, "jobs.read", jobs.list_jobs, "", False),
        (table.CancelJob, table.JobView, "jobs.cancel", jobs.cancel_job, "run.cancel", True),
        (table.WatchJob, table.WatchGrant, "feeds.read", jobs.watch_job, "", True),
        (ListApprovals, WaitPage, "jobs.read", decisions.approvals, "", False),
        (DecideApproval, Decided, "jobs.decide", decisions.decide, "approval.decide", True),
        (DecideTogether, DecidedTogether, "jobs.decide", together.decide_together, "approval.decide", True),
        (GetWait, WaitView, "jobs.read", together.get_wait, "", True),
        (EditWait, WaitView, "jobs.edit", edits.edit, "approval.edit", True),
        (table.GetJobTrace, table.JobTrace, "jobs.read", jobs.get_trace, "", True),
        (table.GetJobWait, table.JobWait, "jobs.read", jobs.get_wait, "", True),
        (table.GetCatalog, table.Catalog, "catalog.read", jobs.get_catalog, "", False),
        (table.SetJobTags, table.JobView, "jobs.tag", jobs.set_tags, "job.tag", True),
        (table.PublishEvent, table.Published, "events.publish", jobs.publish_event, "event.publish", False),
    )
)
