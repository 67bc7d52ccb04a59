/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "common/util/util.h"

#include <assert.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    RANDOM_BYTES = 8, /* random bytes in names of temporary files */
    ABANDONED_S = 3600,
};

static const char temporary_end[] = ".tmp";

/* Signals that a thread's own fault raises: they cannot wait, and may have a handler. */
static const int own_faults[] = {SIGBUS, SIGFPE, SIGILL, SIGSEGV};

int thread_start(pthread_t *ret, void *(*run)(void *), void *arg)
{
    sigset_t all, before;
    pthread_attr_t attr;
    pthread_t id;
    int r = -pthread_attr_init(&attr);

    if (r < 0)
        return r;
    (void)pthread_attr_setstacksize(&attr, THREAD_STACK_BYTES);
    (void)sigfillset(&all);
    for (size_t i = 0; i < ARRAY_LEN(own_faults); i++)
        (void)sigdelset(&all, own_faults[i]);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    r = -pthread_create(ret ? ret : &id, &attr, run, arg);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attr);
    if (r == 0 && !ret)
        (void)pthread_detach(id);
    return r;
}

pid_t proc_self(void)
{
    char text[24];
    ssize_t n = readlink("/proc/self", text, sizeof(text) - 1);
    uint64_t pid;

    if (n < 0)
        return -ESRCH;
    text[n] = '\0';
    return parse_u64(text, INT32_MAX, &pid) < 0 ? -ESRCH : (pid_t)pid;
}

int cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *mu, uint64_t deadline_ns)
{
    struct timespec until = {.tv_sec = (time_t)(deadline_ns / NS_PER_SEC),
                             .tv_nsec = (long)(deadline_ns % NS_PER_SEC)};

    return -(deadline_ns == UINT64_MAX ? pthread_cond_wait(cond, mu)
                                       : pthread_cond_clockwait(cond, mu, CLOCK_MONOTONIC, &until));
}

int random_bytes(void *ret, size_t bytes)
{
    ssize_t n;

    while ((n = getrandom(ret, bytes, 0)) < 0 && errno == EINTR)
        ;
    return n == (ssize_t)bytes ? 0 : -EIO;
}

int random_hex(char *ret, size_t bytes)
{
    static const char digits[] = "0123456789abcdef";
    unsigned char *random =
        (unsigned char *)ret + bytes; /* each byte is read before it is overwritten */

    if (random_bytes(random, bytes) < 0)
        return -EIO;
    for (size_t i = 0; i < bytes; i++) {
        unsigned char byte = random[i];

        ret[2 * i] = digits[byte >> 4];
        ret[2 * i + 1] = digits[byte & 15];
    }
    ret[2 * bytes] = '\0';
    return 0;
}

bool signal_is_ignored(int signal)
{
    struct sigaction now;

    return sigaction(signal, NULL, &now) == 0 && !(now.sa_flags & SA_SIGINFO) &&
           now.sa_handler == SIG_IGN;
}

int io_open_signals(const int *signals, size_t count)
{
    sigset_t set;
    int fd;

    (void)sigemptyset(&set);
    for (size_t i = 0; i < count; i++)
        (void)sigaddset(&set, signals[i]);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd < 0 ? -errno : fd;
}

int io_write_all(int fd, const void *bytes, size_t len)
{
    const char *p = bytes;

    while (len > 0) {
        ssize_t n = write(fd, p, len);

        if (n >= 0) {
            p += n;
            len -= (size_t)n;
        } else if (errno == EAGAIN) {
            /* Standard error is shared, and another process has made it non-blocking: wait. */
            struct pollfd wait = {.fd = fd, .events = POLLOUT};

            (void)poll(&wait, 1, -1);
        } else if (errno != EINTR) {
            return -errno;
        }
    }
    return 0;
}

/* Write the file, and rename it unless the two names are equal: all data is on disk before the file
 * gets its final name. */
static int write_as(const char *temporary, int flags, const char *path, const void *bytes,
                    size_t len)
{
    int fd = open(temporary, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0666);
    int r;

    if (fd < 0)
        return -errno;
    r = io_write_all(fd, bytes, len);
    if (r < 0)
        goto fail;
    if (temporary != path && fsync(fd) < 0) {
        r = -errno;
        goto fail;
    }
    r = close(fd) < 0 ? -errno : 0;
    fd = -1;
    if (r < 0)
        goto fail;
    if (temporary != path && rename(temporary, path) < 0) {
        r = -errno;
        goto fail;
    }
    return 0;

fail:
    io_close(&fd);
    (void)unlink(temporary);
    return r;
}

