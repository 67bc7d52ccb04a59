/* SPDX-License-Identifier: MIT */
/* util.h - small functions that every program needs and the C library lacks. */
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

/** Returns this process's id as seen in /proc, which differs if /proc belongs to another PID
 *  namespace; or -ESRCH if it has none there, or if there is no /proc. */
pid_t proc_self(void);

/** Returns a clock's time in nanoseconds. */
static inline uint64_t time_clock_ns(clockid_t clock)
{
    struct timespec t = {0};

    (void)clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * NS_PER_SEC + (uint64_t)t.tv_nsec;
}

/** Returns CLOCK_MONOTONIC in nanoseconds. */
static inline uint64_t time_now_ns(void)
{
    return time_clock_ns(CLOCK_MONOTONIC);
}

/** Returns the CPU time of the calling thread in nanoseconds. */
static inline uint64_t time_cpu_ns(void)
{
    return time_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

/** Like pthread_cond_wait(3), but only until time_now_ns() reaches `deadline_ns` (UINT64_MAX: for
 * ever), even if the time of day is changed. Returns 0, or -ETIMEDOUT. */
int cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *mu, uint64_t deadline_ns);

/** Stack size of each thread, regardless of RLIMIT_STACK: decoders need about 100 KiB, and
 *  sanitizers several times that. Only used pages take memory. */
enum { THREAD_STACK_BYTES = 4 << 20 };

/** Like pthread_create(3), but the thread has a stack of THREAD_STACK_BYTES and receives no signals
 * except its own faults; other signals go to the threads that wait for them. `ret` is for
 * pthread_join(3); NULL: the thread is detached. Returns 0 or -errno. */
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
 * For a loop that runs at least once per beat and measures how long others have been silent. If
 * this process did not run for more than two beats, returns the time since the last call, otherwise
 * 0. During that time we were stopped, and others perhaps too (a batch system that suspends a job,
 * a frozen container, a machine that sleeps), so it must not count as silence.
 *
 * @param last_ns  the loop's own variable; 0: first call
 */
static inline uint64_t time_not_run(uint64_t *last_ns, uint64_t now_ns, uint64_t beat_ns)
{
    uint64_t gap = *last_ns ? now_ns - *last_ns : 0;

    *last_ns = now_ns;
    return gap > 2 * beat_ns ? gap : 0;
}

/** Returns a time postponed by a gap from time_not_run(); UINT64_MAX (never) stays. */
static inline uint64_t time_put_off(uint64_t when_ns, uint64_t gap_ns)
{
    return when_ns == UINT64_MAX ? when_ns : when_ns + gap_ns;
}

/** Returns the sum, or UINT64_MAX on overflow: a time limit of "for ever" stays one. */
static inline uint64_t sum_u64(uint64_t a, uint64_t b)
{
    return a + b < a ? UINT64_MAX : a + b;
}

/** Round `value` up to the next multiple of `unit`, a power of two. */
static inline uint64_t align_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) & ~(unit - 1);
}

/** Fill `ret` with up to 256 unpredictable bytes. Returns 0, or -EIO if the kernel has none. */
int random_bytes(void *ret, size_t bytes);

/** Fill `ret` with 2 * bytes unpredictable hexadecimal digits and a NUL. Returns 0, or -EIO if the
 * kernel has no random numbers. */
int random_hex(char *ret, size_t bytes);

/** Is this signal ignored, as by nohup(1) or by shells with background jobs? */
bool signal_is_ignored(int signal);

/** Block these signals and return a non-blocking descriptor that delivers them as reads (struct
 *  signalfd_siginfo), or -errno. SIGPIPE is ignored. */
int io_open_signals(const int *signals, size_t count);

/** Write everything, despite EINTR and short writes. Returns 0 or -errno. */
int io_write_all(int fd, const void *bytes, size_t len);

/** Write a file. Returns 0 or -errno. If it exists, readers see the old or the complete new file.
 * One that is not regular, such as a pipe, is written in place. */
int io_write_file(const char *path, const void *bytes, size_t len);
/** Write a file that does not exist. Returns 0 or -errno (-EEXIST). */
int io_write_new_file(const char *path, const void *bytes, size_t len);
/** Returns the last part of a path: what follows its last slash, or all of it if nothing does. */
static inline const char *io_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash && slash[1] ? slash + 1 : path;
}
/** Returns the folder of a file's path, "FOLDER/", or "./" if the path has none (malloc), or
 * NULL. */
char *io_folder_of(const char *path);
/** Make a unique name for the replacement of a file, "PATH.RANDOM.tmp" (malloc). Returns 0 or
 * -errno. Also removes abandoned files with such names. */
int io_name_temporary(const char *path, char **ret);
/** Is this the name of a temporary file? */
bool io_is_temporary(const char *name);
/** Returns whether this is a regular file that this user owns and that has not been written to for
 * an hour. If it is a temporary file, its writer was then killed. */
bool io_is_abandoned(int folder_fd, const char *name);
/** Replace the file, using this temporary file, which a killed run may have left behind. */
int io_write_file_by(const char *temporary, const char *path, const void *bytes, size_t len);

/** Read up to `len` bytes at `offset`, fewer only at the end of the file. Returns their number, or
 * -errno. */
int64_t io_pread_some(int fd, void *bytes, size_t len, uint64_t offset);
/** Read exactly `len` bytes at `offset`. Returns 0, -errno, or -ENODATA if the file ends
 * earlier. */
