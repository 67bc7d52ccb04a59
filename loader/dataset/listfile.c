/* SPDX-License-Identifier: MIT */
/* listfile.c - parses the usual forms of lists: Caffe's "path label", CSV from spreadsheets, TSV
 * from scripts.
 *
 * The text is split in place: the delimiter after a field is overwritten with a NUL once it has
 * been read. So a list of millions of lines takes no memory besides its text. */
#include "config.h"

#include "loader/dataset/listfile.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "common/data/stand_in.h"
#include "common/util/error_set.h"
#include "common/util/util.h"

static const char *const path_names[] = {"path",     "file",  "filename",   "file_name",
                                         "filepath", "image", "image_path", "img"};
static const char *const label_names[] = {"label", "class", "class_id", "target", "category"};

enum listfile_kind listfile_kind_of(const char *path)
{
    const char *dot = strrchr(path, '.');

    if (dot && strcasecmp(dot, ".csv") == 0)
        return LISTFILE_CSV;
    return dot && strcasecmp(dot, ".tsv") == 0 ? LISTFILE_TSV : LISTFILE_TEXT;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Strip whitespace from both ends; writes a NUL after the last character. */
static char *trim(char *begin, char *end)
{
    assert(begin <= end);
    while (begin < end && is_blank(*begin))
        begin++;
    while (end > begin && is_blank(end[-1]))
        end--;
    *end = '\0';
    return begin;
}

static void add_field(struct listfile_line *line, char *field)
{
    if (line->num_fields < LISTFILE_FIELDS_MAX)
        line->fields[line->num_fields++] = field;
}

/* Parse a quoted field, whose opening quote is at *at; quotes within it are doubled. Leaves *at
 * after the closing quote. */
static int parse_quoted(struct listfile *l, char **field, struct plenum_error *err)
{
    size_t line = l->line;
    char *to = l->text + l->at;

    assert(*to == '"');
    *field = to;
    for (l->at++; l->at < l->len; l->at++) {
        char c = l->text[l->at];

        if (c == '"' && l->at + 1 < l->len && l->text[l->at + 1] == '"') {
            l->at++;
        } else if (c == '"') {
            l->at++;
            *to = '\0'; /* at or before the closing quote */
            return 0;
        }
        l->line += c == '\n';
        *to++ = c;
    }
    return error_set(err, -EBADMSG, "line %zu: a closing quote is missing", line + 1);
}

/* Parse one line of CSV, from l->at to after its newline. */
static int parse_csv(struct listfile *l, struct listfile_line *line, struct plenum_error *err)
{
    for (;;) {
        char *begin = l->text + l->at, *field = NULL, *end, delimiter;

        if (*begin == '"') {
            int r = parse_quoted(l, &field, err);

            if (r < 0)
                return r;
        }
        end = l->text + l->at;
        while (end < l->text + l->len && *end != ',' && *end != '\n') {
            if (field && !is_blank(*end))
                return error_set(err, -EBADMSG, "line %zu: something follows a closing quote",
                                 l->line + 1);
            end++;
        }
        delimiter = end < l->text + l->len ? *end : '\0';
        l->at = (size_t)(end - l->text) + (delimiter != '\0');
        if (!field)
            field = trim(begin, end);
        add_field(line, field);
        if (delimiter != ',') {
            l->line++;
            return 0;
        }
    }
}

static void split_tabs(struct listfile_line *line, char *begin, char *end)
{
    for (;;) {
        char *tab = memchr(begin, '\t', (size_t)(end - begin));

        add_field(line, trim(begin, tab ? tab : end));
        if (!tab)
            return;
        begin = tab + 1;
    }
}

static bool has_no_labels(const struct listfile *l)
{
    return l->label_column && strcmp(l->label_column, "none") == 0;
}

/* Split "path with spaces label" at the last word. */
static void split_last_word(struct listfile_line *line, char *begin, char *end)
{
    char *word;

    begin = trim(begin, end);
    end = begin + strlen(begin);
    word = end;
    while (word > begin && !is_blank(word[-1]))
        word--;
    if (word > begin) {
        add_field(line, trim(begin, word - 1));
        add_field(line, word);
    } else {
        add_field(line, begin);
    }
}

static void parse_text(struct listfile *l, struct listfile_line *line)
{
    char *begin = l->text + l->at, *end = memchr(begin, '\n', l->len - l->at);

    l->at = end ? (size_t)(end - l->text) + 1 : l->len;
    if (!end)
        end = l->text + l->len;
    l->line++;
    while (end > begin && end[-1] == '\r')
        end--;
    if (l->kind == LISTFILE_TSV || memchr(begin, '\t', (size_t)(end - begin)))
        split_tabs(line, begin, end);
    else if (has_no_labels(l))
        add_field(line, trim(begin, end));
    else
        split_last_word(line, begin, end);
}

static bool is_empty(const struct listfile_line *line)
{
    for (unsigned i = 0; i < line->num_fields; i++)
        if (line->fields[i][0])
            return false;
    return true;
}

/* Parse the next non-empty line. Returns 1, 0 at the end, or -EBADMSG. */
static int parse_line(struct listfile *l, struct listfile_line *line, struct plenum_error *err)
{
    while (l->at < l->len) {
        int r = 0;

        line->offset = l->at;
        line->number = l->line + 1;
        line->num_fields = 0;
        line->path = line->label = NULL;
        if (l->kind == LISTFILE_TEXT && l->text[l->at] == '#') {
            const char *end = memchr(l->text + l->at, '\n', l->len - l->at);

            l->at = end ? (size_t)(end - l->text) + 1 : l->len;
            l->line++;
            continue;
        }
        if (l->kind == LISTFILE_CSV)
            r = parse_csv(l, line, err);
        else
            parse_text(l, line);
        if (r < 0)
            return r;
        assert(l->at > line->offset && l->at <= l->len);
        if (!is_empty(line))
            return 1;
    }
    return 0;
}

/* Returns the first column with one of these names, or -1. */
static int column_of(const struct listfile_line *line, const char *const *names, size_t count)
{
    for (unsigned i = 0; i < line->num_fields; i++)
        for (size_t k = 0; k < count; k++)
            if (strcasecmp(line->fields[i], names[k]) == 0)
                return (int)i;
    return -1;
}

/* Returns the second column with one of these names, or -1. */
static int second_column_of(const struct listfile_line *line, int first, const char *const *names,
                            size_t count)
{
    for (unsigned i = first < 0 ? line->num_fields : (unsigned)first + 1; i < line->num_fields; i++)
        for (size_t k = 0; k < count; k++)
            if (strcasecmp(line->fields[i], names[k]) == 0)
                return (int)i;
    return -1;
}

/* Reject a header with two candidates for a column. */
static int refuse_two(const struct listfile_line *header, int first, int second, const char *what,
                      struct plenum_error *err)
{
    const char *a = header->fields[first], *b = header->fields[second];

