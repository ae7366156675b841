import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;

/**
 * Kafka's own Java client in a group: reads, commits twice a second, and dies of the first commit that fails, as stream
 * applications do. Arguments: bootstrap servers, group, topic, default.api.timeout.ms.
 */
public class CommittingConsumer {
    public static void main(String[] given) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", given[0]);
        settings.put("group.id", given[1]);
        settings.put("default.api.timeout.ms", given[3]);
        settings.put("max.poll.interval.ms", "1800000");
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        String bytes = "org.apache.kafka.common.serialization.ByteArrayDeserializer";
        settings.put("key.deserializer", bytes);
        settings.put("value.deserializer", bytes);
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings);
        consumer.subscribe(List.of(given[2]));
        while (true) {
            consumer.poll(Duration.ofMillis(500));
            if (consumer.assignment().isEmpty()) {
                continue;
            }
            long began = System.nanoTime();
            try {
                consumer.commitSync();
            } catch (RuntimeException problem) {
                System.out.println("failed after " + millis(began) + " ms: " + problem);
                System.exit(1);
            }
            System.out.println("committed after " + millis(began) + " ms");
        }
    }

    private static long millis(long began) {
        return (System.nanoTime() - began) / 1_000_000;
    }
}
