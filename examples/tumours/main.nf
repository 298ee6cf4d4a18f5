include { BWA_INDEX      } from './modules/bwa_index'
include { SAMTOOLS_FAIDX } from './modules/samtools_faidx'
include { BWA_MEM        } from './modules/bwa_mem'
include { MERGE_MARKDUP  } from './modules/merge_markdup'
include { BCFTOOLS_CALL  } from './modules/bcftools_call'
include { BCFTOOLS_CONCAT } from './modules/bcftools_concat'
include { SOMATIC        } from './modules/somatic'

// Variants of tumours that the same patients' normal samples do not have.
workflow {
    fasta = Channel.fromPath(params.fasta, checkIfExists: true).first()
    BWA_INDEX(fasta)
    SAMTOOLS_FAIDX(fasta)

    lanes = Channel.fromPath(params.input, checkIfExists: true)
        .splitCsv(header: true)
        .map { row ->
            def meta = [patient: row.patient, status: row.status, id: "${row.patient}_${row.status}", lane: row.lane]
            [meta, file(row.fastq_1, checkIfExists: true), file(row.fastq_2, checkIfExists: true)]
        }
    BWA_MEM(lanes, fasta, BWA_INDEX.out.index.collect())

    bams = BWA_MEM.out.bam
        .map { meta, bam -> [meta.subMap('patient', 'status', 'id'), bam] }
        .groupTuple()
    MERGE_MARKDUP(bams)

    // The normal sample first, as the genotypes of a call stand in the order of their files.
    pairs = MERGE_MARKDUP.out.bam
        .map { meta, bam, bai -> [meta.patient, [meta.status, bam, bai]] }
        .groupTuple(size: 2)
        .map { patient, samples ->
            def ordered = samples.sort { it[0] }
            [patient, ordered.collect { it[1] }, ordered.collect { it[2] }]
        }

    parts = SAMTOOLS_FAIDX.out.fai
        .splitCsv(sep: '\t')
        .flatMap { row ->
            def length = row[1] as int
            (1..length).step(params.part).collect { from -> "${row[0]}:$from-${Math.min(from + params.part - 1, length)}" }
        }
        .toList()
        .flatMap { all -> all.withIndex().collect { part, number -> [number, part, all.size()] } }
    BCFTOOLS_CALL(pairs.combine(parts), fasta, SAMTOOLS_FAIDX.out.fai.first())

    calls = BCFTOOLS_CALL.out.vcf
        .map { patient, number, count, vcf -> [groupKey(patient, count), [number, vcf]] }
        .groupTuple()
        .map { patient, vcfs -> [patient.toString(), vcfs.sort { it[0] }.collect { it[1] }] }
    BCFTOOLS_CONCAT(calls)

    SOMATIC(BCFTOOLS_CONCAT.out.vcf.toSortedList { a, b -> a.name <=> b.name })
}
