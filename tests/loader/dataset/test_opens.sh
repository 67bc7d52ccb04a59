#!/bin/sh
# SPDX-License-Identifier: MIT
# In loader/dataset, only scope.c opens the paths of data sets, after checking them against the client's roots, and only
# cache.c and cache_limit.c open files of the cache folder. No other code there, in loader/render or in loader/image
# opens, lists or inspects paths, except for the two cases at others() below.
. "$top_srcdir/tests/lib.sh"

calls='open|open64|openat|openat2|creat|fopen|freopen|opendir|fdopendir|scandir|scandirat|nftw|ftw|fts_open|glob|stat|stat64|lstat|fstatat|statx'
calls="$calls|access|faccessat|realpath|canonicalize_file_name|readlink|readlinkat|rename|unlink|unlinkat|mkdir|chdir|execv|popen|system"

# others: print the lines elsewhere that call one of these functions. Allowed are tar_writer.c, which writes the files
# that plenumctl pack names, and index_read(), which opens the file that plenumctl index --compare names.
others() {
    cd "$top_srcdir/loader" || exit 1
    grep -nE "(^|[^_a-z>.])($calls) ?\\(" dataset/*.c render/*.c image/*.c image/*/*.c |
        grep -vE '^dataset/(scope|cache|cache_limit|tar_writer)\.c:|^[^:]*:[0-9]*: ?\*|^[^:]*:[0-9]*: */\*' |
        grep -vE '^dataset/index\.c:[0-9]*:    int fd = open\(path, O_RDONLY \| O_CLOEXEC \| O_NONBLOCK\);$'
}

# The same search in scope.c, to show that it can find something.
in_scope() {
    grep -cE "(^|[^_a-z>.])($calls) ?\\(" "$top_srcdir/loader/dataset/scope.c"
}

ok "the search finds the calls in scope.c" test "$(in_scope)" -gt 3
is "" "only scope.c, cache.c and cache_limit.c open paths" others
finish
