import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.sun.management.OperatingSystemMXBean;
import java.io.File;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.metadata.placement.UsableBroker;
import org.apache.kafka.tools.reassign.ReassignPartitionsCommand;

/**
 * What `kafka-reassign-partitions.sh --generate` makes of the brokers and partitions in a file, without a cluster: args are
 * that file, the one to write, and the number of replicas. It gives each topic as many replicas as its first partition
 * has, so every partition is shown to it with as many as are wanted; which ones it had, it does not ask.
 */
public class KafkaGenerate {
    public static void main(String[] args) throws Exception {
        ObjectMapper json = new ObjectMapper();
        JsonNode asked = json.readTree(new File(args[0]));
        List<UsableBroker> brokers = new ArrayList<>();
        for (JsonNode row : asked.get("brokers")) {
            brokers.add(new UsableBroker(row.get("id").asInt(), Optional.of(row.get("rack").asText()), false));
        }
        List<Integer> wanted = Collections.nCopies(Integer.parseInt(args[2]), brokers.get(0).id());
        Map<TopicPartition, List<Integer>> held = new HashMap<>();
        for (JsonNode row : asked.get("partitions")) {
            held.put(new TopicPartition(row.get("topic").asText(), row.get("partition").asInt()), wanted);
        }
        var generate = ReassignPartitionsCommand.class.getDeclaredMethod("calculateAssignment", Map.class, List.class);
        generate.setAccessible(true);
        var system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        long began = system.getProcessCpuTime();
        var made = (Map<?, ?>) generate.invoke(null, held, brokers);
        double seconds = (system.getProcessCpuTime() - began) / 1e9;
        List<Object> rows = new ArrayList<>();
        for (Map.Entry<?, ?> entry : made.entrySet()) {
            TopicPartition partition = (TopicPartition) entry.getKey();
            rows.add(List.of(partition.topic(), partition.partition(), entry.getValue()));
        }
        json.writeValue(new File(args[1]), Map.of("seconds", seconds, "replicas", rows));
    }
}
