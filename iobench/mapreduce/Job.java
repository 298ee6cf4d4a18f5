import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.function.Consumer;

/**
 * A MapReduce job as both engines run it: what a map makes of its part of the input, which reducer gets a row, in which order,
 * and what the reducer makes of its rows. It knows no engine.
 *
 * <p>Command line: JOB SLOTS REDUCERS OUT, then for homology and homology-diamond WORD... -- READS... -- DATABASE..., for sort
 * FILE..., for dfsio-write and dfsio-read BYTES FILE... The words of a search are its program and what stands before its files.
 */
final class Job implements Serializable {
    private static final long serialVersionUID = 1;
    private static final int BEST = 10;

    final String name;
    final int slots;
    final int reducers;
    final String out;
    private final List<String> words;

    Job(String[] line) {
        if (line.length < 5) {
            throw new IllegalArgumentException("expected JOB SLOTS REDUCERS OUT INPUT...");
        }
        name = line[0];
        slots = Integer.parseInt(line[1]);
        reducers = Integer.parseInt(line[2]);
        out = line[3];
        words = new ArrayList<>(Arrays.asList(line).subList(4, line.length));
    }

    /** Whether the input is rows in text files, which the engine reads itself. */
    boolean readsText() {
        return name.equals("sort");
    }

    /** Whether rows are hits of reads, which a program finds. */
    boolean isSearch() {
        return name.startsWith("homology");
    }

    List<String> files() {
        return words;
    }

    /** One for each map: what it is to work on. */
    List<String> parts() {
        if (!isSearch()) {
            return words.subList(1, words.size());
        }
        int begin = words.indexOf("--"), end = words.lastIndexOf("--");
        List<String> pairs = new ArrayList<>();
        for (String reads : words.subList(begin + 1, end)) {
            for (String database : words.subList(end + 1, words.size())) {
                pairs.add(reads + "\t" + database);
            }
        }
        return pairs;
    }

    Iterator<String> map(String part) throws IOException {
        String[] files = part.split("\t");
        switch (name) {
            case "homology":
            case "homology-diamond":
                return hits(files[0], files[1]);
            case "dfsio-write":
                Contents.write(part, Long.parseLong(words.get(0)));
                return List.of(part + "\t" + words.get(0)).iterator();
            case "dfsio-read":
                Contents.read(part, Long.parseLong(words.get(0)));
                return List.of(part + "\t" + words.get(0)).iterator();
            default:
                throw new IllegalArgumentException("no job " + name);
        }
    }

    /** The rows of a program, one by one; it must end well. */
    private Iterator<String> hits(String reads, String database) throws IOException {
        List<String> command = new ArrayList<>(words.subList(0, words.indexOf("--")));
        command.addAll(List.of(reads, database, Integer.toString(reducers), "-"));
        ProcessBuilder builder = new ProcessBuilder(command);
        builder.environment().remove("IOBENCH_PHASES");
        Process process = builder.redirectError(ProcessBuilder.Redirect.INHERIT).start();
        BufferedReader lines =
                new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.US_ASCII), 1 << 16);
        return new Iterator<>() {
            private String next = read();

            private String read() {
                try {
                    String line = lines.readLine();
                    if (line == null && process.waitFor() != 0) {
                        throw new IOException(words.get(0) + " failed on " + reads + " and " + database);
                    }
                    return line;
                } catch (IOException e) {
                    throw new UncheckedIOException(e);
                } catch (InterruptedException e) {
                    throw new IllegalStateException(e);
                }
            }

            @Override
            public boolean hasNext() {
                return next != null;
            }

            @Override
            public String next() {
                if (next == null) {
                    throw new NoSuchElementException();
                }
                String line = next;
                next = read();
                return line;
            }
        };
    }

    /** What rows are ordered by, as text: of a hit its read, then the best score first, then the subject. */
    String key(String row) {
        if (!isSearch()) {
            return row;
        }
        String score = row.substring(row.lastIndexOf('\t') + 1);
        String worst =
                name.equals("homology")
                        ? String.format("%05d", 99999 - Integer.parseInt(score))
                        // The aligner tells tenths.
                        : String.format("%06d", 999999 - Math.round(Double.parseDouble(score) * 10));
        return row.substring(1, 10) + worst + row.substring(12, 21);
    }

    int reducer(String key) {
        switch (name) {
            case "homology":
            case "homology-diamond":
                return (int) (Long.parseLong(key.substring(0, 9)) % reducers);
            case "sort":
                long number = 0;
                for (int i = 0; i < 10; i++) {
                    number = number << 4 | (key.charAt(i) - 'A') & 15;
                }
                return (int) (number * reducers >>> 40);
            default:
                return 0;
        }
    }

    Reduction reduction() {
        return new Reduction();
    }

    /** The rows of one reducer, in order, and what it writes. */
    final class Reduction {
        private String group = "";
        private int rank;
        private long files;
        private long bytes;

        void take(String row, Consumer<String> write) {
            switch (name) {
                case "sort":
                    write.accept(row);
                    break;
                case "homology":
                case "homology-diamond":
                    rank = row.startsWith(group) && !group.isEmpty() ? rank + 1 : 0;
                    group = row.substring(0, 10);
                    if (rank < BEST) {
                        write.accept(row);
                    }
                    break;
                default:
                    files++;
                    bytes += Long.parseLong(row.substring(row.indexOf('\t') + 1));
            }
        }

        void end(Consumer<String> write) {
            if (name.startsWith("dfsio")) {
                write.accept(files + " files, " + bytes + " bytes");
            }
        }
    }
}
