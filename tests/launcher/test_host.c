/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/host/host.h"
#include "launcher/host/network.h"

Test(host, names_of_this_host)
{
    char name[HOST_NAME_MAX_BYTES], longer[HOST_NAME_MAX_BYTES + 20];

    host_get_name(name, sizeof(name));
    cr_expect(host_is_this(name));
    cr_expect(host_is_this("localhost"));
    cr_expect(host_is_this("127.0.0.1"));
    snprintf(longer, sizeof(longer), "%sx", name);
    cr_expect(not(host_is_this(longer)));
    name[strcspn(name, ".")] = '\0';
    cr_expect(host_is_this(name), "without its domain");
    cr_expect(not(host_is_this("")));
}

Test(host, this_host_is_found_in_a_list)
{
    struct hostlist list = {0};
    struct network own = {0};
    bool local[8];
    char address[SUBNET_TEXT_MAX] = "127.0.0.2/8";

    cr_assert(eq(int, network_read(&own), 0));
    if (own.count > 0)
        subnet_format(&own.list[0].at, address);
    *strchr(address, '/') = '\0';
    network_fini(&own);
    cr_assert(
        eq(int, hostlist_add_text(&list, "localhost,::1,127.0.0.1,no-such-host.invalid", NULL), 0));
    cr_assert(eq(int, hostlist_add_name(&list, address, 0, NULL), 0));
    cr_assert(eq(int, hostlist_add_text(&list, "192.0.2.1,me@localhost,localhost:22:1", NULL), 0));
    host_find_this(&list, local);
    cr_expect(local[0] && local[1] && local[2]);
    cr_expect(not(local[3]), "an unknown name");
    cr_expect(local[4], "%s is an address of this host", address);
    cr_expect(not(local[5]), "an address of no host");
    cr_expect(not(local[6]), "a host with a user must be reached by ssh");
    cr_expect(not(local[7]), "a host with a port must be reached by ssh");
    hostlist_fini(&list);
}

Test(host, programs)
{
    char folder[] = "/tmp/plenum-host-XXXXXX", path[64], found[256];
    FILE *f;

    cr_assert(mkdtemp(folder) != NULL);
    snprintf(path, sizeof(path), "%s/prog", folder);
    f = fopen(path, "we");
    fclose(f);
    setenv("PATH", folder, 1);
    cr_expect(eq(int, host_find_program("prog", found, sizeof(found)), -EACCES));
    cr_expect(eq(str, found, path));
    cr_expect(eq(int, host_find_program(path, found, sizeof(found)), -EACCES));
    chmod(path, 0755);
    cr_expect(eq(int, host_find_program("prog", found, sizeof(found)), 0));
    cr_expect(eq(str, found, path));
    cr_expect(eq(int, host_find_program(path, found, sizeof(found)), 0));
    cr_expect(eq(int, host_find_program("other", found, sizeof(found)), -ENOENT));
    cr_expect(eq(int, host_find_program("", found, sizeof(found)), -ENOENT));
    cr_expect(eq(int, host_find_program(folder, found, sizeof(found)), -EACCES), "a folder");
    /* An empty entry, even the last one, means the working directory, as for execvp(). */
    cr_assert(chdir(folder) == 0);
    cr_expect(eq(int, host_find_program_in("/nowhere:", "prog", found, sizeof(found)), 0));
    cr_expect(eq(str, found, "./prog"));
    cr_expect(eq(int, host_find_program_in("", "prog", found, sizeof(found)), 0));
    cr_expect(eq(int, host_find_program_in(":/nowhere", "prog", found, sizeof(found)), 0));
    cr_expect(eq(int, host_find_program_in("/nowhere", "prog", found, sizeof(found)), -ENOENT));
    unlink(path);
    rmdir(folder);
}

Test(host, the_working_directory_keeps_symbolic_links)
{
    char folder[] = "/tmp/plenum-host-XXXXXX", link[64], got[256];

    cr_assert(mkdtemp(folder) != NULL);
    snprintf(link, sizeof(link), "%s.link", folder);
    cr_assert(eq(int, symlink(folder, link), 0));
    cr_assert(eq(int, chdir(link), 0));
    setenv("PWD", link, 1);
    cr_expect(eq(int, host_get_directory(got, sizeof(got), NULL), 0));
    cr_expect(eq(str, got, link));
    setenv("PWD", "/", 1);
    cr_expect(eq(int, host_get_directory(got, sizeof(got), NULL), 0));
    cr_expect(eq(str, got, folder), "a wrong PWD must not be used");
    cr_assert(eq(int, chdir("/"), 0));
    unlink(link);
    rmdir(folder);
}
