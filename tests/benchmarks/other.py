"""Another client, in a process of its own: `python other.py HOST PORT` asks for /healthz until its input ends.

Prints the worst and the 99th percentile of what it waited, in milliseconds.
"""

import http.client
import json
import select
import sys
import time


def main(host: str, port: int) -> None:
    """Ask, and print."""
    connection, waits = http.client.HTTPConnection(host, port), list[float]()
    while not select.select([sys.stdin], [], [], 0.002)[0]:
        began = time.perf_counter()
        connection.request("GET", "/healthz")
        connection.getresponse().read()
        waits.append((time.perf_counter() - began) * 1000)
    waits.sort()
    print(json.dumps([waits[-1], waits[int(len(waits) * 0.99)]]))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
