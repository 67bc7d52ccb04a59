/* SPDX-License-Identifier: MIT */
/* skipped.c - lists the names of files and folders that systems and tools create on their own.
 *
 * Otherwise such a folder would become a class and shift the labels of later classes, and a folder
 * of thumbnails would add samples. */
#include "config.h"

#include "loader/dataset/skipped.h"

#include <fnmatch.h>
#include <stddef.h>
#include <string.h>

#include "common/util/util.h"

static const char *const left_behind[] = {
    /* macOS */
    "__MACOSX",
    ".DS_Store",
    ".AppleDouble",
    ".AppleDB",
    ".AppleDesktop",
    ".Spotlight-V100",
    ".Trashes",
    ".fseventsd",
    ".TemporaryItems",
    ".DocumentRevisions-V100",
    "Icon\r",
    "Network Trash Folder",
    "Temporary Items",
    "TheVolumeSettingsFolder",
    "TheFindByContentFolder",
    /* Windows */
    "$RECYCLE.BIN",
    "RECYCLER",
    "RECYCLED",
    "System Volume Information",
    "Thumbs.db",
    "Thumbs.db:encryptable",
    "ehthumbs.db",
    "ehthumbs_vista.db",
    "desktop.ini",
    "FOUND.[0-9][0-9][0-9]",
    "WPSettings.dat",
    "IndexerVolumeGuid",
    "pagefile.sys",
    "hiberfil.sys",
    "swapfile.sys",
    "Config.Msi",
    "MSOCache",
    "~$*",
    /* Linux */
    "lost+found",
    ".Trash-*",
    ".thumbnails",
    ".directory",
    ".nfs*",
    ".fuse_hidden*",
    /* network storage: Synology, QNAP, NetApp and others */
    "@eaDir",
    "@tmp",
    "@SynoResource",
    "@SynoEAStream",
    "*@SynoResource",
    "*@SynoEAStream",
    "@Recycle",
    "@Recently-Snapshot",
    "@Transcode",
    "@sharebin",
    "#recycle",
    "#snapshot",
    ".@__thumb",
    ".snapshot",
    "~snapshot",
    ".zfs",
    /* tools */
    ".ipynb_checkpoints",
    "__pycache__",
    "PaxHeader",
    "PaxHeaders",
    "PaxHeaders.*",
};

static bool is_left_behind(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(left_behind); i++)
        if (fnmatch(left_behind[i], name, FNM_CASEFOLD | FNM_NOESCAPE) == 0)
            return true;
    return false;
}

bool dataset_skips_name(const char *name)
{
    return name[0] == '.' || is_left_behind(name);
}

bool dataset_skips_path(const char *path)
{
    const char *base = strrchr(path, '/');
    char part[256];

    base = base ? base + 1 : path;
    if (*base == '.' || is_left_behind(base))
        return true;
    for (const char *at = path, *slash; at < base; at = slash + 1) {
        size_t len;

        slash = strchr(at, '/');
        len = (size_t)(slash - at);
        if (len == 0 || len >= sizeof(part))
            continue;
        memcpy(part, at, len);
        part[len] = '\0';
        if (is_left_behind(part))
            return true;
    }
    return false;
}
