/* SPDX-License-Identifier: MIT */
/* status.h - plenumrun's exit statuses. */
#ifndef LAUNCHER_STATUS_H
#define LAUNCHER_STATUS_H

#include "common/waitstatus.h" /* status_describe(), which goes with them */

/** Exit statuses that are plenumrun's own. The manual page lists them. */
enum {
    STATUS_USAGE = 2,
    STATUS_OUTPUT = 123, /* all went well, but not all output could be written */
    STATUS_TIMEOUT = 124,
    STATUS_LAUNCH = 125, /* could not be started, or a part of the machinery was lost */
    STATUS_NOT_EXECUTABLE = 126,
    STATUS_NOT_FOUND = 127,
    STATUS_SIGNAL = 128, /* and the number of the signal */
};

#endif
