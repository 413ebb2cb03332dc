import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.Utils;

/**
 * Where Kafka's own producer puts keys: it writes them to a broker, and prints what the broker says.
 *
 * java -cp 'LIBS/*' tests/golden/KafkaPartitions.java HOST:PORT > tests/golden/kafka-partitions.json
 */
public class KafkaPartitions {
    static final int[] COUNTS = {1, 3, 8, 64, 97};

    public static void main(String[] arguments) throws Exception {
        Map<String, Object> place = Map.of("bootstrap.servers", arguments[0]);
        String run = "partitions-" + System.nanoTime() + "-";
        try (Admin admin = Admin.create(place)) {
            List<NewTopic> topics = new ArrayList<>();
            for (int count : COUNTS) {
                topics.add(new NewTopic(run + count, Optional.of(count), Optional.empty()));
            }
            admin.createTopics(topics).all().get();
            try (var producer = new KafkaProducer<>(place, new ByteArraySerializer(), new ByteArraySerializer())) {
                List<String> lines = new ArrayList<>();
                for (byte[] key : keys()) {
                    lines.add(line(producer, run, key));
                }
                System.out.println("[\n" + String.join(",\n", lines) + "\n]");
            }
            admin.deleteTopics(topics.stream().map(NewTopic::name).toList()).all().get();
        }
    }

    static String line(KafkaProducer<byte[], byte[]> producer, String run, byte[] key) throws Exception {
        List<String> partitions = new ArrayList<>();
        for (int count : COUNTS) {
            var written = producer.send(new ProducerRecord<>(run + count, key, new byte[0])).get();
            partitions.add("\"" + count + "\": " + written.partition());
        }
        long hash = Utils.murmur2(key) & 0xffffffffL;
        return "  {\"key\": \"" + HexFormat.of().formatHex(key) + "\", \"murmur2\": " + hash
            + ", \"partitions\": {" + String.join(", ", partitions) + "}}";
    }

    static List<byte[]> keys() {
        List<byte[]> found = new ArrayList<>();
        for (String text : new String[] {"", "a", "ab", "abc", "abcd", "order-1", "D1-000085", "größe-☃", "20020"}) {
            found.add(text.getBytes(StandardCharsets.UTF_8));
        }
        Random random = new Random(20261121);
        for (int length = 1; length <= 40; length++) {
            byte[] key = new byte[length];
            random.nextBytes(key);
            found.add(key);
        }
        return found;
    }
}
