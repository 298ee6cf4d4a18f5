// The workflow of docs/guide/coming-from-nextflow.md, where its Rakefile is, too.

params.texts = "texts/*.txt"

process COUNT {
    cpus 2
    memory '100 MB'
    input:  path text
    output: path "${text.baseName}.tsv"
    script: "tr -s ' ' '\\n' < $text | sort | uniq -c | sort -rn > ${text.baseName}.tsv"
}

process MERGE {
    input:  path counts
    output: path "merged.tsv"
    script: "cat $counts > merged.tsv"
}

process SUMMARY {
    publishDir "results"
    input:  path merged
    output: path "summary.txt"
    script: "wc -l < $merged > summary.txt"
}

workflow {
    Channel.fromPath(params.texts) | COUNT | collect | MERGE | SUMMARY
}