    assert(first >= 0 && first < second);
    if (strcasecmp(a, b) == 0)
        return error_set(
            err, -EBADMSG,
            "its first line names two columns '%s': choose the %s by its number, as in list,%s=%d:",
            a, what, what, first + 1);
    return error_set(err, -EBADMSG,
                     "its first line names two columns that could be the %s, '%s' and '%s': write "
                     "list,%s=%s: or list,%s=%s:",
                     what, a, b, what, a, what, b);
}

/* Parse a column that is given by number. Returns false if it is a name, which the caller looks up
 * in the header. */
static bool column_number(const char *text, unsigned *column)
{
    uint64_t value;

    if (!text || parse_u64(text, LISTFILE_FIELDS_MAX, &value) < 0 || value == 0)
        return false;
    *column = (unsigned)value - 1;
    return true;
}

static int named_column(const struct listfile_line *header, const char *name, unsigned *column,
                        struct plenum_error *err)
{
    int i = column_of(header, &name, 1);

    if (i < 0)
        return error_set(err, -EBADMSG, "its first line has no column '%s'", name);
    *column = (unsigned)i;
    return 0;
}

int listfile_begin(struct listfile *l, struct plenum_error *err)
{
    struct listfile_line first;
    bool path_numbered, label_numbered, named, guess;
    struct listfile begin;
    bool no_labels = l->no_images || has_no_labels(l);
    int path, label, second, r;

    if (stand_in_refuse(l->text, l->len, -EBADMSG, err) < 0)
        return -EBADMSG;
    if (memchr(l->text, '\0', l->len))
        return error_set(err, -EBADMSG, "it contains zero bytes, so it is not a list");
    l->text[l->len] = '\0';
    l->at = l->len >= 3 && memcmp(l->text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    if (l->len > l->at && l->text[l->at] == '{')
        return error_set(
            err, -EBADMSG,
            "its lines are JSON, but each line of a list has a path and a label: convert it to a "
            "CSV with the columns path and label (Python's json.loads() reads each line)");
    l->line = 0;
    l->num_header = 0;
    l->path_field = l->no_images ? LISTFILE_FIELDS_MAX : 0;
    l->label_field = no_labels ? LISTFILE_FIELDS_MAX : 1;
    path_numbered = column_number(l->path_column, &l->path_field);
    label_numbered = has_no_labels(l) || column_number(l->label_column, &l->label_field);
    guess = l->kind != LISTFILE_TEXT;
    named = (l->path_column && !path_numbered) || (l->label_column && !label_numbered) ||
            (l->no_images && guess);
    if (!named && !guess)
        return 0;
    begin = *l;
    if (!named) { /* parse a copy: a data line must not be split here */
        char *end = memchr(l->text + l->at, '\n', l->len - l->at);
        size_t len = end ? (size_t)(end - l->text) - l->at : l->len - l->at;
        char copy[1024];

        if (len >= sizeof(copy))
            return 0;
        memcpy(copy, l->text + l->at, len);
        copy[len] = '\0';
        begin.text = copy;
        begin.len = len;
        begin.at = 0;
        r = parse_line(&begin, &first, NULL);
        if (r <= 0 || column_of(&first, path_names, ARRAY_LEN(path_names)) < 0 ||
            (column_of(&first, label_names, ARRAY_LEN(label_names)) < 0 && !has_no_labels(l)))
            return 0;
    }
    r = parse_line(l, &first, err);
    if (r <= 0)
        return r < 0 ? r : error_set(err, -EBADMSG, "it is empty");
    path = column_of(&first, path_names, ARRAY_LEN(path_names));
    label = column_of(&first, label_names, ARRAY_LEN(label_names));
    if (l->path_column && !path_numbered) {
        r = named_column(&first, l->path_column, &l->path_field, err);
        if (r < 0)
            return r;
    } else if (!path_numbered && path >= 0 && !l->no_images) {
        second = second_column_of(&first, path, path_names, ARRAY_LEN(path_names));
        if (second >= 0)
            return refuse_two(&first, path, second, "path", err);
        l->path_field = (unsigned)path;
    }
    if (l->label_column && !label_numbered) {
        r = named_column(&first, l->label_column, &l->label_field, err);
        if (r < 0)
            return r;
    } else if (!label_numbered && label >= 0 && !l->no_images) {
        second = second_column_of(&first, label, label_names, ARRAY_LEN(label_names));
        if (second >= 0)
            return refuse_two(&first, label, second, "label", err);
        l->label_field = (unsigned)label;
    }
    assert(l->path_field <= LISTFILE_FIELDS_MAX && l->label_field <= LISTFILE_FIELDS_MAX);
    memcpy(l->header, first.fields, first.num_fields * sizeof(first.fields[0]));
    l->num_header = first.num_fields;
    return 0;
}

static const char *field_at(const struct listfile_line *line, unsigned i)
{
    return i < line->num_fields && line->fields[i][0] ? line->fields[i] : NULL;
}

int listfile_next(struct listfile *l, struct listfile_line *ret, struct plenum_error *err)
{
    int r = parse_line(l, ret, err);

    if (r <= 0)
        return r;
    ret->path = field_at(ret, l->path_field);
    ret->label = field_at(ret, l->label_field);
    if (!ret->path && !l->no_images)
        return error_set(err, -EBADMSG, "line %zu names no file", ret->number);
    if (!ret->label && l->label_field < LISTFILE_FIELDS_MAX)
        return error_set(
            err, -EBADMSG,
            "line %zu ('%.100s') has no label; use list,label=none: for lists without labels",
            ret->number, ret->path ? ret->path : ret->fields[0]);
    return 1;
}
