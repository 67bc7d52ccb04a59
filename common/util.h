/* SPDX-License-Identifier: MIT */
/* util.h - small things that every program needs and the C library lacks. */
#ifndef COMMON_UTIL_H
#define COMMON_UTIL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

#define NS_PER_SEC UINT64_C(1000000000)
#define NS_PER_MS UINT64_C(1000000)

/** This process's number as /proc has it, which is another one where that is of another PID name
 * space: or -ESRCH, where it has none, or there is no /proc. */
pid_t proc_self(void);

/** A clock in nanoseconds. */
static inline uint64_t time_clock_ns(clockid_t clock)
{
    struct timespec t = {0};

    (void)clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * NS_PER_SEC + (uint64_t)t.tv_nsec;
}

/** CLOCK_MONOTONIC in nanoseconds. */
static inline uint64_t time_now_ns(void)
{
    return time_clock_ns(CLOCK_MONOTONIC);
}

/** CPU time of the calling thread. */
static inline uint64_t time_cpu_ns(void)
{
    return time_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

/** pthread_cond_wait(3) until time_now_ns() has come to `deadline_ns` (UINT64_MAX: for ever),
 * whatever happens to the time of day: 0, or -ETIMEDOUT. */
int cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *mu, uint64_t deadline_ns);

/** The stack of each thread, whatever RLIMIT_STACK is: decoders need some 100 KiB, and sanitizers
 * several times as much. Only what is used takes memory. */
enum { THREAD_STACK_BYTES = 4 << 20 };

/** pthread_create(3) of a thread with such a stack that gets no signals but of its own faults: they
 * are for those that wait for them. `ret` is for pthread_join(3); NULL: nobody waits for its end. 0
 * or -errno. */
int thread_start(pthread_t *ret, void *(*run)(void *), void *arg);

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/**
 * For a loop that comes round at least once a beat, and measures how long others have been silent:
 * the time since the last call when we ourselves did not run for more than two beats, else 0. We
 * were stopped then, and perhaps those others with us (a batch system that suspends a job, a frozen
 * container, a machine that sleeps): that time counts against nobody.
 *
 * @param last_ns  of the loop's; 0: this is the first call
 */
static inline uint64_t time_not_run(uint64_t *last_ns, uint64_t now_ns, uint64_t beat_ns)
{
    uint64_t gap = *last_ns ? now_ns - *last_ns : 0;

    *last_ns = now_ns;
    return gap > 2 * beat_ns ? gap : 0;
}

/** A moment that is put off by such a gap; UINT64_MAX, never, stays. */
static inline uint64_t time_put_off(uint64_t when_ns, uint64_t gap_ns)
{
    return when_ns == UINT64_MAX ? when_ns : when_ns + gap_ns;
}

/** The sum, or UINT64_MAX where it is more: a time limit of "for ever" stays one. */
static inline uint64_t sum_u64(uint64_t a, uint64_t b)
{
    return a + b < a ? UINT64_MAX : a + b;
}

/** `value` up to the next multiple of `unit`, a power of two. */
static inline uint64_t align_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) & ~(unit - 1);
}

/** Fill `ret` with up to 256 bytes that nobody can guess: 0, or -EIO when the kernel has none. */
int random_bytes(void *ret, size_t bytes);

/** Fill `ret` with 2 * bytes hexadecimal digits that nobody can guess, and a NUL: 0, or -EIO when
 * the kernel has no random numbers. */
int random_hex(char *ret, size_t bytes);

/** Is this signal ignored? (nohup(1), and a shell that starts a job in the background, see to
 * it.) */
bool signal_is_ignored(int signal);

/** Block these signals, and have them come as reads (struct signalfd_siginfo) of a non-blocking
 * descriptor, which is returned, or -errno. SIGPIPE is ignored. */
int io_open_signals(const int *signals, size_t count);

/** Write all of it, through EINTR and short writes: 0 or -errno. */
int io_write_all(int fd, const void *bytes, size_t len);

/**
 * Write a file: 0 or -errno (-EEXIST when it exists and may not be replaced). One that is replaced
 * is whole at every moment.
 */
int io_write_file(const char *path, const void *bytes, size_t len, bool replace);
/** "FOLDER/" of a file's path, "./" where it names none: malloc, or NULL. */
char *io_folder_of(const char *path);
/** A name of its own for what is to replace a file: "PATH.RANDOM" and the suffix, malloc: 0 or
 * -errno. Such files of ours that writers left behind, killed an hour ago or longer, are
 * removed. */
