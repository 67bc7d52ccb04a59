/* SPDX-License-Identifier: MIT */
/* stop.pml - all instances of a job stop at the same step (launcher/job/agree.c, launcher/shim/inner_stop.c,
 * common/job/stop_page.h). tests/launcher/test_agree.c explores the same with the real code. This model is independent
 * of that test, and finer: each access to the shared page is a separate step.
 *
 * Two instances run in lockstep: a step ends when both have begun it. At any moment, plenumrun may propose a step to stop
 * at, and it may know an old step of the programs. Checked in all interleavings:
 *
 *   - no program begins a step at or above the decided one; both stop at the same one, or both complete (asserts in
 *     `program`)
 *   - no program waits for ever: no invalid end state (spin's own check)
 *
 * The macros CHECK_FIRST, IGNORE_REFUSAL and UNDECIDED introduce bugs on purpose: spin must find each.
 */

#define RANKS 2
#define STEPS 2
#define NONE 255 /* no limit */

/* The page of each program. Steps are stored as numbers from 1; 0: the program has not asked yet. */
byte asked[RANKS];
byte limit[RANKS];
bool decided[RANKS];

byte begun[RANKS]; /* 1 + the last step that the program began */
bool ended[RANKS]; /* the program has stopped, or completed its steps */
bool completed;    /* a program has completed its steps */
byte stopped_at = NONE, decision = NONE;

mtype = { PROPOSE, DECIDE, ANSWER, REPORT };
chan to[RANKS] = [3] of { mtype, byte, byte };         /* number, step */
chan from[RANKS] = [4] of { mtype, byte, bool, byte }; /* number, promised, asked */

proctype program(byte me)
{
    byte step = 0, bound;
    bool final;

    do
    :: step == STEPS -> assert(stopped_at == NONE); completed = true; break
    :: step < STEPS ->
#ifdef CHECK_FIRST
       bound = limit[me];
       asked[me] = step + 1;
#else
       asked[me] = step + 1;
       bound = limit[me];
#endif
       final = false;
       /* One word holds the limit and whether it is decided: both are read at once. */
       do
       :: step < bound -> break
       :: step >= bound -> atomic {
#ifdef UNDECIDED
              final = true;
#else
              limit[me] != bound || decided[me];
              bound = limit[me];
              final = decided[me] && step >= bound;
#endif
          }
          if
          :: final -> break
          :: else
          fi
       od
       if
       :: final ->
          assert(stopped_at == NONE || stopped_at == step);
          assert(!completed);
          stopped_at = step;
          break
       :: else ->
          assert(decision == NONE || step < decision);
          begun[me] = step + 1;
          begun[1 - me] > step || ended[1 - me]; /* a collective */
          step++
       fi
    od
    ended[me] = true
}

proctype shim(byte me)
{
    byte number, step, seen;
    bool reported = false;

end:
    do
    :: to[me]?PROPOSE(number, step) ->
       limit[me] = step;
       seen = asked[me];
       if
       :: seen <= step -> from[me]!ANSWER(number, true, seen)
       :: else ->
          limit[me] = NONE;
          from[me]!ANSWER(number, false, seen)
       fi
    :: to[me]?DECIDE(number, step) -> atomic { limit[me] = step; decided[me] = true }
    :: !reported && asked[me] > 0 -> from[me]!REPORT(0, false, asked[me]); reported = true
    od
}

proctype job()
{
    byte known[RANKS], number = 0, step, got, seen, answered[RANKS], margin = 1, r = 0;
    bool promised, refused = false;

    /* Wait until a program is known to ask. */
end:
    do
    :: from[0]?REPORT(_, _, seen) -> known[0] = seen; break
    :: from[1]?REPORT(_, _, seen) -> known[1] = seen; break
    od;
    if
    :: true -> goto propose
    :: true -> goto endidle /* no notice arrives */
    fi;
propose:
    atomic {
        number++;
        step = (known[0] > known[1] -> known[0] : known[1]) + margin - 1;
        answered[0] = 0;
        answered[1] = 0;
        refused = false;
    }
    to[0]!PROPOSE(number, step);
    to[1]!PROPOSE(number, step);
collect:
    do
    :: answered[0] && answered[1] -> break
    :: from[0]?ANSWER(got, promised, seen) -> r = 0; goto take
    :: from[1]?ANSWER(got, promised, seen) -> r = 1; goto take
    :: from[0]?REPORT(_, _, seen)
    :: from[1]?REPORT(_, _, seen)
    od;
#ifdef IGNORE_REFUSAL
    refused = false;
#endif
    if
    :: refused -> margin = margin * 2; goto propose
    :: else
    fi;
    decision = step;
    to[0]!DECIDE(number, step);
    to[1]!DECIDE(number, step);
    goto endidle;
take:
    known[r] = seen;
    if
    :: got == number ->
       answered[r] = 1;
       refused = refused || !promised
    :: else
    fi;
    goto collect;
endidle:
    do
    :: from[0]?REPORT(_, _, seen)
    :: from[1]?REPORT(_, _, seen)
    :: from[0]?ANSWER(_, _, seen)
    :: from[1]?ANSWER(_, _, seen)
    od
}

init
{
    atomic {
        limit[0] = NONE;
        limit[1] = NONE;
        run program(0);
        run program(1);
        run shim(0);
        run shim(1);
        run job()
    }
}
