/* SPDX-License-Identifier: MIT */
/* metrics.h - the loader's metrics in Prometheus's text format. */
#ifndef LOADER_SERVE_METRICS_H
#define LOADER_SERVE_METRICS_H

#include <stdio.h>

#include "common/net/status.h"

struct server;

/** Write all metrics. Call it on the loop's thread. */
void metrics_write(FILE *file, const struct status *status, const struct server *server);

#endif
