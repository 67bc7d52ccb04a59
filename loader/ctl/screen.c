/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/ctl/screen.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "common/util/error_set.h"
#include "common/util/util.h"

static volatile sig_atomic_t interrupted;

bool screen_is_interrupted(void)
{
    return interrupted;
}

static void on_interrupt(int signum)
{
    (void)signum;
    interrupted = 1;
}

/* Draw one frame, and write it at once, so that it does not flicker. */
static int refresh(screen_draw *draw, void *arg, struct plenum_error *err)
{
    struct winsize size = {.ws_col = 80, .ws_row = 24};
    char *text = NULL;
    size_t len = 0;
    FILE *file = open_memstream(&text, &len);
    int r;

    if (!file)
        return error_set(err, -ENOMEM, "out of memory");
    (void)ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    (void)fputs("\033[H", file);
    r = draw(arg, file, size.ws_row > 2 ? size.ws_row - 1u : 23, err);
    (void)fputs("\033[J", file);
    if (fclose(file) == 0 && r == 0)
        (void)io_write_all(STDOUT_FILENO, text, len);
    free(text);
    return r;
}

/* Wait for a key until the interval ends. Returns whether the user wants to leave. */
static bool wait_for_key(bool keys, uint64_t interval_ns)
{
    struct pollfd p = {.fd = keys ? STDIN_FILENO : -1, .events = POLLIN};
    char key = 0;

    if (poll(&p, 1, (int)(interval_ns / NS_PER_MS)) <= 0)
        return false;
    return read(STDIN_FILENO, &key, 1) <= 0 || key == 'q' || key == 'Q';
}

int screen_run(screen_draw *draw, void *arg, uint64_t interval_ns, struct plenum_error *err)
{
    /* Alternate screen, no cursor, and lines that are cut off at the edge of the terminal. */
    static const char enter[] = "\033[?1049h\033[?25l\033[?7l";
    static const char leave[] = "\033[?7h\033[?25h\033[?1049l";
    struct sigaction action = {.sa_handler = on_interrupt};
    struct termios before, raw;
    bool keys = tcgetattr(STDIN_FILENO, &before) == 0;
    int r = 0;

    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGHUP, &action, NULL);
    if (keys) {
        raw = before;
        raw.c_lflag &= (tcflag_t) ~(ICANON | ECHO);
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    }
    (void)io_write_all(STDOUT_FILENO, enter, sizeof(enter) - 1);
    while (r == 0 && !interrupted) {
        r = refresh(draw, arg, err);
        if (r == 0 && wait_for_key(keys, interval_ns))
            break;
    }
    (void)io_write_all(STDOUT_FILENO, leave, sizeof(leave) - 1);
    if (keys)
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &before);
    return interrupted ? 0 : r;
}
