/* probe.c - one ssh a host, side by side, bounded in time.
 *
 * mpirun starts nothing anywhere until all of its daemons have reported, and does not say which one
 * it waits for. So when a job does not start, each host is asked the plain question here. A start
 * that succeeds costs nothing. */
#include "config.h"

#include "launcher/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/error.h"
#include "common/util.h"

enum { NO_SELF = 101, NO_DIRECTORY = 102, WORDS_MAX = 64 };

/* One question under way. */
struct inquiry {
    pid_t pid;
    int fd; /* what ssh prints */
    char said[512];
    size_t len;
};

/* 'text' as one word of a shell: quotes around, each quote inside as '\''. */
static void put_quoted(FILE *f, const char *text)
{
    (void)fputc('\'', f);
    for (; *text; text++) {
        if (*text == '\'')
            (void)fputs("'\\''", f);
        else
            (void)fputc(*text, f);
    }
    (void)fputc('\'', f);
}

/* What the other host's shell executes; the login shell may be of any kind, so sh is named. */
static char *make_script(const char *self, const char *directory)
{
    char *inner = NULL, *outer = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&inner, &size);

    if (!f)
        return NULL;
    (void)fputs("test -x ", f);
    put_quoted(f, self);
    (void)fprintf(f, " || exit %d; cd ", NO_SELF);
    put_quoted(f, directory);
    (void)fprintf(f, " || exit %d", NO_DIRECTORY);
    if (fclose(f) != 0 || !(f = open_memstream(&outer, &size))) {
        free(inner);
        return NULL;
    }
    (void)fputs("sh -c ", f);
    put_quoted(f, inner);
    free(inner);
    if (fclose(f) != 0) {
        free(outer);
        return NULL;
    }
    return outer;
}

/* mpirun's agent and its arguments, as words. Cuts `text` up. */
static size_t split_words(char *text, char *words[], size_t count)
{
    char *save = NULL;

    for (char *w = strtok_r(text, " ", &save); w && count < WORDS_MAX - 3;
         w = strtok_r(NULL, " ", &save))
        words[count++] = w;
    return count;
}

static _Noreturn void become_ssh(char *const *words, int fd)
{
    int null = open("/dev/null", O_RDONLY);

    (void)setsid();
    (void)dup2(null, STDIN_FILENO);
    (void)dup2(fd, STDOUT_FILENO);
    (void)dup2(fd, STDERR_FILENO);
    (void)execvp(words[0], words);
    dprintf(STDERR_FILENO, "cannot execute %s: %s\n", words[0], strerror(errno));
    _exit(255);
}

static int ask(struct inquiry *q, char **words, size_t count, const char *host, char *script)
{
    int fds[2];

    words[count] = (char *)host;
    words[count + 1] = script;
    words[count + 2] = NULL;
    if (pipe2(fds, O_CLOEXEC) < 0)
        return -errno;
    q->pid = fork();
    if (q->pid == 0) {
        sigset_t none;

        (void)sigemptyset(&none);
        (void)sigprocmask(SIG_SETMASK, &none, NULL);
        become_ssh(words, fds[1]);
    }
    (void)close(fds[1]);
    q->fd = fds[0];
    if (q->pid < 0) {
        io_close(&q->fd);
        return -EAGAIN;
    }
    return io_set_nonblock(q->fd);
}

static void listen_to(struct inquiry *q)
{
    char lost[256];
    ssize_t n;

    do {
        size_t room = sizeof(q->said) - 1 - q->len;

        n = room > 0 ? read(q->fd, q->said + q->len, room) : read(q->fd, lost, sizeof(lost));
        if (n > 0 && room > 0)
            q->len += (size_t)n;
    } while (n > 0);
    if (n == 0 || errno != EAGAIN)
        io_close(&q->fd);
}

/* ssh's last line that says something. */
static char *last_line(struct inquiry *q)
{
    char *line;

    q->said[q->len] = '\0';
    while (q->len > 0 && (q->said[q->len - 1] == '\n' || q->said[q->len - 1] == '\r'))
        q->said[--q->len] = '\0';
    line = strrchr(q->said, '\n');
    return line ? line + 1 : q->said;
}

static void judge(struct inquiry *q, struct probe *p, const char *self, const char *directory,
                  int limit_ms)
{
    int status = 0;
    bool silent = q->fd >= 0;

    if (silent)
        (void)kill(-q->pid, SIGKILL);
    (void)waitpid(q->pid, &status, 0);
    io_close(&q->fd);
    p->failed = silent || status != 0;
    if (silent)
        (void)error_set(&p->text, 0, "host %s: no answer by ssh within %d s", p->host,
                        limit_ms / 1000);
    else if (WIFEXITED(status) && WEXITSTATUS(status) == NO_SELF)
        (void)error_set(&p->text, 0,
                        "host %s: there is no plenumrun at %s; install it at the same place on all "
                        "hosts",
                        p->host, self);
    else if (WIFEXITED(status) && WEXITSTATUS(status) == NO_DIRECTORY)
        (void)error_set(&p->text, 0, "host %s: there is no working directory %s", p->host,
                        directory);
    else if (p->failed)
        (void)error_set(&p->text, 0, "host %s: cannot log in: %s", p->host, last_line(q));
}

static void wait_for_all(struct inquiry *list, uint32_t count, int limit_ms)
{
    uint64_t deadline = time_now_ns() + (uint64_t)limit_ms * NS_PER_MS, now;
    struct pollfd *fds = calloc(count, sizeof(*fds));

    while (fds && (now = time_now_ns()) < deadline) {
        bool any = false;

        for (uint32_t i = 0; i < count; i++) {
            fds[i] = (struct pollfd){.fd = list[i].fd, .events = POLLIN};
            any |= list[i].fd >= 0;
        }
        if (!any)
            break;
        (void)poll(fds, count, (int)((deadline - now) / NS_PER_MS) + 1);
        for (uint32_t i = 0; i < count; i++)
            if (list[i].fd >= 0 && fds[i].revents)
                listen_to(&list[i]);
    }
    free(fds);
}

int probe_hosts(struct probe *probes, uint32_t count, const char *self, const char *directory,
                int limit_ms)
{
    const char *agent = getenv("OMPI_MCA_plm_rsh_agent"), *args = getenv("OMPI_MCA_plm_rsh_args");
    struct inquiry *list = calloc(count + 1, sizeof(*list));
    char *words[WORDS_MAX], *agent_text, *args_text, *script;
    size_t n;

    agent_text = strdup(agent ? agent : "ssh");
    args_text = strdup(args ? args : agent ? "" : "-o BatchMode=yes -o ConnectTimeout=10");
    script = make_script(self, directory);
    if (!list || !agent_text || !args_text || !script) {
        count = 0;
        goto out;
    }
    n = split_words(agent_text, words, 0);
    n = split_words(args_text, words, n);
    for (uint32_t i = 0; i < count; i++) {
        list[i].fd = -1;
        if (ask(&list[i], words, n, probes[i].host, script) < 0)
            list[i].pid = 0;
    }
    wait_for_all(list, count, limit_ms);
    for (uint32_t i = 0; i < count; i++)
        if (list[i].pid > 0)
            judge(&list[i], &probes[i], self, directory, limit_ms);
out:
    free(list);
    free(agent_text);
    free(args_text);
    free(script);
    return count > 0 ? 0 : -ENOMEM;
}
