/* SPDX-License-Identifier: MIT */
/* keeper.c - keeps a loader for the job on a host without instances (--loader-host).
 *
 *     plenumrun ── ssh ── (sshd) ── plenumrun --lend-loader ── plenumd
 *
 * plenumrun writes to our standard input: KEEPER_GREETING, then KEEP (where to listen, the job's
 * key, the environment), then BEAT once a second, and SUSPEND if plenumrun is stopped. We bind a
 * socket and print its address; plenumd is started when a client connects, and restarted when it
 * dies (common/job/jobloader.c). When the input ends, or is silent for too long, the job is over:
 * we end plenumd and exit. */
#include "config.h"

#include "launcher/remote/keeper.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/job/jobloader.h"
#include "common/net/tls.h"
#include "common/util/error_set.h"
#include "common/util/log.h"
#include "common/util/util.h"
#include "launcher/control/control.h"

enum {
    GRACE_MS = 2000,
    BEAT_MS = 1000,
    FIRST_SILENCE_MS = 30000, /* silence that is allowed until KEEP sets another limit */
};

struct remote_keeper {
    int signal_fd;
    struct frame_buffer in;
    uint64_t heard_ns; /* when input last arrived; time when we were stopped is not counted */
    uint64_t turn_ns;  /* when the loop last ran */
    bool suspended;    /* plenumrun has announced that it is stopped */
    bool over;
    bool greeted; /* KEEPER_GREETING has arrived */
    struct control_keep task;
    int key_fd;      /* -1: no task yet */
    struct tls *tls; /* the job's key, to answer clients that no loader serves */
    struct jobloader *loader;
};

/* Log a message about the loader. plenumrun prints our log with this host's name. */
static void report_loader(void *arg, const char *text)
{
    (void)arg;
    log_warn("%s", text);
}

/* Carry out the task, so that errors are found now and not when the first client connects. */
static int begin(struct remote_keeper *keeper, struct plenum_error *err)
{
    char key[TLS_PATH_MAX], at[128];
    const char *const args[] = {"--tls-key", key, "--pin", "core", NULL};
    char host[256] = "";
    struct jobloader_options options = {.address = keeper->task.address,
                                        .host = host,
                                        .args = args,
                                        .report = report_loader,
                                        .reports_ends = true};
    int r;

    keeper->key_fd = tls_keep_key(keeper->task.key, key);
    if (keeper->key_fd < 0)
        return error_set(err, keeper->key_fd, "cannot keep the job's key: %s",
                         strerror(-keeper->key_fd));
    if (environ_adopt(&keeper->task.environment) < 0) /* also determines where plenumd is */
        return error_set(err, -ENOMEM, "out of memory");
    r = tls_create_loader(key, &keeper->tls, err);
    if (r < 0)
        return r;
    options.tls = keeper->tls;
    (void)gethostname(host, sizeof(host) - 1);
    r = jobloader_create(&options, &keeper->loader, err);
    if (r < 0)
        return r;
    printf(KEEPER_ANSWER "%s\n", jobloader_get_address(keeper->loader, at, sizeof(at)));
    return fflush(stdout) == 0 ? 0 : error_set(err, -EPIPE, "plenumrun has ended");
}

static int handle_frame(struct remote_keeper *keeper, const struct frame_header *header,
                        struct frame_reader *payload, struct plenum_error *err)
{
    uint64_t number;

    if (header->type == CONTROL_KEEP && keeper->key_fd < 0) {
        int r = control_get_keep(payload, &keeper->task);

        if (r == -ENOMEM)
            return error_set(err, r, "out of memory");
        return r < 0 ? error_set(err, r, "plenumrun has a different version") : begin(keeper, err);
    }
    if (header->type == CONTROL_SUSPEND && control_get_number(payload, &number) == 0)
        keeper->suspended = number != 0;
    return 0;
}

static void drop_input(struct remote_keeper *keeper, size_t len)
{
    memmove(keeper->in.bytes, keeper->in.bytes + len, keeper->in.len - len);
    keeper->in.len -= len;
}

/* Remove the greeting and the empty lines before it from the input. Returns 0, or -EPROTO. Sets
 * `greeted` once all of it has arrived. */
