#!/bin/sh
# The demonstration: 60 questions in plain words, answered from 10,000 word senses of WordNet.
# usage: demo.sh BIN_DIR, where BIN_DIR holds the program vicinal
set -eu

vicinal=${1:?usage: demo.sh BIN_DIR}/vicinal
here=$(dirname "$0")
folder=$(mktemp -d "${TMPDIR:-/tmp}/vicinal-demo.XXXXXX")
index=$folder/senses.vic
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' INT TERM HUP

cat <<'END'
A sentence encoder has turned 10,000 dictionary entries and 60 questions into vectors of 384 numbers; vectors of
similar meaning are close to each other. vicinal keeps the entries in one index file and finds, for each question,
the closest ones: exactly, the same as if it had compared all of them. The two commands, in examples/senses:

    vicinal build senses_f16.npy -o senses.vic --texts senses.txt --metric dot
    vicinal search senses.vic questions_f32.npy -k 10 --show 3 --texts --query-texts questions.txt --answers answers.txt --stats

Below: for each question the score, id and text of the three closest entries; a larger score is closer.

END
"$vicinal" build "$here/senses_f16.npy" -o "$index" --texts "$here/senses.txt" --metric dot >&2
"$vicinal" search "$index" "$here/questions_f32.npy" -k 10 --show 3 --texts --query-texts "$here/questions.txt" \
    --answers "$here/answers.txt" --stats --format table
