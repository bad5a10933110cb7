#!/bin/sh
# Command lines that are wrong: what was wrong is named, with what would have been right; exit code 2, nothing is touched.
. test/cli/checks

# each line: arguments | the sentence
wrong() {
    # shellcheck disable=SC2086
    run $1
    code_is 2
    out_is </dev/null
    command=${1%% *}
    printf 'vicinal %s: %s\nsee: vicinal %s --help\n' "$command" "$2" "$command" >"$scratch/sentence"
    err_is <"$scratch/sentence"
}

run buld
code_is 2
err_is <<'END'
vicinal: unknown command 'buld'; did you mean 'build'?
see: vicinal --help
END
run frobnicate
err_is <<'END'
vicinal: unknown command 'frobnicate'
see: vicinal --help
END

wrong 'build' '--output INDEX is needed: the index file to write'
wrong 'build -o x.vic' 'expected ROWS, found only 0 of 1'
wrong 'build a b -o x.vic' 'expected ROWS alone, found also b'
wrong 'search x.vic' 'expected INDEX QUERIES, found only 1 of 2'
wrong 'devices all' 'expected options alone, found also all'
wrong 'build a -o x --metrics l2' 'unknown option --metrics; did you mean --metric?'
wrong 'build a -o x --mteric=l2' 'unknown option --mteric; did you mean --metric?'
wrong 'build a -o x --frobnicate' 'unknown option --frobnicate'
wrong 'build a -o x -z' 'unknown option -z'
wrong 'build a -o' 'option --output needs a value: INDEX'
wrong 'build a -o x --metric' 'option --metric needs a value: dot|cosine|l2'
wrong 'search a b --texts=yes' 'option --texts takes no value'
wrong 'build a -o x --metric euclidaen' \
    '--metric: expected a metric (dot, cosine, l2), found "euclidaen"; did you mean euclidean?'
wrong 'build a -o x --type f31' '--type: expected a type (f32, f16, bf16, i8, u8), found "f31"; did you mean f32?'
wrong 'build a -o x --threads 1025' '--threads 1025: expected a whole number from 0 to 1024'
wrong 'build a -o x --threads -1' '--threads -1: expected a whole number from 0 to 1024'
wrong 'build a -o x --budget lots' '--budget lots: expected bytes, as 500000000, 512M or 8G'
wrong 'build a -o x --budget -1' '--budget -1: expected bytes, as 500000000, 512M or 8G'
wrong 'build a -o x --budget 0' '--budget 0: expected bytes, as 500000000, 512M or 8G'
wrong 'build a -o x --budget 20000000T' '--budget 20000000T: expected bytes, as 500000000, 512M or 8G'
wrong 'search a b -k 0' '--k 0: expected a whole number of at least 1'
wrong 'search a b -k -1' '--k -1: expected a whole number of at least 1'
wrong 'search a b -k ten' '--k ten: expected a whole number of at least 1'
wrong 'search a b -k 10x' '--k 10x: expected a whole number of at least 1'
wrong 'search a b -k 9223372036854775808' '--k 9223372036854775808: expected a whole number of at least 1'
wrong 'search a b --path best' '--path best: expected one of auto|scan|select|certified|graph'
wrong 'search a b --path sca' '--path sca: expected one of auto|scan|select|certified|graph'
wrong 'search a b --color blue' '--color blue: expected one of auto|always|never'
wrong 'search a b --within near' '--within near: expected a number'
wrong 'search a b --within nan' '--within nan: expected a number'
graph_wrong() { # what is given, the part that is wrong
    wrong "build a -o x --graph $1" \
        "--graph: expected degree=N, beam=N, alpha=X, pq=N or force=1 with commas between, found \"$2\""
}
graph_wrong width=3 width=3
graph_wrong degree degree
graph_wrong Degree=8 Degree=8
graph_wrong degree=8,,beam=9 ''
graph_wrong degree=8, ''
graph_wrong ,degree=8 ''
graph_wrong degree=8,9 9
for value in 0 513 -1 +8 x 1.5 8x 1e9 '' nan 99999999999999999999; do
    wrong "build a -o x --graph beam=9,degree=$value" "--graph degree=$value: expected a whole number from 1 to 512"
