process SEQTK_TRIM {
    tag "$meta.id"

    input:
    tuple val(meta), path(reads)

    output:
    tuple val(meta), path("*.trimmed.fastq.gz"), emit: reads
    path "versions.yml"                        , emit: versions

    script:
    def args = task.ext.args ?: ''
    """
    gzip -dc $reads | seqtk trimfq $args - | gzip -n > ${meta.id}.trimmed.fastq.gz

    cat <<-END_VERSIONS > versions.yml
    "${task.process}":
        seqtk: \$(seqtk 2>&1 | sed -n 's/^Version: //p')
    END_VERSIONS
    """
}
