"""What every HTTP door needs: requests read the same careful way, errors told alike, and event streams.

A door imports the modules by name: `heads` (path, query, headers), `bodies` (JSON, text, forms, all bounded), `answers`
(statuses and JSON), `handlers` (a Litestar handler whose errors become answers) and `streams` (Server-Sent Events). Nothing
here knows an operation. The package itself imports nothing, since Litestar is loaded only when doors are registered.
"""
