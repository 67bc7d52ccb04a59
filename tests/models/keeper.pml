/* SPDX-License-Identifier: MIT */
/* keeper.pml - which process keeps a job's own loader (common/job/jobloader.c, libdist/io.c, libdist/loader_session.c).
 *
 * The processes of a job on one host know a socket name. A process that tries to connect and finds no listener binds the
 * name: this elects the keeper. The keeper starts the loader when a process waits, and restarts it when it dies. Keeper
 * and loader both hold the socket, so the name is free only when both are gone; the loader ends when its keeper does (the
 * lifeline). Any process may be killed at any moment.
 *
 * Checked in all interleavings:
 *
 *   - there are never two keepers and never two loaders (asserts)
 *   - nothing is left behind: when the job's processes are gone, so is the loader (asserts at the end)
 *   - every process that lives is served in the end (no invalid end state: no process waits for ever)
 *
 * NO_LEASH, TAKEN_IS_FINAL and LEAVE_THE_DEAD introduce bugs on purpose: spin must find each of them.
 */
#ifndef PROCESSES
#define PROCESSES 3
#endif
#define KILLS 2
#define NONE 255

byte keeper = NONE;        /* the process that holds the socket and watches the loader */
bool loader_runs = false;  /* it holds the socket as well */
bool lifeline = false;        /* the keeper's end is open */
byte loaders = 0, kills = 0;
bool alive[PROCESSES], waits[PROCESSES], served[PROCESSES]; /* waits: connected, in the backlog or with the loader */
byte living = PROCESSES;
byte p, q; /* scratch */

#define BOUND (keeper != NONE || loader_runs)

/* The socket is gone once keeper and loader have both closed it: then processes in its backlog are disconnected. */
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

/* Processes that this loader served reconnect; those in the backlog keep waiting. */
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
    /* no listener: jobloader_create() binds; -EADDRINUSE means that another process was faster, and is not a failure */
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
    /* jobloader_dispatch(): a process waits, and no loader runs */
    :: atomic { alive[me] && keeper == me && !loader_runs && (waits[0] || waits[1] || waits[PROCESSES - 1]) ->
        assert(loaders == 0);
        loader_runs = true;
        lifeline = true;
        loaders++ }
    /* a keeper that is alive holds the lifeline */
    :: atomic { alive[me] && keeper == me && loader_runs && !lifeline -> assert(false) }
    /* The job's work is done, and the process leaves. A keeper stays until the others no longer need it, or leaves early. */
    :: atomic { served[me] && alive[me] ->
        leave(me);
        break }
    :: atomic { !alive[me] -> break } /* killed */
    od;
    assert(!taken)
}

/* Kills any process at any moment. */
active proctype faults()
{
    do
    :: atomic { kills < KILLS && loader_runs -> kills++;
#ifdef LEAVE_THE_DEAD
        loaders--; loader_runs = false; keeper = NONE /* and no process notices */
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
    /* When all processes have ended, the loader ends, too. */
    living == 0;
    !loader_runs;
    assert(keeper == NONE && loaders == 0)
}