int io_name_temporary(const char *path, const char *suffix, char **ret);
/** Replace the file by way of this one, which a run that was killed may have left behind. */
int io_write_file_by(const char *temporary, const char *path, const void *bytes, size_t len);

/** Read up to `len` bytes at `offset`, less only where the file ends: how many, or -errno. */
int64_t io_pread_some(int fd, void *bytes, size_t len, uint64_t offset);
/** Read exactly `len` bytes at `offset`: 0, -errno, or -ENODATA when the file ends before. */
int io_pread_all(int fd, void *bytes, size_t len, uint64_t offset);
/** Write all of `len` bytes at `offset`: 0 or -errno; a part of them may then have been written. */
int io_pwrite_all(int fd, const void *bytes, size_t len, uint64_t offset);

/** Close an owned descriptor and forget it; a negative one is nothing. */
void io_close(int *fd);

/** Make an eventfd readable, or not: a wake that is lost would be waited for for ever. */
void io_event_set(int fd);
void io_event_clear(int fd);

/** Open /dev/null where a standard descriptor is closed: what is opened later shall not be found
 * there, and be read or written to as such. The first thing that main() does.
 *
 * @param mode  O_RDWR: what is written there is lost in silence. O_RDONLY: writing fails */
void io_fill_standard(int mode);

/** O_NONBLOCK on an open descriptor: 0 or -errno. */
int io_set_nonblock(int fd);
/** Have room for so many descriptors, beside those that every program has, as far as the hard limit
 * allows: how many are allowed now, in all. */
uint64_t io_raise_descriptors(uint64_t wanted);

/** Nobody can send descriptors to this Unix socket, nor to connections that it accepts (Linux 6.16;
 * before, nothing changes): a descriptor that is not taken is closed where it is read, and that may
 * take as long as its sender likes. */
void io_refuse_descriptors(int fd);
/** Room for a control message that carries one descriptor. */
union io_descriptor_room {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int))];
};

/** Have sendmsg(2) send this descriptor along. */
void io_attach_descriptor(struct msghdr *msg, union io_descriptor_room *room, int fd);

/** O_CLOEXEC on or off: 0 or -errno. */
int io_set_cloexec(int fd, bool on);

/** What stands in `text` behind `beginning`; NULL: it does not begin so. */
static inline const char *str_after(const char *text, const char *beginning)
{
    size_t len = strlen(beginning);

    return strncmp(text, beginning, len) == 0 ? text + len : NULL;
}

/**
 * A whole number in base 10, nothing before or after it, at most `max`: 0, -EINVAL (not a number),
 * or -ERANGE.
 */
int parse_u64(const char *text, uint64_t max, uint64_t *ret);
/** The same of the digits at `*text`, which then points at what follows them. */
int parse_next_u64(const char **text, uint64_t max, uint64_t *ret);

/** strtod(3) with a decimal point, whatever locale the program has set: a number, and `*end` behind
 * it, or at `text` where there is none. */
double parse_real(const char *text, char **end);

/** 2 * `bytes` hexadecimal digits, and no more: 0 or -EINVAL. */
int parse_hex(const char *text, unsigned char *ret, size_t bytes);

/** A number of bytes with an optional K, M, G or T (powers of 1024): 0, -EINVAL or -ERANGE. */
int parse_bytes(const char *text, uint64_t *ret);

/** A length of time: "90", "90s", "500ms", "5m", "2h", "7d" (seconds by default), in ns: 0, -EINVAL
 * or -ERANGE. */
int parse_duration(const char *text, uint64_t *ret);

/** "1.4 GiB", "312 B" into `text`; returns `text`. */
char *format_bytes(uint64_t bytes, char *text, size_t size);

/**
 * Have room for one entry more in an array of malloc(), which has `count`: it grows to twice its
 * size.
 *
 * @param array  address of the pointer to the array, which may change (NULL: there is none yet)
 * @param cap    entries that there is room for
 * @param size   bytes of an entry
 * Errors: -ENOMEM, and nothing has changed.
 */
int array_grow(void *array, size_t *cap, size_t count, size_t size);

/** asprintf() that answers NULL when memory is short. Owned by the caller. */
char *str_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** The name that is nearest to a word, for "did you mean": start with .word and .len, and give all
 * names in turn. name: less than 3 edits away, and fewer than it has letters, in capitals or not;
 * NULL: none. */
struct str_nearest {
    const char *word;
    size_t len;
    const char *name;
    size_t distance; /* of `name` */
};

void str_nearest_try(struct str_nearest *nearest, const char *name);

/** The largest r with r * r <= a * b. */
uint64_t sqrt_product(uint64_t a, uint64_t b);

#endif
