import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/** The files of dfsio, through Hadoop's file system as TestDFSIO's; byte by byte those of mapreduce-task. */
final class Contents {
    private static final int BLOCK = 1 << 20;

    private Contents() {}

    private static long mix(long x) {
        x = (x ^ (x >>> 30)) * 0xbf58476d1ce4e5b9L;
        x = (x ^ (x >>> 27)) * 0x94d049bb133111ebL;
        return x ^ (x >>> 31);
    }

    /** content_key(6, the number at the end of the name, 0, 0) of src/content.h. */
    private static long key(String file) {
        long number = Long.parseLong(file.replaceAll(".*?(\\d+)$", "$1"));
        long key = mix(6 + 0x9e3779b97f4a7c15L);
        key = mix(key ^ mix(number + 0xd1b54a32d192ed03L));
        key = mix(key ^ mix(0x8cb92ba72f3d8dd7L));
        return mix(key ^ mix(0xaef17502108ef2d9L));
    }

    private static byte[] block(long key, long offset) {
        ByteBuffer out = ByteBuffer.allocate(BLOCK).order(ByteOrder.LITTLE_ENDIAN);
        for (long cell = offset / 8; out.hasRemaining(); cell++) {
            out.putLong(mix(key + cell * 0x9e3779b97f4a7c15L));
        }
        return out.array();
    }

    private static Path path(String file) {
        return new Path("file://" + java.nio.file.Path.of(file).toAbsolutePath());
    }

    static void write(String file, long bytes) throws IOException {
        Path path = path(file);
        long key = key(file);
        try (FSDataOutputStream out = FileSystem.get(path.toUri(), new Configuration()).create(path, true)) {
            for (long at = 0; at < bytes; at += BLOCK) {
                out.write(block(key, at), 0, (int) Math.min(BLOCK, bytes - at));
            }
        }
    }

    static void read(String file, long bytes) throws IOException {
        Path path = path(file);
        long key = key(file), at = 0;
        byte[] got = new byte[BLOCK];
        try (FSDataInputStream in = FileSystem.get(path.toUri(), new Configuration()).open(path)) {
            for (int part; (part = in.readNBytes(got, 0, BLOCK)) > 0; at += part) {
                if (!Arrays.equals(got, 0, part, block(key, at), 0, part)) {
                    throw new IOException(file + ": a byte between " + at + " and " + (at + part) + " is wrong");
                }
            }
        }
        if (at != bytes) {
            throw new IOException(file + " has " + at + " bytes: expected " + bytes);
        }
    }
}
