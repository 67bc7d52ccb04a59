#!/bin/bash
# SPDX-License-Identifier: MIT
# test_folders.sh - folders on the command lines of scripts/ are seen from where the script is called, however it goes
# about after that; and what fails in one of two builds is the script's failure. The scripts run in sources that have
# nothing but them; what they start says where it was started.
# Speaks TAP.
. "$top_srcdir/tests/lib.sh"
cd "$T" || exit 99
mkdir -p src/examples src/python stubs elsewhere/photos && cp -R "$top_srcdir/scripts" src/ && chmod -R u+w src &&
    touch -d '2 days ago' src/configure.ac || exit 99
stub() { cat >"$1" && chmod +x "$1"; } # FILE: a program, by standard input
printf '#!/bin/sh\n: >config.status\necho "$PWD" >>"%s/configured"\n' "$T" | stub src/configure
printf '#!/bin/sh\necho "$PWD $*" >>"%s/made"\n[ "${PWD##*/}" != "$FAILS" ]\n' "$T" | stub stubs/make
printf '#!/bin/sh\necho "$1 $2" >>"%s/asked"\necho 1234\n' "$T" | stub stubs/plenumctl
printf '#!/bin/sh\necho "hash 1234"\n' | stub stubs/plenumrun
# All packages are installed.
printf '#!/bin/sh\necho installed\n' | stub stubs/dpkg-query
for program in autoreconf apt-get; do printf '#!/bin/sh\necho "%s is called"\nexit 9\n' $program |
    stub stubs/$program; done
PATH=$T/stubs:$PATH
export SOURCE_DATE_EPOCH=1
cd elsewhere || exit 99

only_there() { # FOLDER...: nothing else was configured
    local wanted
    wanted=$(printf "$T/elsewhere/%s\n" "$@")
    [ "$(cat ../configured)" = "$wanted" ] ||
        { echo "wanted: $wanted"; echo "configured: $(cat ../configured)"; rm ../configured; return 1; }
    rm ../configured
    [ "$(cd ../src && echo *)" = "configure configure.ac examples python scripts" ]
}
ok "scripts/check with a folder" ../src/scripts/check out/check
ok "is built there" only_there out/check
ok "scripts/sanitize, which builds twice," ../src/scripts/sanitize out/sanitize
ok "as well" only_there out/sanitize/address out/sanitize/thread
for run in address thread; do
    ok "and fails where that of $run does" status 1 env FAILS=$run ../src/scripts/sanitize out/$run-fails
done
rm ../configured
ok "scripts/demo" env DATASET=photos ../src/scripts/demo out/demo
ok "as well, too" only_there out/demo
is "index $T/elsewhere/photos" "and takes the data set that is here" sed -n 1p ../asked
ok "not one that is not" eval \
    'status 1 env DATASET=cats ../src/scripts/demo out/demo 2>&1 | grep -q "there is no folder $T/elsewhere/cats"'
mkdir full && : >full/file
ok "scripts/wheel" eval 'status 2 ../src/scripts/wheel full 2>&1 | grep -q "$T/elsewhere/full holds something else"'
for script in check sanitize demo wheel; do
    ok "scripts/$script: what is no folder" status 2 ../src/scripts/$script --help
    ok "scripts/$script: two folders" status 2 ../src/scripts/$script one two
done
is "full out photos" "nothing else was made" echo *
finish
