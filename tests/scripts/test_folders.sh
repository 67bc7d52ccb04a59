#!/bin/bash
# SPDX-License-Identifier: MIT
# test_folders.sh - scripts resolve folders on their command lines relative to the caller's folder, and a script that
# builds twice fails if one of the builds fails. The scripts run in a source tree that contains nothing else; stubs
# record the folders in which they were started.
# Prints TAP.
. "$top_srcdir/tests/lib.sh"
cd "$T" || exit 99
mkdir -p src/examples src/python stubs elsewhere/photos && cp -R "$top_srcdir/scripts" src/ && chmod -R u+w src &&
    touch -d '2 days ago' src/configure.ac || exit 99
stub() { cat >"$1" && chmod +x "$1"; } # FILE: creates a program from standard input
printf '#!/bin/sh\n: >config.status\necho "$PWD" >>"%s/configured"\n' "$T" | stub src/configure
printf '#!/bin/sh\necho "$PWD $*" >>"%s/made"\n[ "${PWD##*/}" != "$FAILS" ]\n' "$T" | stub stubs/make
printf '#!/bin/sh\necho "$1 $2" >>"%s/asked"\necho 1234\n' "$T" | stub stubs/plenumctl
printf '#!/bin/sh\necho "hash 1234"\n' | stub stubs/plenumrun
# This dpkg-query claims that all packages are installed.
printf '#!/bin/sh\necho installed\n' | stub stubs/dpkg-query
for program in autoreconf apt-get; do printf '#!/bin/sh\necho "%s is called"\nexit 9\n' $program |
    stub stubs/$program; done
PATH=$T/stubs:$PATH
export SOURCE_DATE_EPOCH=1
cd elsewhere || exit 99

only_there() { # FOLDER...: checks that only these were configured
    local wanted
    wanted=$(printf "$T/elsewhere/%s\n" "$@")
    [ "$(cat ../configured)" = "$wanted" ] ||
        { echo "wanted: $wanted"; echo "configured: $(cat ../configured)"; rm ../configured; return 1; }
    rm ../configured
    [ "$(cd ../src && echo *)" = "configure configure.ac examples python scripts" ]
}
ok "scripts/check accepts a relative folder" ../src/scripts/check out/check
ok "scripts/check builds in that folder, relative to the caller's directory" only_there out/check
ok "scripts/sanitize accepts a relative folder" ../src/scripts/sanitize out/sanitize
ok "scripts/sanitize builds twice in that folder" only_there out/sanitize/address out/sanitize/thread
for run in address thread; do
    ok "scripts/sanitize fails if the $run build fails" status 1 env FAILS=$run ../src/scripts/sanitize out/$run-fails
done
rm ../configured
ok "scripts/demo accepts a relative folder" env DATASET=photos ../src/scripts/demo out/demo
ok "scripts/demo builds in that folder" only_there out/demo
is "index $T/elsewhere/photos" "scripts/demo uses the data set below the caller's directory" sed -n 1p ../asked
ok "scripts/demo rejects a data set that does not exist" eval \
    'status 1 env DATASET=cats ../src/scripts/demo out/demo 2>&1 | grep -q "there is no folder $T/elsewhere/cats"'
mkdir full && : >full/file
ok "scripts/wheel rejects a folder with other files" eval \
    'status 2 ../src/scripts/wheel full 2>&1 | grep -q "$T/elsewhere/full contains other files"'
for script in check sanitize demo wheel; do
    ok "scripts/$script: an argument that is not a folder" status 2 ../src/scripts/$script --help
    ok "scripts/$script: two folders" status 2 ../src/scripts/$script one two
done
is "full out photos" "no other files were created" echo *
finish
