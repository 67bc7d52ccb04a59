# SPDX-License-Identifier: MIT
"""Runs random programs of collectives, half of which differ between instances; started by test_collectives.py.

    random_calls.py FOLDER SEED COUNT

Every instance draws the same programs, so it knows what all of them call and with which data. A step in which all make
the same call must give NumPy's result for all data. Any other step must raise the same kind of error in all instances,
with both calls in its message, and ends the program. Each program's outcome is written to FOLDER, to compare carriers.
"""

import errno
import hashlib
import os
import random
import sys
from typing import NamedTuple

import numpy as np

import pyplenum

job = pyplenum.job()
me, count = job.instance_index, job.num_instances

STRUCTURE = np.dtype([("a", "<i4"), ("b", "<f4")])
SAME_SIZE = {  # types whose elements have the same size
    1: ("int8", "uint8", "bool"),
    2: ("int16", "uint16", "float16", ">i2"),
    4: ("int32", "uint32", "float32", ">f4", ">i4"),
    8: ("int64", "uint64", "float64", "complex64", ">f8", ">u8", "datetime64[s]", STRUCTURE,
        np.dtype([("a", ">i4"), ("b", "<f4")])),
}
REDUCED = ("int32", "int64", "float32", "float64", "float16", ">f4", ">f8", ">i4", ">i8")
OPS = ("sum", "min", "max", "mean")
SHAPES = ((), (0,), (1,), (3,), (2, 3), (6,), (3, 2), (16,), (17,), (4, 0), (5, 7), (1000,))


class Call(NamedTuple):
    """An instance's call. Equal calls must succeed together."""

    kind: str
    dtype: object = None
    shape: tuple = ()
    detail: object = None  # root or reduction
    bad: int = -1  # the instance whose object cannot be pickled, or whose bytes differ


class Unpicklable:
    def __reduce__(self):
        raise RuntimeError("cannot be pickled")


def draw_call(rng):
    kind = rng.choice(("broadcast", "broadcast", "allreduce", "allreduce", "allreduce", "allgather", "barrier",
                       "reduce_scatter", "alltoall", "broadcast_object", "allgather_object", "same", "refused"))
    shape = rng.choice(SHAPES) if rng.random() < 0.97 else (70000,)
    dtype = rng.choice(rng.choice(list(SAME_SIZE.values())))
    root = rng.randrange(count)
    bad = rng.randrange(count) if rng.random() < 0.3 else -1
    if kind in ("reduce_scatter", "alltoall"):
        shape = (count * rng.choice((0, 1, 2, 7)), *shape)
    if kind in ("allreduce", "reduce_scatter"):
        return Call(kind, rng.choice(REDUCED), shape, rng.choice(OPS))
    if kind in ("broadcast", "allgather", "alltoall"):
        return Call(kind, dtype, shape, root if kind == "broadcast" else None)
    if kind == "broadcast_object":
        return Call(kind, detail=root, bad=root if bad >= 0 else -1)
    if kind in ("allgather_object", "same"):
        return Call(kind, bad=bad)
    return Call(kind)


def mutate(rng, calls):
    """Return a copy of a program with one change, which may be slight."""
    calls = list(calls)
    at = rng.randrange(len(calls))
    call = calls[at]
    how = rng.randrange(7)
    if how == 0:
        del calls[at]
    elif how == 1:
        calls.insert(at, draw_call(rng))
    elif how == 2 and call.kind in ("broadcast", "broadcast_object"):
        calls[at] = call._replace(detail=rng.randrange(count), bad=-1)
    elif how == 2 and call.kind in ("allreduce", "reduce_scatter"):
        calls[at] = call._replace(detail=rng.choice(OPS))
    elif how == 3 and call.kind in ("broadcast", "allgather", "alltoall"):
        calls[at] = call._replace(dtype=rng.choice(SAME_SIZE[np.dtype(call.dtype).itemsize]))
    elif how == 3 and call.kind in ("allreduce", "reduce_scatter"):
        calls[at] = call._replace(dtype=rng.choice(REDUCED))
    elif how == 4 and call.kind in ("reduce_scatter", "alltoall"):
        calls[at] = call._replace(shape=(call.shape[0] + count, *call.shape[1:]))
    elif how == 4 and call.dtype is not None:
        calls[at] = call._replace(shape=rng.choice(SHAPES))
    elif how == 5:
        calls[at], calls[0] = calls[0], calls[at]
    else:
        calls[at] = draw_call(rng)
    return calls


