/* SPDX-License-Identifier: MIT */
/* slot.pml - the slots of a stream (libdist/slot.c, schedule.c, session.c) with two loaders of its own host.
 *
 * Each loader has a ring of its own in shared memory, into which it writes whenever it likes. The client believes that it does so
 * only in slots that it was asked to fill and has not answered for. Batches are asked for in order, late ones a second time of
 * the other loader (a hedge); what is not needed any more is cancelled; connections are lost at any moment, and a loader that was given up
 * may write on (it was stopped, or is slow): its ring is then abandoned, and a new one is made for the next connection.
 *
 * What architecture.md 4.5 promises, and is checked here in all interleavings:
 *
 *   - a loader never writes into a slot that is ready or leased, nor into one that was asked for again (assert in `loader`)
 *   - batches are handed out once each, in order, and hold what they should (assert in `client`)
 *   - the stream never stands still while a loader is there: no invalid end state (spin's own check)
 *
 * The macros REUSE_CANCELLED and KEEP_RING make mistakes on purpose: with each of them spin must find one.
 */

#ifndef BATCHES
#define BATCHES 2
#endif
#define LOADERS 2
#define SLOTS 2   /* of a ring; no more batches than that are asked for, ready and leased together */
#define RINGS 2   /* how often a loader's connection may be made anew, and one */
#define LOSSES 1  /* connections lost in all */
#define NONE 255

/* enum slot_state of slot.h; CHECKING is left out: nothing is verified here. */
#define FREE 0
#define FILLING 1
#define CANCELLING 2
#define READY 3
#define LEASED 4

#define AT(l, r, s) ((l) * RINGS * SLOTS + (r) * SLOTS + (s))
byte state[LOADERS * RINGS * SLOTS];
byte content[LOADERS * RINGS * SLOTS]; /* batch number that was written there last */
byte ring[LOADERS];                    /* that the client's session with a loader has */
bool open[LOADERS];

/* Entries, in the order of delivery: which slot was asked for it. */
byte slot[BATCHES], hedge[BATCHES];
bool ready[BATCHES];
byte handed_out = 0, asked = 0, losses = 0;

/* Scratch of the client's, used within one atomic step: no part of a state. */
hidden byte l, s, i, e, found;
mtype = { RENDER, CANCEL, DONE, CANCELLED };
hidden mtype what;
/* To and from each loader, for each connection one. (what, slot of all, batch) */
chan to[LOADERS * RINGS] = [4] of { mtype, byte, byte };
chan from[LOADERS * RINGS] = [4] of { mtype, byte };
bool lost[LOADERS * RINGS]; /* the client has closed this one: nobody reads what comes from it */

/* One connection as the loader sees it: it goes on with what it was asked for even after the client has gone. */
proctype loader(byte conn)
{
    byte which, batch, job = NONE, job_batch;
    mtype word;

end:
    do
    :: atomic { to[conn]?word(which, batch) ->
        if
        :: word == RENDER && job == NONE -> job = which; job_batch = batch
        :: word == RENDER && job != NONE -> /* make the first one first */
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
        :: word == CANCEL && job != which -> skip /* it was answered with DONE already: that answer counts */
        fi;
        which = 0; batch = 0; word = RENDER }
    :: atomic { job != NONE -> /* writes, at any time; in one piece or in many makes no difference here */
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

/* ask(): a free slot, which `found` is then, is asked for batch e */
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
    /* schedule_release(): entries lose their slots; in an abandoned ring they stay what they are */
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

    /* schedule_pump(): an entry that has no slot, or the next one; of either loader */
    :: PUMP(0, 0)
    :: PUMP(0, 1)
    :: PUMP(1, 0)
    :: PUMP(1, 1)
#if BATCHES > 2
    :: PUMP(2, 0)
    :: PUMP(2, 1)
#endif

    /* It is late: the other loader is asked, too */
    :: atomic { handed_out < asked && !ready[handed_out] && slot[handed_out] != NONE && hedge[handed_out] == NONE &&
                HAS_FREE(1 - LOADER_OF(slot[handed_out])) ->
        e = handed_out;
        ask(1 - LOADER_OF(slot[e]));
        hedge[e] = found }

    /* A connection is lost, and made anew. A loader that is stopped is no other case: it is given up, and writes later. */
    :: atomic { losses < LOSSES && (open[0] || open[1]) ->
        losses++;
        if
        :: open[0] -> l = 0
        :: open[1] -> l = 1
        fi;
        forget_connection(l);
#ifdef KEEP_RING
        /* the same memory under a new connection: what the old one still writes goes into slots that are asked for again */
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
       /* the program reads, while loaders go on */
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
        :: what == DONE && state[s] == CANCELLING -> state[s] = FREE /* it was quicker than our word */
        :: what == DONE && state[s] == FILLING ->
            e = handed_out;
            do
            :: e < asked && slot[e] != s && hedge[e] != s -> e++
            :: else -> break
            od;
            assert(e < asked && !ready[e]);
            settle(e, s)
        :: else -> assert(false) /* an answer for a slot that nobody asked for */
        fi
    }
    goto loop;
over:
    skip
}
