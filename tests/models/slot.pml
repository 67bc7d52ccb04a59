/* SPDX-License-Identifier: MIT */
/* slot.pml - the slots of a stream (libdist/slot.c, schedule.c, loader_session.c, loader_session_input.c) with two
 * loaders on its own host.
 *
 * Each loader has its own ring in shared memory, and can write into it at any time. The client relies on it writing only
 * into slots that it was asked to fill and has not answered for. Batches are requested in order, and late ones a second
 * time from the other loader (a hedge); requests that are no longer needed are cancelled. Connections may be lost at any
 * moment, and an abandoned loader may continue to write (it was stopped, or is slow): its ring is then abandoned,
 * and the next connection gets a new one.
 *
 * architecture.md 4.5 promises the following, which is checked in all interleavings:
 *
 *   - a loader never writes into a slot that is ready or leased, nor into one that was requested again (assert in `loader`)
 *   - each batch is handed out once, in order, with the right contents (assert in `client`)
 *   - the stream never stalls while a loader is there: no invalid end state (spin's own check)
 *
 * The macros REUSE_CANCELLED and KEEP_RING introduce bugs on purpose: spin must find each of them.
 */

#ifndef BATCHES
#define BATCHES 2
#endif
#define LOADERS 2
#define SLOTS 2   /* in a ring; also the most batches that are requested, ready and leased at a time */
#define RINGS 2   /* per loader: one, and one for each reconnection */
#define LOSSES 1  /* connections lost in total */
#define NONE 255

/* enum slot_state in slot.h, without CHECKING: the model verifies no batches. */
#define FREE 0
#define FILLING 1
#define CANCELLING 2
#define READY 3
#define LEASED 4

#define AT(l, r, s) ((l) * RINGS * SLOTS + (r) * SLOTS + (s))
byte state[LOADERS * RINGS * SLOTS];
byte content[LOADERS * RINGS * SLOTS]; /* the batch that was last written there */
byte ring[LOADERS];                    /* the ring of the client's session with a loader */
bool open[LOADERS];

/* Entries in the order of delivery: the slot that was requested for each. */
byte slot[BATCHES], hedge[BATCHES];
bool ready[BATCHES];
byte handed_out = 0, asked = 0, losses = 0;

/* Scratch of the client, used within one atomic step: not part of a state. */
hidden byte l, s, i, e, found;
mtype = { RENDER, CANCEL, DONE, CANCELLED };
hidden mtype what;
/* To and from each loader, one channel per connection: (what, index among all slots, batch). */
chan to[LOADERS * RINGS] = [4] of { mtype, byte, byte };
chan from[LOADERS * RINGS] = [4] of { mtype, byte };
bool lost[LOADERS * RINGS]; /* the client has closed this connection, and reads nothing more from it */

/* One connection on the loader's side: it continues with requested batches even after the client has left. */
proctype loader(byte conn)
{
    byte which, batch, job = NONE, job_batch;
    mtype word;

end:
    do
    :: atomic { to[conn]?word(which, batch) ->
        if
        :: word == RENDER && job == NONE -> job = which; job_batch = batch
        :: word == RENDER && job != NONE -> /* finish the first one first */
            assert(state[job] == FILLING || state[job] == CANCELLING);
            content[job] = job_batch;
            if
            :: lost[conn] -> skip
            :: else -> from[conn]!DONE(job)
            fi;
            job = which;
            job_batch = batch
        :: word == CANCEL && job == which ->
            job = NONE;
            if
            :: lost[conn] -> skip
            :: else -> from[conn]!CANCELLED(which)
            fi
        :: word == CANCEL && job != which -> skip /* already answered with DONE: that answer counts */
        fi;
        which = 0; batch = 0; word = RENDER }
    :: atomic { job != NONE -> /* writes at any time; one write or many makes no difference here */
        assert(state[job] == FILLING || state[job] == CANCELLING);
        content[job] = job_batch;
        if
        :: lost[conn] -> job = NONE
        :: else -> from[conn]!DONE(job); job = NONE
        fi;
        job_batch = 0 }
    od
}

#define CONN(l) ((l) * RINGS + ring[l])

#define LOADER_OF(s) ((s) / (RINGS * SLOTS))
#define CONN_OF(s) ((s) / SLOTS)
#define IS_FREE(l, k) (state[AT(l, ring[l], k)] == FREE)
#define HAS_FREE(l) (open[l] && (IS_FREE(l, 0) || IS_FREE(l, 1)))

/* ask(): request batch e in a free slot, which `found` receives */
inline ask(of_loader) {
    l = of_loader;
    found = (IS_FREE(l, 0) -> AT(l, ring[l], 0) : AT(l, ring[l], 1));
    state[found] = FILLING;
    to[CONN_OF(found)]!RENDER(found, e)
}