bool io_is_temporary(const char *name)
{
    return str_ends_with(name, temporary_end);
}

bool io_is_abandoned(int folder_fd, const char *name)
{
    struct stat st;

    return fstatat(folder_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
           st.st_uid == geteuid() && st.st_mtime < time(NULL) - ABANDONED_S;
}

/* Is this the name of a temporary file for `name`, "NAME.RANDOM.tmp"? */
static bool is_temporary_of(const char *text, const char *name)
{
    size_t len = strlen(name);

    if (strncmp(text, name, len) != 0 || text[len] != '.')
        return false;
    text += len + 1;
    return strspn(text, "0123456789abcdef") == RANDOM_BYTES * 2 &&
           strcmp(text + RANDOM_BYTES * 2, temporary_end) == 0;
}

char *io_folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? strndup(path, (size_t)(slash - path) + 1) : strdup("./");
}

static void remove_leftovers(const char *path)
{
    const char *name = io_base_name(path);
    char *folder = io_folder_of(path);
    DIR *dir = folder ? opendir(folder) : NULL;
    struct dirent *entry;

    while (dir && (entry = readdir(dir)))
        if (is_temporary_of(entry->d_name, name) && io_is_abandoned(dirfd(dir), entry->d_name))
            (void)unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir)
        (void)closedir(dir);
    free(folder);
}

/* Uses random bytes, not the process id: in containers, every writer may be process 1. */
int io_name_temporary(const char *path, char **ret)
{
    char random[RANDOM_BYTES * 2 + 1];
    int r = random_hex(random, RANDOM_BYTES);

    if (r < 0)
        return r;
    *ret = str_format("%s.%s%s", path, random, temporary_end);
    if (!*ret)
        return -ENOMEM;
    remove_leftovers(path);
    return 0;
}

int io_write_file_by(const char *temporary, const char *path, const void *bytes, size_t len)
{
    return write_as(temporary, O_TRUNC, path, bytes, len);
}

int io_write_new_file(const char *path, const void *bytes, size_t len)
{
    return write_as(path, O_EXCL, path, bytes, len);
}

int io_write_file(const char *path, const void *bytes, size_t len)
{
    char *temporary;
    struct stat st;
    int fd, r;

    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) { /* a pipe, a terminal */
        fd = open(path, O_WRONLY | O_CLOEXEC);
        r = fd < 0 ? -errno : io_write_all(fd, bytes, len);
        io_close(&fd);
        return r;
    }
    r = io_name_temporary(path, &temporary);
    if (r < 0)
        return r;
    r = write_as(temporary, O_EXCL, path, bytes, len);
    free(temporary);
    return r;
}

int64_t io_pread_some(int fd, void *bytes, size_t len, uint64_t offset)
{
    size_t have = 0;

    while (have < len) {
        ssize_t n = pread(fd, (char *)bytes + have, len - have, (off_t)(offset + have));

        if (n > 0)
            have += (size_t)n;
        else if (n == 0)
            break;
        else if (errno != EINTR)
            return -errno;
    }
    assert(have <= len);
    return (int64_t)have;
}

int io_pread_all(int fd, void *bytes, size_t len, uint64_t offset)
{
    int64_t n = io_pread_some(fd, bytes, len, offset);

    if (n < 0)
        return (int)n;
    return (size_t)n < len ? -ENODATA : 0;
}

int io_pwrite_all(int fd, const void *bytes, size_t len, uint64_t offset)
{
    size_t done = 0;

    while (done < len) {
        ssize_t n = pwrite(fd, (const char *)bytes + done, len - done, (off_t)(offset + done));

        if (n > 0)
            done += (size_t)n;
        else if (n == 0) /* POSIX leaves open whether this can happen; it must not loop for ever */
            return -ENOSPC;
        else if (errno != EINTR)
            return -errno;
    }
    return 0;
}

