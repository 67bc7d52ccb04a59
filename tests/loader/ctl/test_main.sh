#!/bin/bash
# SPDX-License-Identifier: MIT
# test_main.sh - how plenumctl finds its commands, and the errors for commands that do not exist. Prints TAP.
. "$top_srcdir/tests/lib.sh"
ctl=$top_builddir/plenumctl
cd "$T" || exit 99

says() { # STATUS MESSAGE ARGUMENT...: plenumctl prints this message to standard error, and nothing to standard output
    local status=$1 sentence=$2 code=0
    shift 2
    "$ctl" "$@" >out 2>err || code=$?
    [ $code = "$status" ] && [ ! -s out ] && grep -qF -- "$sentence" err
}

for command in $("$ctl" --help | sed -n 's/^  \([a-z-]*\) .*/\1/p'); do
    "$ctl" "$command" --help >own 2>err
    ok "help $command is $command --help" sh -c '"$1" help "$2" | cmp - own && [ -s own ]' sh "$ctl" "$command"
done
ok "help alone lists the commands" sh -c '"$1" help | grep -q "^  preview "' sh "$ctl"
ok "a misspelt command: the message suggests one" says 2 "there is no command 'pretiew'; did you mean preview?" pretiew
ok "help with a misspelt command: the message suggests one" says 2 \
    "there is no command 'idnex'; did you mean index?" help idnex
ok "a command unlike any other: no suggestion" says 2 "there is no command 'wholly-other'; see plenumctl --help" \
    wholly-other

ok "order --count lists the first positions" sh -c '"$1" order generated:20 --seed 5 --count 7 >few &&
    "$1" order generated:20 --seed 5 --positions 0:7 | cmp - few && [ "$(wc -l <few)" = 8 ]' sh "$ctl"
ok "order --count cannot exceed the positions of an epoch" says 1 \
    "--count 21: an epoch has only 20 positions" order generated:20 --count 21
ok "--count and --positions together are rejected" says 2 \
    "--positions, --count, --step and --sample cannot be used together" order generated:20 --count 2 --positions 0:2

mkdir -p home/data
"$ctl" make-sample home/data/x --classes 2 --images 2 --size 16 >/dev/null
(cd home/data && tar cf ../x.tar x)
"$ctl" hash "tar,label=folder:$T/home/x.tar" --samples 4 >want 2>err
ok "~ after the format's name is the home folder" \
    sh -c 'HOME=$2 "$1" hash "tar,label=folder:~/x.tar" --samples 4 | cmp - want && [ -s want ]' sh "$ctl" "$T/home"
printf 'x\n' >home/classes
ok "~ in a setting is the home folder" \
    sh -c 'HOME=$2 "$1" index "folder,classes=~/data:~/data" | grep -q "^data set .*$2/data"' \
    sh "$ctl" "$T/home"
ok "~ within a path is not the home folder" says 1 "'tar:/~/x.tar': No such file" index "tar:/~/x.tar"
finish
