process BWA_MEM {
    tag "${meta.id}_${meta.lane}"

    input:
    tuple val(meta), path(fastq_1), path(fastq_2)
    path fasta
    path index

    output:
    tuple val(meta), path("*.bam"), emit: bam

    script:
    def name = "${meta.id}_${meta.lane}"
    """
    bwa mem -t ${task.cpus} -R '@RG\\tID:${name}\\tSM:${meta.id}' $fasta $fastq_1 $fastq_2 |
        samtools fixmate -m - - | samtools sort -o ${name}.bam -
    """
}