int io_pread_all(int fd, void *bytes, size_t len, uint64_t offset);
/** Write `len` bytes at `offset`. Returns 0 or -errno. After an error, some of them may have been
 * written. */
int io_pwrite_all(int fd, const void *bytes, size_t len, uint64_t offset);

/** Close an owned descriptor and set it to -1; a negative one is ignored. */
void io_close(int *fd);

/** Make an eventfd readable or unreadable. Retries after EINTR, because a lost wake-up would block
 * the waiter for ever. */
void io_event_set(int fd);
void io_event_clear(int fd);

/** Open /dev/null for closed standard descriptors, so that files opened later do not get their
 * numbers and are not read or written by mistake. Call it first in main().
 *
 *  @param mode  O_RDWR: writes are silently discarded. O_RDONLY: writes fail */
void io_fill_standard(int mode);

/** Set O_NONBLOCK on an open descriptor. Returns 0 or -errno. */
int io_set_nonblock(int fd);
/** Raise the soft limit on open files to `wanted` plus a reserve for what every program opens, but
 *  not above the hard limit. Returns the resulting limit. */
uint64_t io_raise_descriptors(uint64_t wanted);

/** Reject descriptors that are sent to this Unix socket or to connections that it accepts (Linux
 *  6.16; no effect on older kernels). Otherwise, a descriptor that is not taken is closed when it
 *  is read, which can block for as long as its sender likes. */
void io_refuse_descriptors(int fd);
/** Room for a control message that carries one descriptor. */
union io_descriptor_room {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int))];
};

/** Make sendmsg(2) also send this descriptor. */
void io_attach_descriptor(struct msghdr *msg, union io_descriptor_room *room, int fd);

/** Keep executed programs from inheriting this descriptor. Returns 0 or -errno. */
int io_set_cloexec(int fd);

/** Does `text` end with `end`, after at least one other character? */
static inline bool str_ends_with(const char *text, const char *end)
{
    size_t len = strlen(text), n = strlen(end);

    return len > n && strcmp(text + len - n, end) == 0;
}

/** Returns the rest of `text` after `beginning`; NULL if it does not begin with it. */
static inline const char *str_after(const char *text, const char *beginning)
{
    size_t len = strlen(beginning);

    return strncmp(text, beginning, len) == 0 ? text + len : NULL;
}

/**
 * Parse an integer in base 10, with nothing before or after it, at most `max`. Returns 0, -EINVAL
 * (not a number), or -ERANGE (more than `max`).
 */
int parse_u64(const char *text, uint64_t max, uint64_t *ret);
/** Like parse_u64(), for the digits at `*text`, which is then advanced past them. */
int parse_next_u64(const char **text, uint64_t max, uint64_t *ret);

/** Like strtod(3), but with a decimal point in every locale. Sets `*end` to the end of the number,
 * or to `text` if there is none. */
double parse_real(const char *text, char **end);

/** Parse a percentage from 0 to 100, such as "0.5" or "0.5%", with a decimal point in every locale.
 * Sets `*ret_share` to the share, from 0 to 1. Returns 0 or -EINVAL. */
int parse_percent(const char *text, double *ret_share);

/** Parse exactly 2 * `bytes` hexadecimal digits. Returns 0 or -EINVAL. */
int parse_hex(const char *text, unsigned char *ret, size_t bytes);

/** Parse a number of bytes with an optional K, M, G or T (powers of 1024). Returns 0, -EINVAL
 * (malformed) or -ERANGE (2^64 or more). */
int parse_bytes(const char *text, uint64_t *ret);

/** Parse a length of time, "90", "90s", "500ms", "5m", "2h" or "7d" (seconds by default), into ns.
 * Returns 0, -EINVAL (malformed) or -ERANGE (2^64 ns or more). */
int parse_duration(const char *text, uint64_t *ret);

/** Write a number of bytes for parse_bytes(), in the largest unit that divides it: "64M", "1000".
 * Returns `text`. */
char *format_exact_bytes(uint64_t bytes, char *text, size_t size);

/** Write a length of time for parse_duration(), in the largest unit that divides it: "90s", "36h",
 * "2d". Rounds down to milliseconds. Returns `text`. */
char *format_duration(uint64_t ns, char *text, size_t size);
/** Like format_duration(), but no unit is larger than an hour. */
char *format_hours(uint64_t ns, char *text, size_t size);

/** Write "1.4 GiB" or "312 B" into `text`; returns `text`. */
char *format_bytes(uint64_t bytes, char *text, size_t size);

/**
 * Make room for `count` entries in a malloc() array, by doubling it.
 *
 * @param array  address of the pointer to the array, which may change (NULL: no array yet)
 * @param cap    number of entries that there is room for
 * @param size   bytes of an entry
 * Errors: -ENOMEM, without any change.
 */
int array_reserve(void *array, size_t *cap, size_t count, size_t size);
/** Make room for one more entry in an array with `count` entries. */
int array_grow(void *array, size_t *cap, size_t count, size_t size);

/** Like asprintf(3), but returns the string, which the caller frees; NULL if out of memory. */
char *str_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** Finds the name most similar to a word, for "did you mean". Set .word and .len, and try all names
 * in turn. The result, .name, is fewer than 3 edits away, and fewer than its number of letters,
 * ignoring case; NULL: no name is similar. */
struct str_nearest {
    const char *word;
    size_t len;
    const char *name;
    size_t distance; /* distance of `name` */
};

void str_nearest_try(struct str_nearest *nearest, const char *name);

/** Returns the largest r with r * r <= a * b. */
uint64_t sqrt_product(uint64_t a, uint64_t b);

#endif
