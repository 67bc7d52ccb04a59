/* SPDX-License-Identifier: MIT */
/* table.h - the plan as a table for people and as JSON for programs. */
#ifndef LAUNCHER_TABLE_H
#define LAUNCHER_TABLE_H

#include <stdio.h>

#include "launcher/plan/plan.h"

enum table_format { TABLE_NONE, TABLE_TEXT, TABLE_JSON };

/** `loader`: "auto", "none" or addresses. `starter`: "mpirun" or "plenumrun". Hosts whose topology
 *  is not known yet are shown as such. */
void table_print_text(FILE *file, const struct plan *plan, const char *loader, const char *starter);
void table_print_json(FILE *file, const struct plan *plan, const char *loader, const char *starter);

#endif
