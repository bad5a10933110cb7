#!/bin/sh
# Help: every subcommand has one, it is the same by both ways, and its example runs as it stands.
. test/cli/checks

run
code_is 2
err_has 'usage: vicinal COMMAND'
run --help
code_is 0
out_has 'usage: vicinal COMMAND'
cp "$scratch/out" "$scratch/help"
[ "$(wc -l <"$scratch/help")" -le 24 ]
verdict $? "the first help does not fit one screen"
[ "$(awk '{ if (length > most) most = length } END { print most }' "$scratch/help")" -le 80 ]
verdict $? "the first help does not fit 80 columns"
for word in help -h; do
    run $word
    out_is <"$scratch/help"
done
run --version
code_is 0
out_is <<END
vicinal $(sed -n 's/^project(vicinal VERSION \([0-9.]*\).*/\1/p' "$tree/CMakeLists.txt")
END

commands=$(sed -n 's/^  \([a-z]\{1,\}\)  .*/\1/p' "$scratch/help")
# shellcheck disable=SC2086
[ "$(printf '%s ' $commands)" = "build search truth eval info check convert gen bench devices " ]
verdict $? "the list of commands is '$commands'"

# gen, build and truth make what the other examples use
PATH=$VICINAL_BIN:$PATH
for command in gen build truth search eval info check convert bench devices; do
    run help $command
    code_is 0
    cp "$scratch/out" "$scratch/help"
    [ "$(awk '{ if (length > most) most = length } END { print most }' "$scratch/help")" -le 80 ]
    verdict $? "help is wider than 80 columns"
    for flag in --help -h; do
        run $command $flag
        code_is 0
        out_is <"$scratch/help"
    done
    sed '1,/^example:$/d' "$scratch/help" >"$scratch/example"
    grep -q "^  vicinal $command " "$scratch/example" || [ $command = devices ]
    verdict $? "there is no example"
    while read -r line; do
        ran=$line
        sh -c "$line" >"$scratch/out" 2>"$scratch/err" </dev/null
        code=$?
        code_is 0
        [ -s "$scratch/out" ]
        verdict $? "the example printed nothing"
    done <"$scratch/example"
done
run help serach
code_is 2
err_is <<'END'
vicinal: unknown command 'serach'; did you mean 'search'?
see: vicinal --help
END

# what the first help says to begin with
"$vicinal" --help | sed '1,/To begin:$/d' >"$scratch/example"
ran="the first lines that help shows"
sh -e "$scratch/example" >"$scratch/out" 2>"$scratch/err"
code=$?
code_is 0
out_has '{"query":1,'
finish
