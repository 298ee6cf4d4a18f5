process SEQTK_FQCHK {
    tag "$meta.id"

    input:
    tuple val(meta), path(reads)

    output:
    tuple val(meta), path("*.txt"), emit: check
    path "versions.yml"           , emit: versions

    script:
    def name = reads.name - '.fastq.gz'
    """
    gzip -dc $reads | seqtk fqchk -q 0 - > ${name}.txt

    cat <<-END_VERSIONS > versions.yml
    "${task.process}":
        seqtk: \$(seqtk 2>&1 | sed -n 's/^Version: //p')
    END_VERSIONS
    """
}
