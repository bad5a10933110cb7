#!/bin/sh
# Searching as a user does: ids, filters, texts, tables, colours, question files, and forms of output that agree.
. test/cli/checks

# six rows on a line; the queries stand at 0 and at 10
u8bin rows.u8bin 2 1 0 2 0 4 0 7 0 11 0 16 0
u8bin queries.u8bin 2 0 0 10 0
printf '30\n10\n20\n60\n50\n40\n' >ids.txt
printf 'one: first\ntwo: second\nfour: third\nseven: fourth\neleven: fifth\nsixteen: sixth\n' >texts.txt
printf 'from nothing\nfrom ten\n' >questions.txt
printf 'two, zwei\ntwelve\n' >answers.txt

run build rows.u8bin -o rows.vic --metric l2 --ids ids.txt --texts texts.txt --metadata '{"made by": "a test"}'
out_is <<'END'
rows.vic: 6 rows x 2, u8, l2, ids, texts; 4.5 KiB, TIME
END
run check rows.vic
out_is <<'END'
rows.vic: whole; 6 rows x 2, u8, l2, checked in TIME
END
run search rows.vic queries.u8bin -k 2
out_is <<'END'
{"query":0,"metric":"l2","better":"smaller","hits":[{"id":30,"score":1.0},{"id":10,"score":4.0}]}
{"query":1,"metric":"l2","better":"smaller","hits":[{"id":50,"score":1.0},{"id":60,"score":9.0}]}
END
cp "$scratch/out" lines
for path in auto scan select; do
    for threads in 1 2 5; do
        run search rows.vic queries.u8bin -k 2 --path $path --threads $threads --device cpu
        out_is <lines
    done
done
prepare convert queries.u8bin queries.npy --type f32
run search rows.vic queries.npy -k 2
out_is <lines
# an index may be given wherever vectors are read
run search rows.vic rows.vic -k 1
code_is 0
out_has '{"query":2,"metric":"l2","better":"smaller","hits":[{"id":30,"score":0.0}]}'

# codes beside the rows change time and memory, never an answer
senses=$tree/examples/senses
for planes in none 8 4 both auto; do
    prepare build "$senses/senses_f16.npy" -o senses.vic --metric dot --planes $planes
    [ $planes = none ] && {
        prepare search senses.vic "$senses/questions_f32.npy" -o wanted.jsonl
        grep -q '"id":1130,"score":0.644841731' wanted.jsonl
        verdict $? "the thermometer is not what measures temperature"
    }
    for path in auto scan select certified; do
        prepare search senses.vic "$senses/questions_f32.npy" --path $path -o found.jsonl
        same_files wanted.jsonl found.jsonl
    done
done
prepare build "$senses/senses_f16.npy" -o senses.vic --metric dot --planes none
prepare search senses.vic "$senses/questions_f32.npy" --planes 8 --path certified -o found.jsonl
same_files wanted.jsonl found.jsonl
run search senses.vic "$senses/questions_f32.npy" --planes 8 --path certified --stats
out_has '"path":"certified"'
out_lacks '"rows_coded_8":0,'
run search senses.vic "$senses/questions_f32.npy" --path scan --stats
out_has '"path":"scan","threads":'
out_has '"rows_scored":600000,"rows_rescored":0,'
out_has '"fallbacks":0,"fallback":"none"'

# filters, by a list and by what is not in it; ids that are not there are no error
printf '10\n40\n999\n10\n' >some.txt
run search rows.vic queries.u8bin -k 6 --filter-ids some.txt
out_is <<'END'
{"query":0,"metric":"l2","better":"smaller","hits":[{"id":10,"score":4.0},{"id":40,"score":256.0}]}
{"query":1,"metric":"l2","better":"smaller","hits":[{"id":40,"score":36.0},{"id":10,"score":64.0}]}
END
run search rows.vic queries.u8bin -k 2 --exclude-ids some.txt
out_is <<'END'
{"query":0,"metric":"l2","better":"smaller","hits":[{"id":30,"score":1.0},{"id":20,"score":16.0}]}
{"query":1,"metric":"l2","better":"smaller","hits":[{"id":50,"score":1.0},{"id":60,"score":9.0}]}
END

# a table with questions, texts and expected words
run search rows.vic queries.u8bin -k 6 --show 2 --texts --query-texts questions.txt --answers answers.txt --format table
code_is 0
out_is <<'END'
scores: squared l2 distance, smaller is better

