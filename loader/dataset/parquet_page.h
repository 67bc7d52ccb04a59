/* SPDX-License-Identifier: MIT */
/* parquet_page.h - finds the values in the pages of a Parquet file.
 *
 * To find the byte strings in an uncompressed page, only their lengths are read, not the whole
 * page. So each image has a known place in the file, as in a tar archive. Other pages are
 * decompressed in memory. */
#ifndef LOADER_DATASET_PARQUET_PAGE_H
#define LOADER_DATASET_PARQUET_PAGE_H

#include "loader/dataset/index_builder.h"
#include "loader/dataset/parquet_file.h"

enum parquet_page_kind { PARQUET_DATA, PARQUET_INDEX, PARQUET_DICTIONARY, PARQUET_DATA_2 };

/** The header of a page. */
struct parquet_page {
    uint64_t at;        /* offset of the header in the file */
    uint64_t body;      /* offset of the body, which follows the header */
    uint64_t end;       /* offset of the next page */
    uint32_t len;       /* bytes of the body, decompressed */
    uint32_t values;    /* including nulls */
    uint32_t def_bytes; /* PARQUET_DATA_2: size of the definition levels */
    uint32_t rep_bytes; /* PARQUET_DATA_2: size of the repetition levels, which come first */
    int32_t encoding, level_encoding;
    enum parquet_page_kind kind;
    bool stored; /* PARQUET_DATA_2: not compressed, whatever the column's codec is */
};

/** Where to find pages. */
struct parquet_source {
    struct source archive;
    uint64_t end; /* end of the column's pages, or of the file */
    const struct parquet_column *column;
    enum unpack_codec codec;
    bool locate;                 /* do not read uncompressed values, only find them in the file */
    struct index_memory *memory; /* the memory to charge, or NULL */
};

/** The bytes that contain values. */
struct parquet_region {
    uint64_t at;    /* offset in the file of its first byte, or of its page's header if `packed` */
    bool packed;    /* it is in a page that has to be decompressed */
    uint8_t *bytes; /* [len], owned; NULL: only in the file */
    uint32_t len;
};

enum { PARQUET_NULL = UINT32_MAX };

struct parquet_span {
    uint32_t at, len; /* in the region; `at` is PARQUET_NULL for a null */
};

/** The values of a page. */
struct parquet_values {
    struct parquet_region region;
    const struct parquet_region *in; /* the dictionary's region, or the page's own */
    struct parquet_span *spans;      /* [count], owned */
    uint32_t count;
    struct index_memory *memory;
    size_t charged;
};

/** Read the header of the page at byte `at`. Returns 0; -EBADMSG if it is damaged; -ENOMEM; or
 * another -errno. `err` is set, without the file's name. */
int parquet_page_read(const struct parquet_source *s, uint64_t at, struct parquet_page *ret,
                      struct plenum_error *err);

/** Returns whether the page's body has to be decompressed. */
bool parquet_page_is_packed(const struct parquet_source *s, const struct parquet_page *page);

/** Returns the size in bytes of the region that contains the page's values. */
uint32_t parquet_page_region_len(const struct parquet_page *page);

/** Read the region that contains the page's values, and decompress it into `bytes`
 * [parquet_page_region_len()]. */
int parquet_page_unpack(const struct parquet_source *s, const struct parquet_page *page,
                        uint8_t *bytes, struct plenum_error *err);

/**
 * Find the values of a page of data, or of a dictionary.
 *
 * @param dictionary  the values of the column's dictionary, which must outlive `ret`, or NULL
 * Errors: -EBADMSG it is damaged, or its encoding is not supported; -EOPNOTSUPP its codec is not;
 * -ENOMEM; another -errno.
 */
int parquet_page_decode(const struct parquet_source *s, const struct parquet_page *page,
                        const struct parquet_values *dictionary, struct parquet_values *ret,
                        struct plenum_error *err);
void parquet_values_fini(struct parquet_values *values);

/** A value of a column. */
struct parquet_value {
    bool null;
    const uint8_t *bytes; /* [len], borrowed until the next call; NULL: only in the file */
    uint32_t len;
    uint64_t where;    /* offset in the file of the value, or of its page's header if `packed` */
    uint32_t extra;    /* if `packed`: offset in the region of that page */
    uint32_t page_len; /* if `packed`: size of that region */
    bool packed;
};

/** Reads the values of a column of one file, in the order of rows. */
struct parquet_cursor {
    const struct parquet_file *file;
    struct parquet_source source;
    size_t column, group; /* group: the next row group */
    uint64_t at;          /* the next page */
    uint64_t left;        /* values in the pages of the current row group */
    struct parquet_values dictionary, values;
    uint32_t next;
};

/** Start at the first row of a column that is not repeated. `locate`: the caller does not need the
 * values' bytes. */
void parquet_cursor_init(struct parquet_cursor *c, const struct parquet_file *file,
                         struct source archive, size_t column, bool locate);
/** Get the next value. Returns 1; 0 after the last one; or an error of parquet_check_chunk(),
 * parquet_page_read() or parquet_page_decode(). */
int parquet_cursor_next(struct parquet_cursor *c, struct parquet_value *ret,
                        struct plenum_error *err);
void parquet_cursor_fini(struct parquet_cursor *c);

/** Check that the pages of all row groups have as many values as the metadata says. Needed if no
 * column is read. Errors: those of parquet_page_read(). */
int parquet_check_rows(const struct parquet_file *file, struct source archive,
                       struct plenum_error *err);

/** Check that a row group's pages of this column can be read. Returns 0; -EBADMSG if they are
 * encrypted, or do not have one value per row; or -EOPNOTSUPP if this build lacks their codec. */
int parquet_check_chunk(const struct parquet_file *file, const struct parquet_group *group,
                        size_t column, struct plenum_error *err);

#endif
