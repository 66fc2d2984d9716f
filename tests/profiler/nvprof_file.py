"""A file as nvprof writes it, made from the published schema of its SQLite tables.

The columns are those of CUPTI's activity records (`CUpti_ActivityMarker2`, `CUpti_ActivityAPI`,
`CUpti_ActivityKernel4` in CUPTI's documentation), as nvprof exports them; names are numbers of
strings, times are nanoseconds.
"""

import sqlite3

SCHEMA = """
CREATE TABLE StringTable (_id_ INTEGER PRIMARY KEY AUTOINCREMENT, value TEXT UNIQUE);
CREATE TABLE CUPTI_ACTIVITY_KIND_MARKER (
    _id_ INTEGER PRIMARY KEY AUTOINCREMENT, flags INT NOT NULL, timestamp INT NOT NULL,
    id INT NOT NULL, objectKind INT NOT NULL, objectId BLOB NOT NULL, name INT NOT NULL,
    domain INT NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (
    _id_ INTEGER PRIMARY KEY AUTOINCREMENT, cbid INT NOT NULL, start INT NOT NULL,
    end INT NOT NULL, processId INT NOT NULL, threadId INT NOT NULL, correlationId INT NOT NULL,
    returnValue INT NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL (
    _id_ INTEGER PRIMARY KEY AUTOINCREMENT, cacheConfig BLOB NOT NULL,
    sharedMemoryConfig INT NOT NULL, registersPerThread INT NOT NULL,
    partitionedGlobalCacheRequested INT NOT NULL, partitionedGlobalCacheExecuted INT NOT NULL,
    start INT NOT NULL, end INT NOT NULL, completed INT NOT NULL, deviceId INT NOT NULL,
    contextId INT NOT NULL, streamId INT NOT NULL, gridX INT NOT NULL, gridY INT NOT NULL,
    gridZ INT NOT NULL, blockX INT NOT NULL, blockY INT NOT NULL, blockZ INT NOT NULL,
    staticSharedMemory INT NOT NULL, dynamicSharedMemory INT NOT NULL,
    localMemoryPerThread INT NOT NULL, localMemoryTotal INT NOT NULL, correlationId INT NOT NULL,
    gridId INT NOT NULL, name INT NOT NULL, queued INT NOT NULL, submitted INT NOT NULL,
    launchType INT NOT NULL, isSharedMemoryCarveoutRequested INT NOT NULL,
    sharedMemoryCarveoutRequested INT NOT NULL, sharedMemoryExecuted INT NOT NULL);
"""
LAUNCH = 211  # cudaLaunchKernel from CUDA 9.2 on


def write(path, ranges, launches):
    """Write a file with `ranges`: (name, begin, end), and `launches`.

    A launch is the begin and end of the call on the CPU, then name, begin and end on the device.
    """
    with sqlite3.connect(path) as found:
        found.executescript(SCHEMA)
        strings = {}

        def number(text):
            if text not in strings:
                values = "INSERT INTO StringTable (value) VALUES (?)"
                strings[text] = found.execute(values, (text,)).lastrowid
            return strings[text]

        for k, (name, begin, end) in enumerate(ranges):
            insert(found, "MARKER", flags=2, timestamp=begin, id=k, name=number(name))
            insert(found, "MARKER", flags=4, timestamp=end, id=k, name=0)
        for k, (begin, end, name, start, stop) in enumerate(launches):
            insert(found, "RUNTIME", cbid=LAUNCH, start=begin, end=end, correlationId=k)
            kernel = {"start": start, "end": stop, "correlationId": k, "name": number(name)}
            insert(found, "CONCURRENT_KERNEL", **kernel)
    found.close()


def insert(found, table, **given):
    """Insert a row; what is not given is 0."""
    name = f"CUPTI_ACTIVITY_KIND_{table}"
    columns = [c[1] for c in found.execute(f"PRAGMA table_info({name})") if c[1] != "_id_"]
    marks = ", ".join("?" * len(columns))
    values = [given.get(column, 0) for column in columns]
    found.execute(f"INSERT INTO {name} ({', '.join(columns)}) VALUES ({marks})", values)  # noqa: S608 - names of the schema above
