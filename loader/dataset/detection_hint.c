/* SPDX-License-Identifier: MIT */
/* detection_hint.c - recognises detection data sets that are opened without the word that names
 * their format. As folders of classes, their pictures would have the names of splits as labels, and
 * no boxes. */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/util/error_set.h"
#include "common/util/util.h"
#include "loader/dataset/dataset_priv.h"

static bool has(const struct scope *p, const char *folder, const char *name, mode_t type)
{
    char path[SCOPE_NAME_MAX];
    struct stat st;

    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    return scope_stat(p, path, &st) == 0 && (st.st_mode & S_IFMT) == type;
}

/* Returns whether a folder has a file instances_*.json in its `annotations`. */
static bool has_instances(const struct scope *p, const char *folder)
{
    char path[SCOPE_NAME_MAX];
    struct dirent *entry;
    bool found = false;
    DIR *dir;

    (void)snprintf(path, sizeof(path), "%s/annotations", folder);
    if (scope_open_folder(p, path, &dir) < 0)
        return false;
    while (!found && (entry = readdir(dir)))
        found =
            strncmp(entry->d_name, "instances_", 10) == 0 && str_ends_with(entry->d_name, ".json");
    (void)closedir(dir);
    return found;
}

/* Returns the name of a data set's arrangement, and sets `*open` to what names it; NULL: none. */
static const char *arrangement_of(const struct scope *p, const char *folder, const char **open)
{
    static const char *const splits[] = {"train", "valid", "test"};
    char name[64];

    *open = "voc:";
    if (has(p, folder, "JPEGImages", S_IFDIR) && has(p, folder, "Annotations", S_IFDIR))
        return "Pascal VOC";
    *open = "yolo:";
    if (has(p, folder, "data.yaml", S_IFREG))
        return "YOLO";
    if (has(p, folder, "images", S_IFDIR) && has(p, folder, "labels", S_IFDIR)) {
        *open = "yolo:FILE, with a data.yaml that names ";
        return "YOLO";
    }
    *open = "coco:";
    for (size_t i = 0; i < ARRAY_LEN(splits); i++) {
        (void)snprintf(name, sizeof(name), "%s/_annotations.coco.json", splits[i]);
        if (has(p, folder, name, S_IFREG))
            return "COCO";
    }
    return has_instances(p, folder) ? "COCO" : NULL;
}

void detection_hint_folder(struct dataset *d, const char *folder)
{
    const char *open, *name = arrangement_of(&d->scope, folder, &open);
    char text[300];

    if (!name)
        return;
    (void)snprintf(text, sizeof(text),
                   "it is arranged like a data set of %s, but is read as a folder of classes, "
                   "without boxes: open it as %s",
                   name, open);
    dataset_add_warning(d, text, folder);
}

const char *detection_find_hint(const struct dataset *d)
{
    return strstr(dataset_get_warning(d), "it is arranged like a data set of ");
}

int detection_refuse_file(const struct path_probe *probe, struct plenum_error *err)
{
    const char *name = probe->path;

    if (probe->head_len == 0)
        return 0;
    if (str_ends_with(name, ".yaml") || str_ends_with(name, ".yml"))
        return error_set(err, -EINVAL,
                         "it is a YAML file: if it is the data.yaml of a YOLO data set, open it as "
                         "yolo:%s",
                         name);
    if (str_ends_with(name, ".json") && memchr(probe->head, '{', probe->head_len))
        return error_set(err, -EINVAL,
                         "it is a JSON file: if it has the annotations of COCO, open it as coco:%s",
                         name);
    return 0;
}
