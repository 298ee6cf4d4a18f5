process CAT_FASTQ {
    tag "$meta.id"

    input:
    tuple val(meta), path(lanes, stageAs: "input*/*")

    output:
    tuple val(meta), path("*.fastq.gz"), emit: reads

    script:
    """
    cat $lanes > ${meta.id}.fastq.gz
    """
}
