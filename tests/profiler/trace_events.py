"""What the trace-event format demands of a file, as far as a profile uses it.

After Duca and Sinclair, "Trace Event Format" (Google), section "JSON Object Format", and the tables
of complete, instant, counter and metadata events there.
"""

import numbers

PHASES = {"X": {"ts", "dur"}, "i": {"ts"}, "C": {"ts"}, "M": set()}  # and what each must have
METADATA = {"process_name", "thread_name"}


def faults(trace):
    """What is wrong with a trace, in words; nothing if viewers take it."""
    if not isinstance(trace, dict) or not isinstance(trace.get("traceEvents"), list):
        return ["a trace is an object with a list `traceEvents`"]
    found = []
    if trace.get("displayTimeUnit", "ms") not in {"ms", "ns"}:
        found.append("displayTimeUnit is ms or ns")
    for k, event in enumerate(trace["traceEvents"]):
        found += [f"event {k}: {words}" for words in faults_of_event(event)]
    return found or partial_overlaps(trace["traceEvents"])


def faults_of_event(event):
    """What is wrong with one event."""
    if event.get("ph") not in PHASES:
        return [f"phase {event.get('ph')!r}"]
    phase = event["ph"]
    found = [f"no {key}" for key in ("name", "pid", "tid", *PHASES[phase]) if key not in event]
    found += [f"{k} is no integer" for k in ("pid", "tid") if not is_integer(event.get(k))]
    for key in ("ts", "dur"):
        value = event.get(key, 0)
        if not isinstance(value, numbers.Real) or not value >= 0:
            found.append(f"{key} is {value!r}")
    if not isinstance(event.get("name"), str) or not isinstance(event.get("args", {}), dict):
        found.append("name is a text, args are an object")
    if "cat" in event and (not isinstance(event["cat"], str) or not event["cat"]):
        found.append("cat is a text of categories")
    if phase == "i" and event.get("s", "t") not in {"g", "p", "t"}:
        found.append("the scope of an instant is g, p or t")
    if phase == "M" and (event["name"] not in METADATA or "name" not in event["args"]):
        found.append("metadata that no viewer knows")
    if phase == "C" and not all(isinstance(v, numbers.Real) for v in event["args"].values()):
        found.append("a counter counts numbers")
    return found


def is_integer(value):
    """Whether a viewer, whose numbers are doubles, takes it as it is."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53


def partial_overlaps(events):
    """Complete events of one thread nest, or lie apart: viewers draw nothing else."""
    found, ends = [], {}
    complete = [e for e in events if e.get("ph") == "X"]
    for event in sorted(complete, key=lambda e: (e["tid"], e["ts"], -e["dur"])):
        around = ends.setdefault(event["tid"], [])
        end = event["ts"] + event["dur"]
        while around and around[-1] <= event["ts"]:
            around.pop()
        if around and end > around[-1] + 1e-6:  # rounding of microseconds
            found.append(f"{event['name']} reaches out of the event around it")
        around.append(end)
    return found
