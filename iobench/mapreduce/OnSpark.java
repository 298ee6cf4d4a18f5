import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Deque;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.Partitioner;
import org.apache.spark.SparkConf;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import scala.Tuple2;

/** A job on Apache Spark, started by spark-submit. A map or reduce is one of Spark's tasks, from its launch to its end. */
public final class OnSpark {
    private static final Map<Integer, Long> SORTED = new ConcurrentHashMap<>();

    private OnSpark() {}

    public static void main(String[] line) throws Exception {
        Job job = new Job(line);
        List<long[]> maps = Collections.synchronizedList(new ArrayList<>());
        List<long[]> reduces = Collections.synchronizedList(new ArrayList<>());
        long offset = System.nanoTime() - System.currentTimeMillis() * 1_000_000;
        try (JavaSparkContext spark = new JavaSparkContext(new SparkConf().setAppName(job.name))) {
            spark.sc().addSparkListener(new Listener(offset, maps, reduces));
            reduce(job, rows(job, spark)).saveAsTextFile(job.out);
        }
        for (long[] map : maps) {
            Marks.add("map", map[0], map[1], map[1], map[2]);
        }
        for (long[] one : reduces) {
            Marks.add("reduce", one[0], SORTED.getOrDefault((int) one[3], one[1]), one[1], 0);
        }
    }

    private static JavaRDD<String> rows(Job job, JavaSparkContext spark) {
        if (job.readsText()) {
            return spark.textFile(String.join(",", job.files()), job.files().size());
        }
        return spark.parallelize(job.parts(), job.parts().size()).flatMap(job::map);
    }

    private static JavaRDD<String> reduce(Job job, JavaRDD<String> rows) {
        boolean same = !job.isSearch();
        return rows.mapToPair(row -> new Tuple2<>(job.key(row), same ? "" : row))
                .repartitionAndSortWithinPartitions(new ByJob(job))
                .mapPartitions(
                        pairs -> {
                            SORTED.put(TaskContext.getPartitionId(), System.nanoTime());
                            return new Reduced(job, pairs);
                        });
    }

    private static final class ByJob extends Partitioner {
        private static final long serialVersionUID = 1;
        private final Job job;

        ByJob(Job job) {
            this.job = job;
        }

        @Override
        public int numPartitions() {
            return job.reducers;
        }

        @Override
        public int getPartition(Object key) {
            return job.reducer((String) key);
        }
    }

    private static final class Reduced implements Iterator<String> {
        private final Job.Reduction reduction;
        private final Iterator<Tuple2<String, String>> pairs;
        private final Deque<String> ready = new ArrayDeque<>();
        private boolean ended;

        Reduced(Job job, Iterator<Tuple2<String, String>> pairs) {
            this.reduction = job.reduction();
            this.pairs = pairs;
        }

        @Override
        public boolean hasNext() {
            while (ready.isEmpty() && !ended) {
                if (pairs.hasNext()) {
                    Tuple2<String, String> pair = pairs.next();
                    reduction.take(pair._2().isEmpty() ? pair._1() : pair._2(), ready::add);
                } else {
                    reduction.end(ready::add);
                    ended = true;
                }
            }
            return !ready.isEmpty();
        }

        @Override
        public String next() {
            hasNext();
            return ready.remove();
        }
    }

    private static final class Listener extends SparkListener {
        private final long offset;
        private final List<long[]> maps;
        private final List<long[]> reduces;

        Listener(long offset, List<long[]> maps, List<long[]> reduces) {
            this.offset = offset;
            this.maps = maps;
            this.reduces = reduces;
        }

        @Override
        public void onTaskEnd(SparkListenerTaskEnd end) {
            long[] times = {
                end.taskInfo().launchTime() * 1_000_000 + offset,
                end.taskInfo().finishTime() * 1_000_000 + offset,
                end.taskMetrics().shuffleWriteMetrics().bytesWritten(),
                end.taskInfo().partitionId()
            };
            (end.taskType().equals("ShuffleMapTask") ? maps : reduces).add(times);
        }
    }
}
