process SUMMARISE {
    input:
    path checks

    output:
    path "summary.tsv"

    script:
    """
    summarise $checks > summary.tsv
    """
}
