import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.Stores;

/** Loads a compacted topic into a GlobalKTable: GlobalProducts BROKERS TOPIC COUNT memory|rocksdb. Prints JSON. */
public final class GlobalProducts {
    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        long count = Long.parseLong(arguments[2]);
        Path state = Files.createTempDirectory("global-products");
        long began = System.nanoTime();
        long cpu = cpuNanos();
        Properties settings = new Properties();
        settings.put("application.id", "global-" + ProcessHandle.current().pid());
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("state.dir", state.toString());
        settings.put("consumer.isolation.level", "read_committed");
        StreamsBuilder builder = new StreamsBuilder();
        var supplier = arguments[3].equals("memory")
                ? Stores.inMemoryKeyValueStore("products")
                : Stores.persistentKeyValueStore("products");
        builder.globalTable(topic, Materialized.<Bytes, byte[]>as(supplier)
                .withKeySerde(Serdes.Bytes()).withValueSerde(Serdes.ByteArray()));
        try (KafkaStreams streams = new KafkaStreams(builder.build(), settings)) {
            streams.start(); // returns when the table is as long as the topic was
            var store = streams.store(StoreQueryParameters.fromNameAndType(
                    "products", QueryableStoreTypes.<Bytes, byte[]>keyValueStore()));
            byte[] last = String.format("%08d", count - 1).getBytes(StandardCharsets.UTF_8);
            if (store.get(Bytes.wrap(last)) == null) {
                throw new IllegalStateException("not all is there");
            }
            double seconds = (System.nanoTime() - began) / 1e9;
            double cpuSeconds = (cpuNanos() - cpu) / 1e9;
            long peakKb = Files.readAllLines(Path.of("/proc/self/status")).stream()
                    .filter(line -> line.startsWith("VmHWM")).mapToLong(line -> Long.parseLong(line.split("\\s+")[1]))
                    .findFirst().orElseThrow();
            System.out.printf("{\"seconds\": %.3f, \"cpu_s\": %.3f, \"peak_mb\": %.1f}%n", seconds, cpuSeconds, peakKb / 1024.0);
        }
    }

    private static long cpuNanos() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }
}
