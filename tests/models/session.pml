/* SPDX-License-Identifier: MIT */
/* session.pml - a loader's session with a TCP client (loader/serve/session*.c): when its memory may be freed, and which
 * batch owns a slot.
 *
 * The loop thread handles all events of a session; openings (openings.c) and rendering (queue.c) run in other threads and
 * report to the loop. Anything may happen at any moment: the client leaves, sends malformed messages, cancels, does not
 * read; the loader is asked to end (drain). The code's comments promise the following, which is checked in all
 * interleavings:
 *
 *   - memory is freed once, in session_maybe_free(), when no task writes into its slots, no opening will report to it, and
 *     no handle is open (asserts in `worker` and wherever the session is used)
 *   - a slot is in use from RENDER until its last byte is sent: the batch that is sent is the one that the answer names
 *     (assert where it is sent)
 *   - each batch is answered once; a draining session answers all batches that it accepted before it is closed
 *   - a session always ends (no invalid end state)
 *
 * FREE_EARLY, STAY_IN_LINE, FREE_WHEN_DONE and LEAVE_AT_ONCE introduce bugs on purpose: spin must find each of them.
 */
#define SLOTS 2
#define RENDERS 3
#define NONE 255

mtype = { HELLO, IDLE, OPENING, OPEN, CLOSING };
mtype state = HELLO;

bool freed = false, draining = false;
bool needs_room = false; /* an OPEN waits for its ring */
bool waiting = false;    /* for an opening: openings.c knows the session */
byte handles = 2, under_way = 0, asked = 0, sending = NONE, sending_id;
bool busy[SLOTS];
byte content[SLOTS]; /* the batch whose pixels are in the slot */
bool cancelled[RENDERS];
byte answered[RENDERS];

chan openings = [1] of { bit };
chan opened = [1] of { bit };
chan tasks = [RENDERS] of { byte, byte }; /* slot, batch */
chan finished = [RENDERS] of { byte, byte };
chan answers = [RENDERS] of { byte, byte };

/* Scratch of the loop, used within one atomic step. */
hidden byte slot, id;

active proctype opener()
{
end:
    do
    :: openings?_ -> opened!1
    od
}

active proctype worker()
{
    byte into, batch;

end:
    do
    :: tasks?into, batch ->
        if
        :: atomic { true -> /* one write or many makes no difference here */
            assert(!freed);
            content[into] = batch }
        :: cancelled[batch] || state == CLOSING -> skip
        fi;
        finished!into, batch
    od
}

inline session_close() {
    if
    :: state != CLOSING ->
        state = CLOSING;
        needs_room = false;
#ifdef STAY_IN_LINE
        skip
#else
        waiting = false
#endif
    :: else -> skip
    fi
}

inline maybe_free() {
    if
#ifdef FREE_EARLY
    :: handles == 0 ->
#else
    :: handles == 0 && under_way == 0 ->
#endif
        assert(!freed);
        freed = true
    :: else -> skip
    fi
}

active proctype loop()
{
    do
    /* ---- the client ---- */
    :: atomic { state == HELLO -> state = IDLE }
    :: atomic { state == IDLE -> state = OPENING; needs_room = true }
    :: atomic { state == OPEN && asked < RENDERS && !draining -> /* handle_render(); a draining session ignores requests */
        if
        :: !busy[0] -> slot = 0
        :: busy[0] && !busy[1] -> slot = 1
        :: busy[0] && busy[1] -> slot = NONE
        fi;
        if
        :: slot != NONE ->
            busy[slot] = true;
            under_way++;
            tasks!slot, asked;
            asked++
        :: else -> session_close() /* the client requests more than it announced */
        fi }
    :: atomic { state == OPEN && asked > 0 && !cancelled[asked - 1] -> cancelled[asked - 1] = true }
    :: atomic { state != CLOSING -> session_close() } /* the client leaves, is malformed, or leaves too much unread */

    /* ---- room and data set ---- */
    :: atomic { needs_room -> /* await_room() */
        assert(!freed && state == OPENING);
        needs_room = false;
        if
        :: true -> waiting = true; openings!1
        :: true -> session_close()
        fi }
    :: atomic { opened?[1] -> /* a session that no longer waits is not notified */
        opened?_;
        if
        :: waiting ->
            waiting = false;
            assert(!freed && state == OPENING); /* on_dataset_open() */
            if
            :: true -> state = OPEN
            :: true -> session_close()
            fi
        :: else -> skip
        fi }

    /* ---- batches ---- */
    :: atomic { finished?slot, id -> /* session_finished() */
        assert(!freed);
        under_way--;
        if
        :: state == CLOSING -> maybe_free()
        :: else ->
#ifdef FREE_WHEN_DONE
            busy[slot] = false;
#endif
            answers!slot, id
        fi }
    :: atomic { state == OPEN && sending == NONE && nempty(answers) -> /* put_answers() */
        answers?slot, id;
        answered[id]++;
        assert(answered[id] == 1);
        busy[slot] = false;
        if
        :: !cancelled[id] ->
#ifndef FREE_WHEN_DONE
            busy[slot] = true;
#endif
            sending = slot;
            sending_id = id
        :: else -> skip
        fi }
    :: atomic { state == OPEN && sending != NONE -> /* release_sent() */
        assert(content[sending] == sending_id);
        busy[sending] = false;
        sending = NONE }

    /* ---- the end ---- */
    :: atomic { !draining && !freed -> /* session_drain() */
        draining = true;
        if
        :: state != OPEN && state != CLOSING -> session_close()
        :: else -> skip
        fi }
#ifdef LEAVE_AT_ONCE
    :: atomic { state == OPEN && draining && under_way == 0 ->
#else
    :: atomic { state == OPEN && draining && under_way == 0 && empty(answers) && sending == NONE -> /* maybe_leave() */
#endif
        assert(asked < 1 || answered[0] == 1);
        assert(asked < 2 || answered[1] == 1);
        assert(asked < 3 || answered[2] == 1);
        session_close() }
    :: atomic { state == CLOSING && handles > 0 -> handles--; maybe_free() } /* session_on_handle_closed() */
    :: freed && empty(finished) && empty(opened) && empty(openings) -> break
    od;
    assert(under_way == 0 && handles == 0)
}
