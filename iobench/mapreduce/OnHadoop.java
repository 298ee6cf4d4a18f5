import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Iterator;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.io.LongWritable;
import org.apache.hadoop.io.NullWritable;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.mapreduce.Mapper;
import org.apache.hadoop.mapreduce.OutputCommitter;
import org.apache.hadoop.mapreduce.Partitioner;
import org.apache.hadoop.mapreduce.Reducer;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.hadoop.mapreduce.TaskCounter;
import org.apache.hadoop.mapreduce.TaskID;
import org.apache.hadoop.mapreduce.TaskType;
import org.apache.hadoop.mapreduce.lib.input.FileInputFormat;
import org.apache.hadoop.mapreduce.lib.input.NLineInputFormat;
import org.apache.hadoop.mapreduce.lib.input.TextInputFormat;
import org.apache.hadoop.mapreduce.lib.output.FileOutputCommitter;
import org.apache.hadoop.mapreduce.lib.output.FileOutputFormat;
import org.apache.hadoop.mapreduce.lib.output.TextOutputFormat;

/**
 * A job on Hadoop MapReduce with its local runner: one JVM, maps and then reduces in threads, rows spilled to disk and merged. A
 * map or reduce goes from the set-up of its task to when its output is complete.
 */
public final class OnHadoop {
    private static final String WORDS = "iobench.job";
    private static final AtomicReference<Job> JOB = new AtomicReference<>();
    private static final Map<TaskID, Long> BEGUN = new ConcurrentHashMap<>();
    private static final Map<TaskID, Long> SORTED = new ConcurrentHashMap<>();

    private OnHadoop() {}

    public static void main(String[] line) throws Exception {
        Job job = new Job(line);
        JOB.set(job);
        Configuration settings = new Configuration();
        settings.set("fs.defaultFS", "file:///");
        settings.set("mapreduce.framework.name", "local");
        settings.set("hadoop.tmp.dir", Path.of("hadoop").toAbsolutePath().toString());
        settings.setInt("mapreduce.local.map.tasks.maximum", job.slots);
        settings.setInt("mapreduce.local.reduce.tasks.maximum", job.slots);
        settings.setStrings(WORDS, line);
        org.apache.hadoop.mapreduce.Job run = org.apache.hadoop.mapreduce.Job.getInstance(settings, job.name);
        run.setJarByClass(OnHadoop.class);
        run.setMapperClass(OfRows.class);
        run.setPartitionerClass(ByJob.class);
        run.setReducerClass(Reduced.class);
        run.setMapOutputKeyClass(Text.class);
        run.setMapOutputValueClass(Text.class);
        run.setOutputKeyClass(Text.class);
        run.setOutputValueClass(NullWritable.class);
        run.setNumReduceTasks(job.reducers);
        run.setOutputFormatClass(Noted.class);
        input(job, run);
        FileOutputFormat.setOutputPath(run, path(job.out));
        boolean well = run.waitForCompletion(false);
        Marks.add("shuffled", 0, 0, 0, run.getCounters().findCounter(TaskCounter.MAP_OUTPUT_MATERIALIZED_BYTES).getValue());
        System.exit(well ? 0 : 1);
    }

    private static org.apache.hadoop.fs.Path path(String file) {
        return new org.apache.hadoop.fs.Path("file://" + Path.of(file).toAbsolutePath());
    }

    /** One map for each line of a list, or for each file of rows. */
    private static void input(Job job, org.apache.hadoop.mapreduce.Job run) throws IOException {
        if (job.readsText()) {
            run.setInputFormatClass(TextInputFormat.class);
            for (String file : job.files()) {
                FileInputFormat.addInputPath(run, path(file));
            }
            return;
        }
        Path list = Path.of("parts.txt");
        Files.write(list, job.parts(), StandardCharsets.US_ASCII);
        run.setInputFormatClass(NLineInputFormat.class);
        NLineInputFormat.setNumLinesPerSplit(run, 1);
        FileInputFormat.addInputPath(run, path(list.toString()));
    }

    /** Rows of the part that a line names, or the line itself. */
    public static final class OfRows extends Mapper<LongWritable, Text, Text, Text> {
        private static final Text NOTHING = new Text();
        private final Text key = new Text();
        private final Text value = new Text();

        @Override
        protected void map(LongWritable at, Text line, Context context) throws IOException, InterruptedException {
            Job job = JOB.get();
            if (job.readsText()) {
                context.write(line, NOTHING);
                return;
            }
            for (Iterator<String> rows = job.map(line.toString()); rows.hasNext(); ) {
                String row = rows.next();
                key.set(job.key(row));
                value.set(job.isSearch() ? row : "");
                context.write(key, value);
            }
        }
    }

    /** Which reducer gets a row. */
    public static final class ByJob extends Partitioner<Text, Text> {
        @Override
        public int getPartition(Text key, Text value, int reducers) {
            return JOB.get().reducer(key.toString());
        }
    }

    /** It is set up when its rows are there in order. */
    public static final class Reduced extends Reducer<Text, Text, Text, NullWritable> {
        private final Text out = new Text();
        private Job.Reduction reduction;

        @Override
        protected void setup(Context context) {
            SORTED.put(context.getTaskAttemptID().getTaskID(), System.nanoTime());
            reduction = JOB.get().reduction();
        }

        @Override
        protected void reduce(Text key, Iterable<Text> values, Context context) throws IOException, InterruptedException {
            for (Text value : values) {
                reduction.take(value.getLength() == 0 ? key.toString() : value.toString(), row -> write(context, row));
            }
        }

        @Override
        protected void cleanup(Context context) throws IOException, InterruptedException {
            reduction.end(row -> write(context, row));
        }

        private void write(Context context, String row) {
            try {
                out.set(row);
                context.write(out, NullWritable.get());
            } catch (IOException | InterruptedException e) {
                throw new IllegalStateException(e);
            }
        }
    }

    /** Text whose committer notes when tasks begin and end: it is asked by maps, too, when their spills are merged. */
    public static final class Noted extends TextOutputFormat<Text, NullWritable> {
        private OutputCommitter committer;

        @Override
        public synchronized OutputCommitter getOutputCommitter(TaskAttemptContext context) throws IOException {
            if (committer == null) {
                committer = new NotedCommitter(getOutputPath(context), context);
            }
            return committer;
        }
    }

    private static final class NotedCommitter extends FileOutputCommitter {
        NotedCommitter(org.apache.hadoop.fs.Path out, TaskAttemptContext context) throws IOException {
            super(out, context);
        }

        @Override
        public void setupTask(TaskAttemptContext context) throws IOException {
            BEGUN.put(context.getTaskAttemptID().getTaskID(), System.nanoTime());
            super.setupTask(context);
        }

        @Override
        public boolean needsTaskCommit(TaskAttemptContext context) throws IOException {
            TaskID task = context.getTaskAttemptID().getTaskID();
            long now = System.nanoTime();
            Long begun = BEGUN.remove(task);
            if (begun != null && (task.getTaskType() == TaskType.MAP || task.getTaskType() == TaskType.REDUCE)) {
                boolean map = task.getTaskType() == TaskType.MAP;
                Marks.add(map ? "map" : "reduce", begun, map ? now : SORTED.get(task), now, 0);
            }
            return super.needsTaskCommit(context);
        }
    }
}