void io_close(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

void io_event_set(int fd)
{
    const uint64_t one = 1;

    while (write(fd, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
}

void io_event_clear(int fd)
{
    uint64_t count;

    while (read(fd, &count, sizeof(count)) < 0 && errno == EINTR)
        ;
}

void io_fill_standard(int mode)
{
    int fd;

    do
        fd = open("/dev/null", mode | O_CLOEXEC);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        (void)close(fd);
}

int io_set_nonblock(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return -errno;
    return 0;
}

uint64_t io_raise_descriptors(uint64_t wanted)
{
    struct rlimit limit = {.rlim_cur = UINT64_MAX}, more;

    wanted += 128;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= wanted)
        return limit.rlim_cur;
    more = limit;
    more.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
    return setrlimit(RLIMIT_NOFILE, &more) < 0 ? limit.rlim_cur : more.rlim_cur;
}

void io_refuse_descriptors(int fd)
{
#ifndef SO_PASSRIGHTS
    enum { SO_PASSRIGHTS = 83 };
#endif
    const int off = 0;

    (void)setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &off, sizeof(off));
}

void io_attach_descriptor(struct msghdr *msg, union io_descriptor_room *room, int fd)
{
    assert(fd >= 0);
    *room = (union io_descriptor_room){.align = {.cmsg_level = SOL_SOCKET,
                                                 .cmsg_type = SCM_RIGHTS,
                                                 .cmsg_len = CMSG_LEN(sizeof(int))}};
    memcpy(CMSG_DATA(&room->align), &fd, sizeof(fd));
    msg->msg_control = room;
    msg->msg_controllen = sizeof(*room);
}

int io_set_cloexec(int fd)
{
    int flags = fcntl(fd, F_GETFD);

    return flags < 0 || fcntl(fd, F_SETFD, flags | FD_CLOEXEC) < 0 ? -errno : 0;
}

int parse_next_u64(const char **text, uint64_t max, uint64_t *ret)
{
    uint64_t value = 0;
    const char *p = *text;

    if (!isdigit((unsigned char)*p))
        return -EINVAL;
    for (; isdigit((unsigned char)*p); p++) {
        uint64_t digit = (uint64_t)(*p - '0');

        if (value > (UINT64_MAX - digit) / 10)
            return -ERANGE;
        value = value * 10 + digit;
    }
    if (value > max)
        return -ERANGE;
    *ret = value;
    *text = p;
    return 0;
}

int parse_u64(const char *text, uint64_t max, uint64_t *ret)
{
    uint64_t value;
    int r = parse_next_u64(&text, max, &value);

    if (r < 0)
        return r;
    if (*text)
        return -EINVAL;
    *ret = value;
    return 0;
}

static int hex_digit(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = c ? strchr(digits, tolower((unsigned char)c)) : NULL;

    return at ? (int)(at - digits) : -1;
}

/* Created once, and never freed. */
static locale_t c_locale;

static void make_c_locale(void)
{
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

double parse_real(const char *text, char **end)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, make_c_locale);
    assert(c_locale != (locale_t)0); /* glibc creates this one without files or memory */
    return strtod_l(text, end, c_locale);
}

int parse_percent(const char *text, double *ret_share)
{
    char *end;
    double percent = parse_real(text, &end);

    if (end == text || strcmp(end, *end == '%' ? "%" : "") != 0 ||
        !(percent >= 0 && percent <= 100))
        return -EINVAL;
    *ret_share = percent / 100;
    return 0;
}

int parse_hex(const char *text, unsigned char *ret, size_t bytes)
{
    if (strlen(text) != 2 * bytes)
        return -EINVAL;
    for (size_t i = 0; i < bytes; i++) {
        int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);

        if (high < 0 || low < 0)
            return -EINVAL;
        ret[i] = (unsigned char)(16 * high + low);
    }
    return 0;
}

struct named_unit {
    const char *name;
    uint64_t factor;
};

/* In ascending order of factors; the first unit has no name. */
static const struct named_unit byte_units[] = {
    {"", 1},
    {"K", UINT64_C(1) << 10},
    {"M", UINT64_C(1) << 20},
    {"G", UINT64_C(1) << 30},
    {"T", UINT64_C(1) << 40},
};
static const struct named_unit time_units[] = {
    {"", NS_PER_SEC},       {"ms", NS_PER_MS},        {"s", NS_PER_SEC},
    {"m", 60 * NS_PER_SEC}, {"h", 3600 * NS_PER_SEC}, {"d", 24 * 3600 * NS_PER_SEC},
};

static int parse_with_unit(const char *text, const struct named_unit *units, size_t count,
                           uint64_t *ret)
{
    uint64_t value;
    int r = parse_next_u64(&text, UINT64_MAX, &value);

    if (r < 0)
        return r;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(text, units[i].name) != 0)
            continue;
        if (value > UINT64_MAX / units[i].factor)
            return -ERANGE;
        *ret = value * units[i].factor;
        return 0;
    }
    return -EINVAL;
}

int parse_bytes(const char *text, uint64_t *ret)
{
    return parse_with_unit(text, byte_units, ARRAY_LEN(byte_units), ret);
}

