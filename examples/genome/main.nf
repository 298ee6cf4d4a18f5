process BWA_MEM {
    cpus 2
    input:  path fastq
            path genome
    output: tuple val(fastq.baseName), path("${fastq.baseName}.bam")
    script:
    """
    bwa mem -R '@RG\\tID:${fastq.baseName}\\tSM:${fastq.baseName}' -t ${task.cpus} genome.fa $fastq |
        samtools view -b - > ${fastq.baseName}.bam
    """
}

process SAMTOOLS_SORT {
    input:  tuple val(sample), path(bam, stageAs: "in/*")
    output: tuple val(sample), path("${sample}.bam")
    script: "samtools sort -T $sample -O bam -o ${sample}.bam $bam"
}

process SAMTOOLS_INDEX {
    input:  tuple val(sample), path(bam)
    output: path "${bam}.bai"
    script: "samtools index $bam"
}

process SAMTOOLS_FLAGSTAT {
    input:  tuple val(sample), path(bam)
    output: path "stats/${sample}.txt"
    script: "mkdir stats; samtools flagstat $bam > stats/${sample}.txt"
}

process BCFTOOLS_CALL {
    input:  path bams
            path bais
            path genome
    output: path "all.vcf"
    script: "bcftools mpileup -f genome.fa $bams | bcftools call -mv - > all.vcf"
}

process REPORT {
    publishDir ".", mode: "copy"
    input:  path stats, stageAs: "stats/*"
            path vcf
    output: path "report.txt"
    script:
    """
    { grep -H 'mapped (' stats/*; echo variants; bcftools query -f '%POS %REF %ALT\\n' $vcf; } > report.txt
    """
}

workflow {
    genome = Channel.fromPath("data/genome.fa*").collect()
    sorted = BWA_MEM(Channel.fromPath("data/samples/*.fastq"), genome) | SAMTOOLS_SORT
    bams = sorted.map { it[1] }.toSortedList { a, b -> a.name <=> b.name }
    vcf = BCFTOOLS_CALL(bams, SAMTOOLS_INDEX(sorted).collect(), genome)
    REPORT(SAMTOOLS_FLAGSTAT(sorted).toSortedList { a, b -> a.name <=> b.name }, vcf)
}
