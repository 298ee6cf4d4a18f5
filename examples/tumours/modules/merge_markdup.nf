process MERGE_MARKDUP {
    tag "${meta.id}"

    input:
    tuple val(meta), path(bams, stageAs: "in/*")

    output:
    tuple val(meta), path("*.bam"), path("*.bai"), emit: bam
    path "*.dup"                                 , emit: duplicates

    script:
    """
    samtools merge -u - $bams | samtools markdup -f ${meta.id}.dup - ${meta.id}.bam
    samtools index ${meta.id}.bam
    """
}
