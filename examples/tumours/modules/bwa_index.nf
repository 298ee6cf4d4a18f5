process BWA_INDEX {
    input:
    path fasta

    output:
    path "${fasta}.{amb,ann,bwt,pac,sa}", emit: index

    script:
    """
    bwa index $fasta
    """
}
