#compdef plenumrun plenumd plenumctl
# SPDX-License-Identifier: MIT
# zsh completion for plenumrun, plenumd and plenumctl: the programs themselves say what may follow (--complete).

local line kind
local -a lines described

lines=("${(@f)$(_call_program words ${(q)words[1]} --complete "${(@q)${(@Q)words[2,CURRENT-1]}}" ${(qq)${(Q)PREFIX}} 2>/dev/null)}")
kind=$lines[1]
[[ $kind = (words|command*) ]] || compset -P '--*='
case $kind in
words)
    for line in $lines[2,-1]; do
        if [[ $line = *$'\t'* ]]; then
            described+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
        else
            described+=("${line//:/\\:}")
        fi
    done
    _describe word described
    ;;
files) _files ;;
directories) _files -/ ;;
hosts) _hosts ;;
variables) _parameters -g '*export*' ;;
users) _users ;;
groups) _groups ;;
command\ *)
    shift ${kind#command } words
    (( CURRENT -= ${kind#command } ))
    _normal
    ;;
esac
