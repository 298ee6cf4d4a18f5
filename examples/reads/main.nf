include { CAT_FASTQ   } from './modules/cat_fastq'
include { SEQTK_TRIM  } from './modules/seqtk_trim'
include { SEQTK_FQCHK } from './modules/seqtk_fqchk'
include { SUMMARISE   } from './modules/summarise'

// A sample may have been read in several lanes, and from one end or both.
workflow {
    lanes = Channel.fromPath(params.input, checkIfExists: true)
        .splitCsv(header: true)
        .flatMap { row ->
            ['1', '2'].findAll { side -> row["fastq_$side"] }.collect { side ->
                [[id: "${row.sample}_$side"], file(row["fastq_$side"], checkIfExists: true)]
            }
        }
        .groupTuple()

    CAT_FASTQ(lanes)
    reads = CAT_FASTQ.out.reads
    versions = Channel.empty()

    if (!params.skip_trim) {
        SEQTK_TRIM(CAT_FASTQ.out.reads)
        reads = reads.mix(SEQTK_TRIM.out.reads)
        versions = versions.mix(SEQTK_TRIM.out.versions.first())
    }

    SEQTK_FQCHK(reads)
    versions = versions.mix(SEQTK_FQCHK.out.versions.first())

    SUMMARISE(SEQTK_FQCHK.out.check.map { meta, check -> check }.toSortedList { a, b -> a.name <=> b.name })

    versions.map { it.text.readLines().last().trim() }
        .unique()
        .collectFile(name: 'versions.yml', storeDir: "${params.outdir}/pipeline_info", newLine: true)
}
