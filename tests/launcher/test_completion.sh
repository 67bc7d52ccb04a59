#!/bin/bash
# test_completion.sh - what bash offers behind plenumrun. Speaks TAP.
. "$top_srcdir/tests/lib.sh"
. "$top_srcdir/launcher/completion/plenumrun"
cd "$T" || exit 99
mkdir folder && touch file.xml

# offers WORD... - what is offered for the last of these words of a command line
offers() {
    COMP_WORDS=("$top_builddir/plenumrun" "$@") COMP_CWORD=$#
    _plenumrun
    [ ${#COMPREPLY[@]} = 0 ] || printf '%s\n' "${COMPREPLY[@]}" | sort | tr '\n' ' '
}
every() { # of the options in --help is offered
    local option
    offered=" $(offers --) "
    for option in $("$top_builddir/plenumrun" --help | grep -oE '^ {2}(-., | {4})--[a-z-]+' | grep -oE -- '--[a-z-]+'); do
        case $offered in *" $option "*) ;; *) echo "$option is not offered: $offered"; return 1 ;; esac
    done
    [ "$(wc -w <<<"$offered")" -gt 30 ]
}

ok "every option" every
is "--max-restarts --mem-policy --mpi-global-args --mpi-local-args " "those that begin so" offers --m
is "compact core " "words that an option takes" offers -n 2 --process-placement co
is "local " "behind '='" offers --mem-policy = l
is "json text " "also where it may be left out" offers --print-topology =
is "off on " "as --help has them" offers --smt ""
is "file.xml folder " "files" offers --topology f
is "folder " "folders" offers --output-dir f
is "" "nothing where nobody knows" offers --grace ""
has_commands() { offers -n 2 --tag-output ba | grep -qw bash; }
ok "programs" has_commands
_command_offset() { offset=$1; }
offset_is() { offset=none; COMP_WORDS=(plenumrun "${@:2}") COMP_CWORD=$(($# - 1)); _plenumrun; [ "$offset" = "$1" ] || { echo "$offset"; false; }; }
PATH=$top_builddir:$PATH
ok "the program's own words" offset_is 4 -n 2 --tag-output python3 tr
ok "also behind =" offset_is 5 --grace = 3 -v python3 tr
ok "and behind --" offset_is 4 -n 2 -- -x

finish
