# SPDX-License-Identifier: MIT
# fish completion for plenumrun, plenumd and plenumctl: the programs themselves say what may follow (--complete).

function __plenum_complete
    set -l words (commandline -opc)
    set -l token (commandline -ct)
    set -l value (string replace -r -- '^--[^=]*=' '' $token)
    set -l before (string match -r -- '^--[^=]*=' $token)
    set -l lines ($words[1] --complete $words[2..] "$token" 2>/dev/null)
    switch "$lines[1]"
        case words
            printf '%s\n' $lines[2..]
        case files
            printf "$before%s\n" (__fish_complete_path "$value")
        case directories
            printf "$before%s\n" (__fish_complete_directories "$value" '')
        case hosts
            printf "$before%s\n" (__fish_print_hostnames)
        case variables
            printf "$before%s\n" (set --names -x)
        case users
            printf "$before%s\n" (__fish_complete_users)
        case groups
            printf "$before%s\n" (__fish_complete_groups)
        case 'command *'
            set -l first (math (string replace 'command ' '' $lines[1]) + 1)
            complete -C (string join ' ' -- (string escape -- $words[$first..]) $token)
    end
end

for program in plenumrun plenumd plenumctl
    complete -c $program -f -a '(__plenum_complete)'
end
