process BCFTOOLS_CALL {
    tag "$patient $part"

    input:
    tuple val(patient), path(bams), path(bais), val(number), val(part), val(count)
    path fasta
    path fai

    output:
    tuple val(patient), val(number), val(count), path("*.vcf"), emit: vcf

    script:
    """
    bcftools mpileup -r $part -f $fasta $bams | bcftools call -mv -o ${part}.vcf -
    """
}
