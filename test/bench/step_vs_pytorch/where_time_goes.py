#!/usr/bin/env python3
"""Sums a trace of omnibal-run (--trace) by kernel: where_time_goes.py TRACE.json"""
import collections
import json
import sys


def main():
    with open(sys.argv[1]) as file:
        events = json.load(file)
    events = events["traceEvents"] if isinstance(events, dict) else events
    lanes = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e.get("name") == "thread_name"}
    time, calls = collections.Counter(), collections.Counter()
    for event in events:
        if event.get("ph") == "X" and lanes.get((event["pid"], event["tid"])) in ("kernels", "reduce"):
            time[event["name"]] += event["dur"] / 1e3
            calls[event["name"]] += 1
    total = sum(time.values())
    print(f"{'kernel':24s} {'calls':>6s} {'ms':>9s} {'share':>7s}")
    for name, milliseconds in time.most_common():
        print(f"{name:24s} {calls[name]:6d} {milliseconds:9.1f} {100 * milliseconds / total:6.1f}%")
    print(f"{'all':24s} {sum(calls.values()):6d} {total:9.1f}")


if __name__ == "__main__":
    main()
