# SPDX-License-Identifier: MIT
# bash completion for plenumrun, plenumd and plenumctl: the programs themselves say what may follow (--complete).

_plenum() {
    local -a words=() starts=() lines=()
    local i word kind cur value cut rest=${COMP_LINE:0:COMP_POINT}
    # bash has cut words at '=' and ':': put them together again.
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        [ "$i" -lt "$COMP_CWORD" ] || word=${rest#"${rest%%[![:blank:]]*}"}
        if [ "$i" -gt 0 ] && [[ $rest != [[:blank:]]* && ($i -lt $COMP_CWORD || -n $rest) ]]; then
            words[${#words[@]} - 1]+=$word
        else
            words+=("$word") starts+=("$i")
        fi
        rest=${rest#"${rest%%[![:blank:]]*}"}
        rest=${rest#"$word"}
    done
    cur=${words[${#words[@]} - 1]}
    cut=${COMP_WORDS[COMP_CWORD]}
    case $cut in
    = | :) cut=$cur ;;                          # what is completed is what comes behind it
    *) cut=${cur%"${cur##*[=:]}"} ;;
    esac
    mapfile -t lines < <("$1" --complete "${words[@]:1}" 2>/dev/null)
    kind=${lines[0]-} COMPREPLY=()
    value=$cur
    [[ $cur != --*=* ]] || value=${cur#*=}
    case $kind in
    words)
        for word in "${lines[@]:1}"; do
            word=${word%%$'\t'*}
            [[ $word != "$cur"* ]] || COMPREPLY+=("${word#"$cut"}")
        done
        [[ ${#COMPREPLY[@]} != 1 || ${COMPREPLY[0]} != *: ]] || compopt -o nospace
        ;;
    files) compopt -o filenames && mapfile -t COMPREPLY < <(compgen -f -- "$value") ;;
    directories) compopt -o filenames && mapfile -t COMPREPLY < <(compgen -d -- "$value") ;;
    hosts) mapfile -t COMPREPLY < <(compgen -A hostname -- "$value") ;;
    variables) mapfile -t COMPREPLY < <(compgen -e -- "$value") ;;
    users) mapfile -t COMPREPLY < <(compgen -u -- "$value") ;;
    groups) mapfile -t COMPREPLY < <(compgen -g -- "$value") ;;
    'command '*)
        i=${kind#command }
        if declare -F _comp_command_offset >/dev/null; then
            _comp_command_offset "${starts[i]}"
        elif declare -F _command_offset >/dev/null; then
            _command_offset "${starts[i]}"
        elif [ "$i" = $((${#words[@]} - 1)) ]; then
            mapfile -t COMPREPLY < <(compgen -c -- "$cur")
        else
            compopt -o filenames && mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        fi
        ;;
    esac
}
complete -F _plenum plenumrun plenumd plenumctl