from nothing
  expected: two, zwei (found at place 2)
     1.00000  #30      one: first
     4.00000  #10      two: second

from ten
  expected: twelve (not among the first ten)
     1.00000  #50      eleven: fifth
     9.00000  #60      seven: fourth

6 rows x 2 u8; 1 of 2 questions have an expected word among the first 10 hits
END
run search rows.vic queries.u8bin -k 2 --query-texts questions.txt --answers answers.txt
out_is <<'END'
{"query":0,"question":"from nothing","expected_at":2,"metric":"l2","better":"smaller","hits":[{"id":30,"score":1.0},{"id":10,"score":4.0}]}
{"query":1,"question":"from ten","expected_at":0,"metric":"l2","better":"smaller","hits":[{"id":50,"score":1.0},{"id":60,"score":9.0}]}
{"summary":{"rows":6,"dim":2,"type":"u8","asked":2,"answered":1}}
END
run search rows.vic queries.u8bin -k 2 --stats
out_has '"queries":2,"rows_scored":12,"rows_rescored":0,"bytes_read":24,'

# colour when it is asked for, none in a pipe, none by wish
escape=$(printf '\033')
for color in auto never; do
    run search rows.vic queries.u8bin --format table --texts --color $color
    out_lacks "$escape"
done
run search rows.vic queries.u8bin --format table --texts --color always
out_has "${escape}[1mone${escape}[0m: first"

# a text cannot drive the terminal; what is not UTF-8 is shown as such, and JSON stays valid
printf 'bell \a and \033[2J\nr\303\251sum\303\251\nbad \377 byte\n4\n5\n6\n' >wild.txt
prepare build rows.u8bin -o wild.vic --metric l2 --texts wild.txt
run search wild.vic queries.u8bin -k 3 --show 3 --format table --texts
out_lacks "$escape"
out_has 'bell ? and ?[2J'
out_has 'résumé'
out_has 'bad ? byte'
run search wild.vic queries.u8bin -k 3 --texts
out_has '"text":"bell \u0007 and \u001B[2J"'
out_has '"text":"résumé"'
out_has '"text":"bad � byte"'

# cut to the width, by characters
printf 'ééééééééééééééééééééééééééééééééééééééééééé\nb\nc\nd\ne\nf\n' >long.txt
prepare build rows.u8bin -o long.vic --metric l2 --texts long.txt
COLUMNS=40
export COLUMNS
run search long.vic queries.u8bin -k 1 --format table --texts
out_has '     1.00000  #0       éééééééééééééééé…'
unset COLUMNS

# files of hits: the same answers in every form
prepare search rows.vic queries.u8bin -k 2 -o hits.jsonl
same_files hits.jsonl lines
prepare search rows.vic queries.u8bin -k 2 -o hits.json
{
    printf '['
    sed -n 1p lines
    printf ','
    sed -n 2p lines
    printf ']\n'
} >wanted.json
same_files hits.json wanted.json
for form in bin ivecs npy; do
    run search rows.vic queries.u8bin -k 2 -o hits.$form
    out_is <<END
hits.$form: 2 queries, 6 rows
END
done
for form in bin npy; do
    prepare convert hits.$form from-$form.ivecs
    same_files from-$form.ivecs hits.ivecs
done
run eval hits.npy hits.bin -k 2
out_is <<'END'
recall@2 over 2 queries: 1
END

# nothing to search, nothing to ask
u8bin none.u8bin 2
u8bin one.u8bin 2 1 0
prepare build one.u8bin -o one.vic
run search one.vic none.u8bin
code_is 0
out_is </dev/null
prepare gen gauss none.fbin --n 0 --dim 2
prepare build none.fbin -o none.vic
run search none.vic one.u8bin -k 5
out_is <<'END'
{"query":0,"metric":"cosine","better":"larger","hits":[]}
END
run search none.vic one.u8bin -k 5 --format table
out_has 'no hits'
# a vector of zeros has no direction: its score is no number that JSON has
u8bin zero.u8bin 2 0 0
run search one.vic zero.u8bin
out_has '{"id":0,"score":null}'

# no line ends in blanks, whatever it has no text for
for line in 'search rows.vic queries.u8bin -k 2 --format table' devices; do
    # shellcheck disable=SC2086
    run $line
    code_is 0
    ! grep -n ' $' "$scratch/out" >"$scratch/blanks"
    verdict $? "a line ends in a blank: $(head -n 1 "$scratch/blanks")"
done
finish
