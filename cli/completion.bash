# Bash completion for vicinal. Nothing is listed here: commands and options are read from the program's own help, so they
# are always those of the version that is installed.

_vicinal_words() { # what follows an option, from its line "--metric dot|cosine|l2 ..." of the help
    "$1" help "$2" 2>/dev/null | sed -n "s/^  *\(-[a-z], \)\{0,1\}--$3 \([a-z0-9]*|[a-z0-9|]*\).*/\2/p" | tr '|' ' '
}

_vicinal() {
    local program=$1 word=$2 previous=$3 command=${COMP_WORDS[1]-} choices=
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ] || { [ "$COMP_CWORD" -eq 2 ] && [ "$command" = help ]; }; then
        choices=$("$program" --help 2>/dev/null | sed -n 's/^  \([a-z]\{1,\}\)  .*/\1/p')
        [ "$COMP_CWORD" -eq 2 ] || choices="$choices help --help --version"
    elif [ "${word#-}" != "$word" ]; then
        choices="--help $("$program" help "$command" 2>/dev/null | sed -n 's/^  *\(-[a-z], \)\{0,1\}\(--[a-z-]*\).*/\2/p')"
    elif [ "${previous#--}" != "$previous" ]; then
        choices=$(_vicinal_words "$program" "$command" "${previous#--}")
    elif [ "$command" = gen ] && [ "$COMP_CWORD" -eq 2 ]; then
        choices="gauss clusters manifold duplicates"
    fi
    # shellcheck disable=SC2207
    if [ -n "$choices" ]; then
        COMPREPLY=($(compgen -W "$choices" -- "$word"))
    else
        COMPREPLY=($(compgen -f -- "$word"))
    fi
}

complete -o filenames -F _vicinal vicinal