done
for value in 0 1025 -1; do
    wrong "build a -o x --graph beam=$value" "--graph beam=$value: expected a whole number from 1 to 1024"
done
for value in 0 0.99 2.01 -1 nan inf; do
    wrong "build a -o x --graph alpha=$value,degree=8" "--graph alpha=$value: expected a number from 1 to 2"
done
wrong 'build a -o x --graph force=2' '--graph force=2: expected a whole number from 0 to 1'
wrong 'build a -o x --graph degree=8,beam=9,degree=8' '--graph: degree is there twice'
wrong 'build a -o x --graph' 'option --graph needs a value: NAME=N,...'
wrong 'search a b --beam -1' '--beam -1: expected a whole number from 0 to 2147483647'
wrong 'search a b --beam 2147483648' '--beam 2147483648: expected a whole number from 0 to 2147483647'
wrong 'search a b --beam wide' '--beam wide: expected a whole number from 0 to 2147483647'
wrong 'search a b --parents 9' '--parents 9: expected a whole number from 0 to 8'
wrong 'search a b --parents -1' '--parents -1: expected a whole number from 0 to 8'
wrong 'search a b -o hits.txt' '-o hits.txt: expected a name that ends in .bin, .ivecs, .npy, .json or .jsonl'
wrong 'search a b --filter-ids x --exclude-ids y' '--filter-ids and --exclude-ids exclude each other'
wrong 'gen gauss x.fbin --n 3' '--dim N is needed: how many dimensions'
wrong 'gen gauss x.fbin --n 3 --dim 65537' '--dim 65537: expected a whole number from 1 to 65536'
wrong 'gen gauss x.fbin --n 4294967295 --dim 1' '--n 4294967295: expected a whole number from 0 to 4294967294'
wrong 'truth a b -o t.bin --part 0' '--part 0: expected a whole number from 1 to 4294967294'

for rows in 0 4; do
    wrong "gen gaus x.fbin --n $rows --dim 4" 'expected a kind that is gauss, clusters, manifold or duplicates, found "gaus"'
done
wrong 'gen duplicates x.fbin --n 4 --dim 4 --share 2' 'expected duplicate_share from 0 to 1, found 2'
wrong 'truth a b -o t.fvecs' '-o t.fvecs: expected a name that ends in .bin, .ivecs or .npy'

# options may stand anywhere, be shortened, and take their value after '='
prepare gen --n=4 gauss --dim 3 rows.fbin --se 5
folder_is rows.fbin

# what is read is not what is written over it, under whatever name
ln -s rows.fbin other.fbin
cp rows.fbin rows.bin
prepare build rows.fbin -o rows.vic
seq 4 >ids.txt
cp rows.fbin before
kept() { # FILE ARGUMENT ...
    file=$1
    cp "$file" before
    shift
    run "$@"
    code_is 2
    err_has "$file is to be read: what is written needs another name"
    same_files before "$file"
}
kept rows.fbin build rows.fbin -o rows.fbin
kept rows.fbin build rows.fbin -o ./other.fbin
kept other.fbin build other.fbin -o rows.fbin
kept ids.txt build rows.fbin -o ids.txt --ids ids.txt
kept rows.bin truth rows.bin rows.fbin -o rows.bin --metric l2 --read-type f32
kept rows.bin truth rows.fbin rows.bin -o rows.bin --metric l2 --read-type f32
kept rows.bin search rows.vic rows.bin -o rows.bin --read-type f32
kept rows.fbin convert rows.fbin rows.fbin --type f16
rm before
folder_is ids.txt other.fbin rows.bin rows.fbin rows.vic
finish