#define PUMP(b, of_loader) \
    atomic { slot[b] == NONE && !ready[b] && b <= asked && b < handed_out + SLOTS && HAS_FREE(of_loader) -> \
        e = b; \
        asked = (e == asked -> asked + 1 : asked); \
        ask(of_loader); \
        slot[b] = found }

/* drop() and session_cancel() */
inline drop(s) {
    if
    :: s != NONE && state[s] == FILLING ->
#ifdef REUSE_CANCELLED
        state[s] = FREE;
#else
        state[s] = CANCELLING;
#endif
        to[CONN_OF(s)]!CANCEL(s, 0)
    :: else -> skip
    fi
}

/* settle(): the first answer wins */
inline settle(e, s) {
    if
    :: slot[e] == s -> drop(hedge[e])
    :: else -> drop(slot[e])
    fi;
    slot[e] = s;
    hedge[e] = NONE;
    ready[e] = true;
    state[s] = READY
}

inline forget_connection(l) {
    /* schedule_release(): entries lose their slots; the states of slots in an abandoned ring do not change */
    open[l] = false;
    lost[CONN(l)] = true;
    i = 0;
    do
    :: i < BATCHES ->
        if
        :: slot[i] != NONE && !ready[i] && CONN_OF(slot[i]) == CONN(l) -> slot[i] = hedge[i]; hedge[i] = NONE
        :: else -> skip
        fi;
        if
        :: hedge[i] != NONE && !ready[i] && CONN_OF(hedge[i]) == CONN(l) -> hedge[i] = NONE
        :: else -> skip
        fi;
        i++
    :: else -> break
    od
}

active proctype client()
{
    atomic {
        i = 0;
        do
        :: i < BATCHES -> slot[i] = NONE; hedge[i] = NONE; i++
        :: else -> break
        od;
        open[0] = true;
        open[1] = true;
        run loader(0); run loader(1); run loader(RINGS); run loader(RINGS + 1)
    }
loop:
    do
    /* An answer. (All of this holds the stream's lock.) */
    :: atomic { open[0] && nempty(from[CONN(0)]) -> from[CONN(0)]?what(s); goto answer }
    :: atomic { open[1] && nempty(from[CONN(1)]) -> from[CONN(1)]?what(s); goto answer }

    /* schedule_pump(): request an entry that has no slot, or the next one, from either loader */
    :: PUMP(0, 0)
    :: PUMP(0, 1)
    :: PUMP(1, 0)
    :: PUMP(1, 1)
#if BATCHES > 2
    :: PUMP(2, 0)
    :: PUMP(2, 1)
#endif

    /* The batch is late: request it from the other loader, too. */
    :: atomic { handed_out < asked && !ready[handed_out] && slot[handed_out] != NONE && hedge[handed_out] == NONE &&
                HAS_FREE(1 - LOADER_OF(slot[handed_out])) ->
        e = handed_out;
        ask(1 - LOADER_OF(slot[e]));
        hedge[e] = found }

    /* A connection is lost and re-established. A stopped loader is the same case: it is abandoned, and writes later. */
    :: atomic { losses < LOSSES && (open[0] || open[1]) ->
        losses++;
        if
        :: open[0] -> l = 0
        :: open[1] -> l = 1
        fi;
        forget_connection(l);
#ifdef KEEP_RING
        /* the new connection has the same memory: the old one still writes into slots that are requested again */
        state[AT(l, ring[l], 0)] = (state[AT(l, ring[l], 0)] == READY || state[AT(l, ring[l], 0)] == LEASED -> state[AT(l, ring[l], 0)] : FREE);
        state[AT(l, ring[l], 1)] = (state[AT(l, ring[l], 1)] == READY || state[AT(l, ring[l], 1)] == LEASED -> state[AT(l, ring[l], 1)] : FREE);
        lost[CONN(l)] = false;
#else
        ring[l]++;
#endif
        open[l] = true }

    /* plenum_stream_next() and plenum_batch_release() */
    :: atomic { handed_out < asked && ready[handed_out] ->
        s = slot[handed_out];
        assert(state[s] == READY);
        state[s] = LEASED }
       /* the program reads while loaders continue */
       atomic { s = slot[handed_out];
        assert(content[s] == handed_out);
        state[s] = FREE;
        handed_out++ }

    :: handed_out == BATCHES -> break
    od;
    goto over;

answer:
    atomic {
        if
        :: what == CANCELLED ->
            assert(state[s] == CANCELLING);
            state[s] = FREE
        :: what == DONE && state[s] == CANCELLING -> state[s] = FREE /* DONE crossed our CANCEL */
        :: what == DONE && state[s] == FILLING ->
            e = handed_out;
            do
            :: e < asked && slot[e] != s && hedge[e] != s -> e++
            :: else -> break
            od;
            assert(e < asked && !ready[e]);
            settle(e, s)
        :: else -> assert(false) /* an answer for a slot that was not requested */
        fi
    }
    goto loop;
over:
    skip
}
