/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/serve/roots.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util/error_set.h"
#include "common/util/util.h"
#include "loader/serve/users.h"
#include "loader/store/store_place.h"

#ifndef SO_PEERGROUPS
#define SO_PEERGROUPS 59
#endif

enum { GROUPS_MAX = 65536 }; /* the kernel's NGROUPS_MAX */

struct reader {
    bool group;
    uint32_t id;
};

struct root {
    char *path;
    struct reader *readers; /* NULL: all users */
    size_t num_readers;
};

struct roots {
    unsigned refs, count;
    struct root list[];
};

static int read_groups(int fd, struct peer *peer)
{
    socklen_t size = 0;
    gid_t *groups;

    if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, NULL, &size) == 0)
        return 0;             /* no supplementary groups */
    if (errno == ENOPROTOOPT) /* a kernel before 4.13 */
        return 0;
    /* qemu-user does not implement the option; then the peer has no groups. */
    if (errno == EFAULT || (errno == ERANGE && size == 0))
        return 0;
    if (errno != ERANGE || size > GROUPS_MAX * sizeof(gid_t))
        return -errno;
    groups = realloc(peer->groups, sizeof(gid_t) + size);
    if (!groups)
        return -ENOMEM;
    peer->groups = groups;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups + 1, &size) < 0)
        return -errno;
    peer->num_groups += size / sizeof(gid_t);
    return 0;
}

int peer_read(int fd, struct peer *ret)
{
    struct ucred cred;
    socklen_t len = sizeof(cred);
    int r;

    *ret = (struct peer){0};
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
        return -errno;
    ret->groups = malloc(sizeof(gid_t));
    if (!ret->groups)
        return -ENOMEM;
    ret->known = true;
    ret->uid = cred.uid;
    ret->pid = cred.pid;
    ret->groups[0] = cred.gid;
    ret->num_groups = 1;
    r = read_groups(fd, ret);
    if (r < 0)
        peer_fini(ret);
    return r;
}

void peer_fini(struct peer *peer)
{
    free(peer->groups);
    peer->groups = NULL;
    peer->num_groups = 0;
}

/* Parse a reader: "alice", "1004", "@research", "@100". */
static int parse_reader(struct root *root, const char *word, struct plenum_error *err)
{
    struct reader reader = {.group = word[0] == '@'}, *grown;
    int r = users_find_id(word + reader.group, reader.group, &reader.id, err);

    if (r < 0)
        return error_prefix(err, r, "readers");
    grown = realloc(root->readers, (root->num_readers + 1) * sizeof(*grown));
    if (!grown)
        return error_set(err, -ENOMEM, "out of memory");
    root->readers = grown;
    grown[root->num_readers++] = reader;
    return 0;
}

static int parse_readers(struct root *root, char *list, struct plenum_error *err)
{
    char *at = list, *word;
    int r;

    while ((word = strsep(&at, ","))) {
        if (!*word)
            return error_set(err, -EINVAL, "readers: a name is missing: USER,@GROUP,...");
        r = parse_reader(root, word, err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Parse a prefix of names in a store, "s3://bucket/train/". The final slash has no effect. */
static int parse_prefix(struct root *root, const char *text, struct plenum_error *err)
{
    size_t len;
    int r = place_canonical(text, &root->path, err);

    if (r < 0)
        return error_prefix(err, r, "root");
    len = strlen(root->path);
    while (len > 0 && root->path[len - 1] == '/')
        root->path[--len] = '\0';
    return 0;
}

static int parse_folder(struct root *root, const char *path, struct plenum_error *err)
{
    struct stat st;

    root->path = realpath(path, NULL);
    if (!root->path)
        return error_set(err, -errno, "root %s: %s; mount or create it, or remove this root", path,
                         strerror(errno));
    if (stat(root->path, &st) < 0 || !S_ISDIR(st.st_mode))
        return error_set(err, -ENOTDIR, "root %s is not a folder; name the folder that contains it",
                         path);
    return 0;
}

static int parse_root(struct root *root, const char *text, struct plenum_error *err)
{
    static const char word[] = " readers=";
    char *copy = strdup(text), *readers;
    int r;

    if (!copy)
        return error_set(err, -ENOMEM, "out of memory");
    readers = strstr(copy, word);
    if (readers) {
        char *end = readers;

        readers += sizeof(word) - 1;
        while (end > copy && isspace((unsigned char)end[-1]))
            end--;
        *end = '\0';
    }
    r = dataname_is_remote(copy) ? parse_prefix(root, copy, err) : parse_folder(root, copy, err);
    if (r == 0 && readers && (r = parse_readers(root, readers, err)) < 0)
        (void)error_prefix(err, r, "root %s", copy);
    free(copy);
    return r;
}

int roots_create(const char *const *texts, unsigned count, struct roots **ret,
                 struct plenum_error *err)
{
    struct roots *roots = calloc(1, sizeof(*roots) + count * sizeof(roots->list[0]));
    int r;

    if (!roots)
        return error_set(err, -ENOMEM, "out of memory");
    roots->refs = 1;
    while (roots->count < count) {
        unsigned i = roots->count++;

        r = parse_root(&roots->list[i], texts[i], err);
        if (r < 0) {
            roots_unref(roots);
            return r;
        }
    }
    *ret = roots;
    return 0;
}

struct roots *roots_ref(struct roots *roots)
{
    roots->refs++;
    return roots;
}

void roots_unref(struct roots *roots)
{
    if (!roots || --roots->refs > 0)
        return;
    for (unsigned i = 0; i < roots->count; i++) {
        free(roots->list[i].path);
        free(roots->list[i].readers);
    }
    free(roots);
}

unsigned roots_count(const struct roots *roots)
{
    return roots->count;
}

bool roots_are_for_all(const struct roots *roots)
{
    for (unsigned i = 0; i < roots->count; i++)
        if (roots->list[i].readers)
            return false;
    return true;
}

static bool reads(const struct reader *reader, const struct peer *peer)
{
    if (!reader->group)
        return peer->uid == reader->id;
    for (size_t i = 0; i < peer->num_groups; i++)
        if (peer->groups[i] == reader->id)
            return true;
    return false;
}

unsigned roots_for(const struct roots *roots, const struct peer *peer, const char **paths)
{
    bool all = peer->known && (peer->uid == 0 || peer->uid == geteuid());
    unsigned n = 0;

    for (unsigned i = 0; i < roots->count; i++) {
        const struct root *root = &roots->list[i];
        bool may = all || !root->readers;

        for (size_t k = 0; !may && peer->known && k < root->num_readers; k++)
            may = reads(&root->readers[k], peer);
        if (may)
            paths[n++] = root->path;
    }
    return n;
}
