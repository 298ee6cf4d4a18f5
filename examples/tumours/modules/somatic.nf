process SOMATIC {
    input:
    path vcfs

    output:
    path "somatic.tsv"

    script:
    """
    for vcf in $vcfs; do somatic \$vcf; done > somatic.tsv
    """
}