int parse_duration(const char *text, uint64_t *ret)
{
    return parse_with_unit(text, time_units, ARRAY_LEN(time_units), ret);
}

static char *format_with_unit(uint64_t value, const struct named_unit *units, size_t count,
                              char *text, size_t size)
{
    for (size_t i = count; value > 0 && i-- > 1;) {
        if (value % units[i].factor != 0)
            continue;
        (void)snprintf(text, size, "%llu%s", (unsigned long long)(value / units[i].factor),
                       units[i].name);
        return text;
    }
    (void)snprintf(text, size, "%llu", (unsigned long long)value);
    return text;
}

char *format_exact_bytes(uint64_t bytes, char *text, size_t size)
{
    return format_with_unit(bytes, byte_units, ARRAY_LEN(byte_units), text, size);
}

char *format_duration(uint64_t ns, char *text, size_t size)
{
    return format_with_unit(ns - ns % NS_PER_MS, time_units, ARRAY_LEN(time_units), text, size);
}

char *format_hours(uint64_t ns, char *text, size_t size)
{
    return format_with_unit(ns - ns % NS_PER_MS, time_units, ARRAY_LEN(time_units) - 1, text, size);
}

char *format_bytes(uint64_t bytes, char *text, size_t size)
{
    static const char *const names[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
    double value = (double)bytes / 1024;
    size_t i = 0;

    if (bytes < 1024) {
        (void)snprintf(text, size, "%u B", (unsigned)bytes);
        return text;
    }
    for (; value >= 1024 && i + 1 < ARRAY_LEN(names); i++)
        value /= 1024;
    (void)snprintf(text, size, value < 10 ? "%.1f %s" : "%.0f %s", value, names[i]);
    return text;
}

int array_reserve(void *array, size_t *cap, size_t count, size_t size)
{
    enum { FIRST_CAP = 16 };
    size_t most, wanted = *cap ? *cap : FIRST_CAP;
    void *entries;

    assert(size > 0);
    if (count <= *cap)
        return 0;
    most = PTRDIFF_MAX / size;
    while (wanted < count && wanted <= most)
        wanted *= 2;
    memcpy(&entries, array, sizeof(entries)); /* a pointer of any type */
    entries = wanted <= most ? realloc(entries, wanted * size) : NULL;
    if (!entries)
        return -ENOMEM;
    memcpy(array, &entries, sizeof(entries));
    *cap = wanted;
    assert(*cap >= count);
    return 0;
}

int array_grow(void *array, size_t *cap, size_t count, size_t size)
{
    assert(count <= *cap && size > 0);
    return array_reserve(array, cap, count + 1, size);
}

char *str_format(const char *format, ...)
{
    va_list args;
    char *text;
    int n;

    va_start(args, format);
    n = vasprintf(&text, format, args);
    va_end(args);
    return n < 0 ? NULL : text;
}

/* Returns the edit distance, ignoring case; SIZE_MAX if a word is too long. */
static size_t str_distance(const char *a, size_t a_len, const char *b)
{
    size_t row[64], b_len = strlen(b);

    if (a_len >= ARRAY_LEN(row) || b_len >= ARRAY_LEN(row))
        return SIZE_MAX;
    for (size_t j = 0; j <= b_len; j++)
        row[j] = j;
    for (size_t i = 1; i <= a_len; i++) {
        size_t diagonal = row[0];

        row[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            size_t above = row[j], best = diagonal + (tolower((unsigned char)a[i - 1]) !=
                                                      tolower((unsigned char)b[j - 1]));

            best = above + 1 < best ? above + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            row[j] = best;
            diagonal = above;
        }
    }
    return row[b_len];
}

void str_nearest_try(struct str_nearest *nearest, const char *name)
{
    size_t d = str_distance(nearest->word, nearest->len, name);

    if (d < nearest->len && d < (nearest->name ? nearest->distance : 3)) {
        nearest->name = name;
        nearest->distance = d;
    }
}

/* Not ISO C, but gcc and clang have it on every 64-bit machine. */
__extension__ typedef unsigned __int128 u128;

uint64_t sqrt_product(uint64_t a, uint64_t b)
{
    u128 rest = (u128)a * b, root = 0, bit = (u128)1 << 126;

    while (bit > rest)
        bit >>= 2;
    for (; bit; bit >>= 2) { /* one bit of the root at a time */
        if (rest >= root + bit) {
            rest -= root + bit;
            root = (root >> 1) + bit;
        } else {
            root >>= 1;
        }
    }
    return (uint64_t)root;
}
