#!/bin/sh
# SPDX-License-Identifier: MIT
# What a data set names is opened by loader/dataset/scope.c alone, which checks it against the client's roots, and
# files of the cache by cache.c and cache_limit.c. Nothing else of that room, nor of the rooms that use it, opens, lists
# or looks at paths.
. "$top_srcdir/tests/lib.sh"

calls='open|open64|openat|openat2|creat|fopen|freopen|opendir|fdopendir|scandir|scandirat|nftw|ftw|fts_open|glob|stat|stat64|lstat|fstatat|statx'
calls="$calls|access|faccessat|realpath|canonicalize_file_name|readlink|readlinkat|rename|unlink|unlinkat|mkdir|chdir|execv|popen|system"

# others: lines that call one of these elsewhere. tar_writer.c writes the files named to plenumctl pack; the user of
# plenumctl names compare.c's file, which index_read() opens.
others() {
    cd "$top_srcdir/loader" || exit 1
    grep -nE "(^|[^_a-z>.])($calls) ?\\(" dataset/*.c render/*.c image/*.c image/*/*.c |
        grep -vE '^dataset/(scope|cache|cache_limit|tar_writer)\.c:|^[^:]*:[0-9]*: ?\*|^[^:]*:[0-9]*: */\*' |
        grep -vE '^dataset/index\.c:[0-9]*:    int fd = open\(path, O_RDONLY \| O_CLOEXEC \| O_NONBLOCK\);$'
}

# For our own eyes: the same of scope.c, so that a search that finds nothing anywhere shows.
in_scope() {
    grep -cE "(^|[^_a-z>.])($calls) ?\\(" "$top_srcdir/loader/dataset/scope.c"
}

ok "the search finds what is there" test "$(in_scope)" -gt 3
is "" "nothing but scope.c, cache.c and cache_limit.c opens a path" others
finish
