/* SPDX-License-Identifier: MIT */
/* keeper.pml - who keeps a job's own loader (common/jobloader.c, libdist/io.c, libdist/session.c).
 *
 * The processes of a job on one host know a name. Whoever connects and finds nobody there binds it: binding elects the keeper. The
 * keeper starts the loader when somebody waits, and starts it again when it dies. Keeper and loader both hold the socket, so the
 * name is free only when both are gone; the loader ends when its keeper does (the lifeline). Any process may be killed at any moment.
 *
 * Checked in all interleavings:
 *
 *   - never two keepers, never two loaders (asserts)
 *   - nobody is left behind: when the job's processes are gone, so is the loader (asserts at the end)
 *   - every process that lives is served in the end (no invalid end state: nobody waits for what will not come)
 *
 * NO_LEASH, TAKEN_IS_FINAL and LEAVE_THE_DEAD make mistakes on purpose: with each of them spin must find one.
 */
#ifndef PROCESSES
#define PROCESSES 3
#endif
#define KILLS 2
#define NONE 255

byte keeper = NONE;        /* who holds the socket and watches the loader */
bool loader_runs = false;  /* it holds the socket as well */
bool lifeline = false;        /* its other end is open */
byte loaders = 0, kills = 0;
bool alive[PROCESSES], waits[PROCESSES], served[PROCESSES]; /* waits: connected, in the backlog or with the loader */
byte living = PROCESSES;
byte p, q; /* scratch */

#define BOUND (keeper != NONE || loader_runs)

/* The socket is gone when the last of the two lets go of it: who waits there hears so. */
inline reset_if_gone() {
    if
    :: !BOUND ->
        q = 0;
        do
        :: q < PROCESSES -> waits[q] = false; q++
        :: else -> break
        od
    :: else -> skip
    fi
}

/* Who was served by this loader connects again; who waits in the backlog goes on waiting. */
inline loader_ends() {
    loader_runs = false;
    loaders--;
    reset_if_gone()
}

inline leave(who) {
    alive[who] = false;
    living--;
    waits[who] = false;
    if
    :: keeper == who -> keeper = NONE; lifeline = false; reset_if_gone()
    :: else -> skip
    fi
}

active proctype loader()
{
end:
    do
    :: atomic { loader_runs && waits[0] && !served[0] -> served[0] = true; waits[0] = false }
    :: atomic { loader_runs && waits[1] && !served[1] -> served[1] = true; waits[1] = false }
#if PROCESSES > 2
    :: atomic { loader_runs && waits[2] && !served[2] -> served[2] = true; waits[2] = false }
#endif
#ifndef NO_LEASH
    :: atomic { loader_runs && !lifeline -> loader_ends() }
#endif
    od
}

proctype process(byte me)
{
    bool taken = false;

    do
    /* address_connect() */
    :: atomic { alive[me] && !served[me] && !waits[me] && BOUND -> waits[me] = true; taken = false }
    /* nobody listens: jobloader_create(), which binds; -EADDRINUSE means another was quicker, and is no failure */
    :: alive[me] && !served[me] && !waits[me] && !BOUND ->
        if
        :: atomic { alive[me] && !BOUND -> assert(keeper == NONE); keeper = me }
        :: !alive[me] -> skip
        :: alive[me] && BOUND ->
#ifdef TAKEN_IS_FINAL
            taken = true;
            break
#else
            skip
#endif
        fi
    /* jobloader_dispatch(): somebody waits, and no loader runs */
    :: atomic { alive[me] && keeper == me && !loader_runs && (waits[0] || waits[1] || waits[PROCESSES - 1]) ->
        assert(loaders == 0);
        loader_runs = true;
        lifeline = true;
        loaders++ }
    :: atomic { alive[me] && keeper == me && loader_runs && !lifeline -> assert(false) } /* its own keeper is there */
    /* The job's work is done: it leaves. A keeper stays until the others need it no more, or leaves before: both happen. */
    :: atomic { served[me] && alive[me] ->
        leave(me);
        break }
    :: atomic { !alive[me] -> break } /* killed */
    od;
    assert(!taken)
}

/* Kills anybody, at any moment. */
active proctype faults()
{
    do
    :: atomic { kills < KILLS && loader_runs -> kills++;
#ifdef LEAVE_THE_DEAD
        loaders--; loader_runs = false; keeper = NONE /* and nobody is told */
#else
        loader_ends()
#endif
        }
    :: atomic { kills < KILLS && alive[0] -> kills++; leave(0) }
    :: atomic { kills < KILLS && alive[1] -> kills++; leave(1) }
    :: break
    od
}

init {
    atomic {
        p = 0;
        do
        :: p < PROCESSES -> alive[p] = true; run process(p); p++
        :: else -> break
        od
    }
    /* All processes have gone; the loader follows. */
    living == 0;
    !loader_runs;
    assert(keeper == NONE && loaders == 0)
}
