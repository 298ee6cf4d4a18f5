process BCFTOOLS_CONCAT {
    tag "$patient"

    input:
    tuple val(patient), path(vcfs)

    output:
    path "${patient}.vcf", emit: vcf

    script:
    """
    bcftools concat -o ${patient}.vcf $vcfs
    """
}