static int read_greeting(struct remote_keeper *keeper)
{
    size_t blank = 0, len = strlen(KEEPER_GREETING), n;

    if (keeper->greeted)
        return 0;
    while (blank < keeper->in.len && keeper->in.bytes[blank] == '\n')
        blank++;
    drop_input(keeper, blank);
    n = min_u64(keeper->in.len, len);
    if (n > 0 && memcmp(keeper->in.bytes, KEEPER_GREETING, n) != 0)
        return -EPROTO;
    keeper->greeted = n == len;
    if (keeper->greeted)
        drop_input(keeper, len);
    return 0;
}

/* Read and handle input. Standard input may be a pipe or a socket. */
static int read_input(struct remote_keeper *keeper, struct plenum_error *err)
{
    struct frame_header header;
    struct frame_reader payload;
    uint8_t bytes[4096];
    ssize_t n = read(STDIN_FILENO, bytes, sizeof(bytes));
    int64_t len;

    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return 0;
    if (n <= 0) {
        keeper->over = true;
        return 0;
    }
    keeper->heard_ns = time_now_ns();
    frame_put_bytes(&keeper->in, bytes, (size_t)n);
    if (keeper->in.failed)
        return error_set(err, -ENOMEM, "out of memory");
    if ((len = read_greeting(keeper)) == 0 && !keeper->greeted)
        return 0;
    while (len >= 0 && (len = frame_parse(keeper->in.bytes, keeper->in.len, CONTROL_MAX_PAYLOAD,
                                          &header, &payload)) > 0) {
        int r = handle_frame(keeper, &header, &payload, err);

        if (r < 0)
            return r;
        drop_input(keeper, (size_t)len);
    }
    return len < 0 ? error_set(err, (int)len, "%s is for plenumrun's own use: leave it out",
                               KEEPER_ARGUMENT)
                   : 0;
}

static int turn(struct remote_keeper *keeper, struct plenum_error *err)
{
    struct pollfd fds[] = {
        {.fd = STDIN_FILENO, .events = POLLIN},
        {.fd = keeper->signal_fd, .events = POLLIN},
        {.fd = keeper->loader ? jobloader_get_fd(keeper->loader) : -1, .events = POLLIN}};
    uint64_t silence = keeper->key_fd >= 0 ? keeper->task.silence_ns : FIRST_SILENCE_MS * NS_PER_MS;
    uint64_t end = keeper->heard_ns + silence, now = time_now_ns();
    uint64_t wait_ms = now < end ? (end - now) / NS_PER_MS + 1 : 0;
    int r = 0;

    if (poll(fds, ARRAY_LEN(fds), (int)(keeper->suspended ? BEAT_MS : min_u64(wait_ms, BEAT_MS))) <
        0)
        return errno == EINTR ? 0 : error_set(err, -errno, "poll: %s", strerror(errno));
    keeper->heard_ns += time_not_run(&keeper->turn_ns, time_now_ns(), BEAT_MS * NS_PER_MS);
    keeper->over |= fds[1].revents != 0;
    if (fds[0].revents)
        r = read_input(keeper, err);
    if (fds[2].revents)
        jobloader_dispatch(keeper->loader);
    keeper->over |= !keeper->suspended && time_now_ns() >= keeper->heard_ns + silence;
    return r;
}

int keeper_main(void)
{
    static const int ends[] = {SIGTERM, SIGINT, SIGHUP};
    struct remote_keeper keeper = {.key_fd = -1, .heard_ns = time_now_ns()};
    struct plenum_error err;
    int r = 0;

    log_init("plenumrun", LOG_LEVEL_WARN);
    keeper.signal_fd = io_open_signals(ends, ARRAY_LEN(ends));
    if (keeper.signal_fd < 0)
        r = error_set(&err, keeper.signal_fd, "cannot take signals: %s",
                      strerror(-keeper.signal_fd));
    while (r == 0 && !keeper.over)
        r = turn(&keeper, &err);
    if (r < 0)
        log_error("%s", err.text);
    jobloader_destroy(keeper.loader, GRACE_MS);
    tls_destroy(keeper.tls);
    control_keep_fini(&keeper.task);
    frame_buffer_fini(&keeper.in);
    io_close(&keeper.key_fd);
    io_close(&keeper.signal_fd);
    return r < 0;
}
