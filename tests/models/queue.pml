/* SPDX-License-Identifier: MIT */
/* queue.pml - how samples get from I/O threads to workers (loader/serve/queue.c): no thread sleeps for ever.
 *
 * An I/O thread takes a task and a free item under the queue's lock, reads without the lock, and puts the item into a
 * node queue under that queue's lock. A worker takes items from its own node queue, otherwise from another. Workers
 * sleep on the condition of their node queue, I/O threads on the queue's. Two rules ensure that they are woken:
 * hand_over() counts an item before it checks which workers are idle, and a worker marks itself idle before it checks
 * the count; and a worker that frees an item wakes an I/O thread only if few items are left to render.
 *
 * A worker hands back a bad sample, and a substitute is read. Storage may hang, and the reader with it; if all readers
 * hang, queue_beat() starts another, which brings its own item. (It also wakes all sleeping threads now and then. The
 * model leaves this out: nothing may depend on it.)
 *
 * Checked in all interleavings: every task is rendered once (asserts), even while one read hangs, except for that task;
 * and then all threads end when they are told to stop (no invalid end state).
 *
 * COUNT_LATE, IDLE_LATE, SIGNAL_RARELY and NO_SPARE introduce bugs on purpose: spin must find each of them.
 */
#define WORKERS 2 /* each has its own node queue */
#define READERS 1
#define ITEMS 3
#define TASKS 4
#define BAD 1     /* samples that are handed back */
#define HANGS 1   /* reads that hang */
#define FEW 1     /* in queue.c: workers + I/O threads, with twice as many items */

bool queue_locked = false, node_locked[WORKERS];
byte untaken = TASKS, unfinished = TASKS, free_items = ITEMS, items = ITEMS;
byte bad = BAD, may_hang = HANGS, readers = READERS, hanging = 0;
byte in_node[WORKERS], idle[WORKERS];
byte ready = 0; /* atomic_uint: items in all node queues */
bool stop = false, lane_stop[WORKERS];

/* Conditions: which threads sleep, and which were woken and have not run yet. */
byte readers_asleep = 0, readers_woken = 0;
bool worker_asleep[WORKERS], worker_woken[WORKERS];

inline lock_queue() { atomic { !queue_locked -> queue_locked = true } }
inline lock_node(l) { atomic { !node_locked[l] -> node_locked[l] = true } }

inline signal_reader() {
    if
    :: readers_asleep > 0 -> readers_asleep--; readers_woken++
    :: else -> skip
    fi
}
inline signal_worker(l) {
    if
    :: worker_asleep[l] -> worker_asleep[l] = false; worker_woken[l] = true
    :: else -> skip
    fi
}

proctype reader() /* io_main() */
{
    byte node, other;
    bool taken;

    lock_queue();
    do
    :: stop -> break
    :: !stop && free_items > 0 && untaken > 0 ->
        free_items--;
        untaken--;
        queue_locked = false;
        if /* read_item() */
        :: may_hang > 0 -> /* it returns when all other tasks have been rendered */
            atomic { may_hang--; hanging++ };
            unfinished == hanging;
            hanging--
        :: true -> skip
        fi;
        if /* the stream's node */
        :: node = 0
        :: node = 1
        fi;
        lock_node(node); /* hand_over() */
        in_node[node]++;
#ifndef COUNT_LATE
        ready++;
#endif
        taken = (idle[node] > 0);
        if
        :: taken -> signal_worker(node)
        :: else -> skip
        fi;
        node_locked[node] = false;
        other = 0;
        do
        :: other < WORKERS && !taken ->
            lock_node(other);
            taken = (idle[other] > 0);
            if
            :: taken -> signal_worker(other)
            :: else -> skip
            fi;
            node_locked[other] = false;
            other++
        :: else -> break
        od;
#ifdef COUNT_LATE
        ready++;
#endif
        node = 0; other = 0; taken = false;
        lock_queue()
    :: !stop && !(free_items > 0 && untaken > 0) ->
        atomic { readers_asleep++; queue_locked = false };
        atomic { readers_woken > 0 -> readers_woken-- };
        lock_queue()
    od;
    queue_locked = false
}

proctype worker(byte own)
{
    byte node;
    bool ends = false, found;

    do
    :: ends -> break
    :: else -> /* next_item() */
        node = 0;
        found = false;
        do
        :: node < WORKERS && !found -> /* pop() */
            lock_node((own + node) % WORKERS);
            if
            :: in_node[(own + node) % WORKERS] > 0 -> in_node[(own + node) % WORKERS]--; ready--; found = true
            :: else -> skip
            fi;
            node_locked[(own + node) % WORKERS] = false;
            node++
        :: else -> break
        od;
        node = 0;
        if
        :: found -> /* work_on(), end_task() or hand_back() */
            found = false;
            lock_queue();
            assert(unfinished > 0);
            if
            :: bad > 0 -> bad--; untaken++; signal_reader()
            :: true -> unfinished--
            fi;
            free_items++;
            assert(free_items <= items);
#ifdef SIGNAL_RARELY
            if
            :: ready == FEW -> signal_reader()
#else
            if
            :: ready <= FEW -> signal_reader()
#endif
            :: else -> skip
            fi;
            queue_locked = false
        :: else ->
            lock_node(own);
#ifdef IDLE_LATE
            if
            :: !lane_stop[own] && ready == 0 ->
                node_locked[own] = false;
                lock_node(own);
                idle[own]++;
                atomic { worker_asleep[own] = true; node_locked[own] = false };
                atomic { worker_woken[own] -> worker_woken[own] = false };
                lock_node(own);
                idle[own]--
            :: else -> skip
            fi;
#else
            idle[own]++;
            if
            :: !lane_stop[own] && ready == 0 ->
                atomic { worker_asleep[own] = true; node_locked[own] = false };
                atomic { worker_woken[own] -> worker_woken[own] = false };
                lock_node(own)
            :: else -> skip
            fi;
            idle[own]--;
#endif
            ends = lane_stop[own];
            node_locked[own] = false
        fi
    od
}

/* queue_beat() while there is work, and stop_threads() when everything has been rendered */
active proctype loop()
{
    byte l;

    atomic { run reader(); run worker(0); run worker(1) };
    do
    :: unfinished == 0 -> break
#ifdef NO_SPARE
    :: false -> skip
#else
    :: untaken > 0 && hanging == readers ->
        lock_queue();
        if
        :: untaken > 0 && hanging == readers -> readers++; items++; free_items++; run reader()
        :: else -> skip
        fi;
        queue_locked = false
#endif
    od;
    lock_queue();
    stop = true;
    atomic { readers_woken = readers_woken + readers_asleep; readers_asleep = 0 };
    queue_locked = false;
    do
    :: l < WORKERS ->
        lock_node(l);
        lane_stop[l] = true;
        signal_worker(l);
        node_locked[l] = false;
        l++
    :: else -> break
    od;
    assert(ready == 0 && free_items == items && untaken == 0 && hanging == 0)
}