def said(call):
    """Return the parts of a call that are compared: sums accept any byte order."""
    if call.kind in ("allreduce", "reduce_scatter"):
        return call._replace(dtype=np.dtype(call.dtype).newbyteorder("=").str)
    if call.kind in ("broadcast", "allgather", "alltoall"):
        return call._replace(dtype=repr(np.dtype(call.dtype)))
    return Call(call.kind, detail=call.detail if call.kind == "broadcast_object" else None)


def data_of(where, instance, call):
    """Return an instance's data. Sums of its floats are exact in any order."""
    rng = np.random.default_rng([*where, instance])
    dtype = np.dtype(call.dtype)
    values = rng.integers(-100, 100, call.shape)
    reduced_too = call.kind in ("allreduce", "reduce_scatter")
    if reduced_too and call.detail in ("min", "max") and dtype.kind == "f":
        values = np.where(rng.random(call.shape) < 0.1, rng.choice([np.nan, np.inf, -np.inf, -0.0, 0.0], call.shape),
                          values)
    elif reduced_too and dtype.kind == "i":
        values = values * (np.iinfo(dtype).max // 120)
    if dtype.fields:
        x = np.zeros(call.shape, dtype)
        for name in dtype.names:
            x[name] = values
        return x
    return np.asarray(values).astype(dtype)


def reduced(call, everybody):
    """Compute the result with NumPy; a mean of integers is rounded towards zero."""
    stack = np.stack([x.astype(x.dtype.newbyteorder("=")) for x in everybody])
    if call.detail == "min":
        return np.minimum.reduce(stack)
    if call.detail == "max":
        return np.maximum.reduce(stack)
    wide = np.dtype(np.float32) if stack.dtype == np.float16 else stack.dtype
    total = np.add.reduce(stack, dtype=wide)
    if call.detail == "sum":
        return total.astype(stack.dtype)
    if stack.dtype.kind == "f":
        return (total / wide.type(count)).astype(stack.dtype)
    return np.array([int(abs(int(v)) // count) * (1 if v >= 0 else -1) for v in total.ravel()],
                    stack.dtype).reshape(total.shape)


def gathered(everybody):
    """Do what np.stack() does, but keep the byte order."""
    x = np.empty((count, *everybody[0].shape), everybody[0].dtype)
    for i, given in enumerate(everybody):
        x[i] = given
    return x


def exchanged(everybody):
    """Compute what alltoall() returns here."""
    return np.concatenate([np.split(x, count)[me] for x in everybody])


def result_of(call, everybody):
    if call.kind == "broadcast":
        return everybody[call.detail]
    if call.kind == "reduce_scatter":
        return np.split(reduced(call, everybody), count)[me]
    return {"allreduce": lambda: reduced(call, everybody), "allgather": lambda: gathered(everybody),
            "alltoall": lambda: exchanged(everybody)}[call.kind]()


def expect_equal(got, want, call):
    assert got.shape == want.shape, (call, got.shape, want.shape)
    assert got.dtype == np.dtype(call.dtype), (call, got.dtype)
    if got.dtype.fields:
        assert got.tobytes() == want.tobytes(), call
    else:
        np.testing.assert_array_equal(got, want, str(call))


def expect_told(bad, error):
    """Check that the instances `bad`, whose objects cannot be pickled, get the pickling error, and that the others get
    an error that names an instance."""
    if me in bad:
        assert isinstance(error, RuntimeError) and "cannot be pickled" in str(error), error
    else:
        assert isinstance(error, pyplenum.PlenumError) and error.errno == errno.EBADMSG, error
        assert f"instance {min(bad)} cannot pickle" in str(error), error


def run_refused():
    """Check that arguments that no other process could use are rejected before anything is sent."""
    for x in (np.array([{}], object), np.zeros(2, [("a", "i4"), ("b", "O")]), np.ma.masked_array([1, 2], [0, 1])):
        for function in (job.broadcast, job.allgather, job.same, job.allreduce):
            try:
                function(x)
            except TypeError as error:
                assert "broadcast_object() or allgather_object()" in str(error) or "mask" in str(error), error
            else:
                raise AssertionError(f"{x!r} was taken")


def run_same(where, bad):
    x = np.arange(100 + where[2], dtype=np.int16)
    x[7] += me in bad
    try:
        job.same(x)
    except pyplenum.PlenumError as error:
        if error.errno != errno.EBADMSG:
            raise
        assert 0 < len(bad) < count, (bad, error)
        assert len(bad) * 2 >= count or all(str(i) in str(error) for i in bad), (bad, error)
    else:
        assert len(bad) in (0, count), bad


def run_objects(where, call, bad):
    mine = Unpicklable() if me in bad else {"where": where, "instance": me, "filler": "x" * where[1]}
    if call.kind == "broadcast_object":
        bad = bad & {call.detail}
    try:
        got = (job.broadcast_object(mine, call.detail) if call.kind == "broadcast_object" else
               job.allgather_object(mine))
    except (pyplenum.PlenumError, RuntimeError) as error:
        if isinstance(error, pyplenum.PlenumError) and error.errno == errno.EIO:
            raise
        assert bad, (call, error)
        expect_told(bad, error)
        return type(error).__name__
    assert not bad, (call, bad)
    if call.kind == "broadcast_object":
        assert me == call.detail or got["instance"] == call.detail, got
    else:
        assert [x["instance"] for x in got] == list(range(count)), got
    return "objects"


def run_call(where, call, bad):
    """Make the call, check its result if there is one, and record it."""
    if call.kind == "barrier":
        return job.barrier()
    if call.kind == "same":
        return run_same(where, bad)
    if call.kind in ("broadcast_object", "allgather_object"):
        return run_objects(where, call, bad)
    return run_arrays(where, call)


def run_arrays(where, call):
    x = data_of(where, me, call)
    before = x.copy()
    try:
        got = (job.allgather(x) if call.kind == "allgather" else job.alltoall(x) if call.kind == "alltoall" else
               getattr(job, call.kind)(x, call.detail))
    except pyplenum.PlenumError:
        assert x.tobytes() == before.tobytes(), f"{call} has failed and changed its array"
        raise
    everybody = [data_of(where, i, call) for i in range(count)]
    expect_equal(got, result_of(call, everybody), call)
    if got.dtype.kind == "f":
        got = np.where(np.isnan(got), np.nan, got)
    return got.tobytes()


def run_program(where, programs):
    """Make this instance's calls. The last one is a unique call, so that no instance waits for ever for another."""
    ends = [[call for call in program if call.kind != "refused"] for program in programs]
    log = hashlib.blake2b(digest_size=8)
    if any(call.kind == "refused" for call in programs[me]):
        run_refused()
    for step in range(len(ends[me]) + 1):
        all_calls = [said(p[step]) if step < len(p) else "end" for p in ends]
        call = ends[me][step] if step < len(ends[me]) else None
        bad = {i for i in range(count) if step < len(ends[i]) and ends[i][step].bad == i}
        if len(set(all_calls)) > 1:
            return expect_mismatch((*where, step), call, bad, ends, all_calls)
        if call is None:
            run_end(where)
        else:
            log.update(repr(run_call((*where, step), call, bad)).encode())
    return "well " + log.hexdigest()


def run_end(where):
    job.allgather(np.array([where[1]], "timedelta64[s]"))


def expect_mismatch(where, call, bad, ends, all_calls):
    step = where[2]
    other = next(i for i in range(count) if all_calls[i] != all_calls[me])
    names = [p[step].kind if step < len(p) else "allgather" for p in ends]
    try:
        if call is None:
            run_end(where)
        else:
            run_call(where, call, bad)
    except pyplenum.PlenumError as error:
        text = str(error)
        assert error.errno == errno.EIO, error
        assert f"this instance calls {names[me]} (" in text, (text, all_calls)
        assert f"while instance {other} calls {names[other]} (" in text, (text, all_calls)
        assert text.endswith("all must make the same calls in the same order"), (text, all_calls)
        return f"differs at {step}: {text}"
    raise AssertionError(f"instance {me}, program {where}, step {step}: {all_calls} has succeeded")


def main():
    folder, seed, programs = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    with open(os.path.join(folder, f"log-{me}"), "w", encoding="utf-8") as log:
        for number in range(programs):
            rng = random.Random(f"{seed} {count} {number}")
            calls = [draw_call(rng) for _ in range(rng.randint(1, 5))]
            odd = rng.randrange(count) if rng.random() < 0.5 else -1
            both = rng.random() < 0.2  # two instances differ, perhaps in different ways
            drawn = [mutate(rng, calls) if i == odd or (both and i == (odd + 1) % count and odd >= 0) else calls
                     for i in range(count)]
            print(run_program((seed, number), drawn), file=log)


main()
