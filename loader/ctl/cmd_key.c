/* SPDX-License-Identifier: MIT */
/* cmd_key.c - plenumctl key: derives a client's key from the loader's key. */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/net/tls.h"
#include "common/util/error_set.h"
#include "common/util/util.h"
#include "loader/ctl/ctl.h"

static const struct options_program program = {
    .name = "plenumctl key",
    .usage = "FILE NAME",
    .summary = "Print the key of client NAME for a loader whose --tls-key is FILE. The client's "
               "PLENUM_LOADER_KEY names a file that contains it: umask 077; plenumctl key FILE "
               "NAME >NAME.key",
};

static int run(int argc, char **argv)
{
    struct tls_key loader, client;
    struct plenum_error err;
    char text[TLS_TEXT_MAX];
    int r = ctl_start(&program, NULL, argc, argv, 2, "the loader's key file and a name are");

    if (r >= 0)
        return r;
    r = tls_key_read(argv[1], &loader, &err);
    if (r < 0)
        goto out;
    if (loader.name[0]) {
        r = error_set(
            &err, -EINVAL,
            "key file %s is the key of client %s: a loader needs the key that it was made from",
            argv[1], loader.name);
        goto out;
    }
    r = tls_key_of_client(&loader, argv[2], &client, &err);

out:
    explicit_bzero(&loader, sizeof(loader));
    if (r < 0)
        return ctl_fail("key", &err);
    tls_key_format(&client, text);
    (void)puts(text);
    explicit_bzero(&client, sizeof(client));
    explicit_bzero(text, sizeof(text));
    return 0;
}

const struct ctl_command ctl_key = {
    .name = "key",
    .summary = "print the key of a client, for a loader on another host",
    .run = run,
};
