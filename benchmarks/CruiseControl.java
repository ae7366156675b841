import com.codahale.metrics.MetricRegistry;
import com.linkedin.cruisecontrol.monitor.sampling.aggregator.AggregatedMetricValues;
import com.linkedin.cruisecontrol.monitor.sampling.aggregator.MetricValues;
import com.linkedin.kafka.cruisecontrol.analyzer.AnalyzerUtils;
import com.linkedin.kafka.cruisecontrol.analyzer.GoalOptimizer;
import com.linkedin.kafka.cruisecontrol.analyzer.OptimizationOptions;
import com.linkedin.kafka.cruisecontrol.analyzer.OptimizerResult;
import com.linkedin.kafka.cruisecontrol.analyzer.goals.Goal;
import com.linkedin.kafka.cruisecontrol.async.progress.OperationProgress;
import com.linkedin.kafka.cruisecontrol.common.Resource;
import com.linkedin.kafka.cruisecontrol.config.BrokerCapacityInfo;
import com.linkedin.kafka.cruisecontrol.config.KafkaCruiseControlConfig;
import com.linkedin.kafka.cruisecontrol.executor.ExecutionProposal;
import com.linkedin.kafka.cruisecontrol.executor.Executor;
import com.linkedin.kafka.cruisecontrol.model.Broker;
import com.linkedin.kafka.cruisecontrol.model.ClusterModel;
import com.linkedin.kafka.cruisecontrol.model.ReplicaPlacementInfo;
import com.linkedin.kafka.cruisecontrol.monitor.ModelGeneration;
import com.linkedin.kafka.cruisecontrol.monitor.metricdefinition.KafkaMetricDef;
import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.PrintWriter;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Properties;
import java.util.Set;
import java.util.StringJoiner;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Time;
import org.easymock.EasyMock;

/**
 * What Cruise Control's own analyzer proposes for a cluster: args are a file with a broker a line (id, rack, whether it is
 * dead), one with a partition a line (topic, number, leader, brokers with ; between), the file to write, the replicas that
 * each partition is to have (0: as many as it has), and goals. Every replica has the same load and each broker far more
 * capacity than it needs, so that only the goals on racks and counts decide.
 */
public class CruiseControl {
    private static final List<Long> WINDOWS = List.of(1L);

    public static void main(String[] args) throws Exception {
        Path brokers = Path.of(args[0]), partitions = Path.of(args[1]), out = Path.of(args[2]);
        short factor = Short.parseShort(args[3]);
        Properties settings = new Properties();
        settings.setProperty("bootstrap.servers", "localhost:1");
        KafkaCruiseControlConfig config = new KafkaCruiseControlConfig(settings);
        GoalOptimizer optimizer = new GoalOptimizer(config, null, Time.SYSTEM, new MetricRegistry(),
            EasyMock.mock(Executor.class), EasyMock.mock(AdminClient.class));
        Map<String, Goal> known = AnalyzerUtils.getCaseInsensitiveGoalsByName(config);
        List<Goal> goals = new ArrayList<>();
        for (String name : args[4].split(",")) {
            goals.add(Objects.requireNonNull(known.get(name.toLowerCase()), name));
        }

        ClusterModel model = new ClusterModel(new ModelGeneration(0, 0L), 1.0);
        Map<Integer, Node> nodes = new LinkedHashMap<>();
        Set<Integer> dead = new HashSet<>();
        Map<Resource, Double> capacity = new HashMap<>();
        for (Resource resource : List.of(Resource.NW_IN, Resource.NW_OUT, Resource.DISK)) {
            capacity.put(resource, 1e12);
        }
        capacity.put(Resource.CPU, 100.0);
        Set<String> racks = new HashSet<>();
        for (String line : Files.readAllLines(brokers)) {
            String[] cells = line.split(",");
            int id = Integer.parseInt(cells[0]);
            if (racks.add(cells[1])) {
                model.createRack(cells[1]);
            }
            model.createBroker(cells[1], "host-" + id, id, new BrokerCapacityInfo(capacity), false);
            nodes.put(id, new Node(id, "host-" + id, 9092, cells[1]));
            if (Boolean.parseBoolean(cells[2])) {
                dead.add(id);
            }
        }
        Map<TopicPartition, int[]> held = new LinkedHashMap<>();
        List<PartitionInfo> listed = new ArrayList<>();
        Set<String> topics = new HashSet<>();
        try (BufferedReader reader = Files.newBufferedReader(partitions)) {
            for (String line; (line = reader.readLine()) != null; ) {
                String[] cells = line.split(",");
                TopicPartition partition = new TopicPartition(cells[0].intern(), Integer.parseInt(cells[1]));
                int leader = Integer.parseInt(cells[2]);
                int[] replicas = Arrays.stream(cells[3].split(";")).mapToInt(Integer::parseInt).toArray();
                held.put(partition, replicas);
                for (int at = 0; at < replicas.length; at++) {
                    boolean leads = replicas[at] == leader;
                    String rack = nodes.get(replicas[at]).rack();
                    model.createReplica(rack, replicas[at], partition, at, leads, dead.contains(replicas[at]), null, false);
                    model.setReplicaLoad(rack, replicas[at], partition, load(leads), WINDOWS);
                }
                if (factor > 0) {
                    Node[] on = Arrays.stream(replicas).mapToObj(nodes::get).toArray(Node[]::new);
                    listed.add(new PartitionInfo(partition.topic(), partition.partition(), nodes.get(leader), on, on));
                    topics.add(partition.topic());
                }
            }
        }
        dead.forEach(id -> model.setBrokerState(id, Broker.State.DEAD));

        var system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        long began = System.nanoTime(), used = system.getProcessCpuTime();
        Map<TopicPartition, List<ReplicaPlacementInfo>> before = null;
        if (factor > 0) {
            before = model.getReplicaDistribution();
            Map<String, List<Integer>> inRack = new HashMap<>();
            Map<Integer, String> rackOf = new HashMap<>();
            List<Node> live = nodes.values().stream().filter(node -> !dead.contains(node.id())).toList();
            live.forEach(node -> inRack.computeIfAbsent(node.rack(), rack -> new ArrayList<>()).add(node.id()));
            live.forEach(node -> rackOf.put(node.id(), node.rack()));
            Cluster cluster = new Cluster("cluster", live, listed, Set.of(), Set.of());
            model.createOrDeleteReplicas(Map.of(factor, topics), inRack, rackOf, cluster);
        }
        OptimizationOptions options =
            new OptimizationOptions(Set.of(), Set.of(), Set.of(), false, Set.of(), factor > 0, true);
        OptimizerResult found = optimizer.optimizations(model, goals, new OperationProgress(), before, options);
        double wall = (System.nanoTime() - began) / 1e9, busy = (system.getProcessCpuTime() - used) / 1e9;

        Map<TopicPartition, ExecutionProposal> changed = new HashMap<>();
        found.goalProposals().forEach(proposal -> changed.put(proposal.topicPartition(), proposal));
        try (PrintWriter writer = new PrintWriter(Files.newBufferedWriter(out))) {
            held.forEach((partition, replicas) -> {
                ExecutionProposal proposal = changed.get(partition);
                int[] after = proposal == null ? replicas
                    : proposal.newReplicas().stream().mapToInt(ReplicaPlacementInfo::brokerId).toArray();
                StringJoiner line = new StringJoiner(";");
                Arrays.stream(after).forEach(id -> line.add(Integer.toString(id)));
                writer.println(partition.topic() + "," + partition.partition() + "," + line);
            });
        }
        System.out.printf("%.3f %.3f %s%n", wall, busy, found.violatedGoalsAfterOptimization());
        Runtime.getRuntime().halt(0);
    }

    private static AggregatedMetricValues load(boolean leads) {
        AggregatedMetricValues load = new AggregatedMetricValues();
        set(load, Resource.CPU, 0.0001);
        set(load, Resource.NW_IN, 1);
        set(load, Resource.NW_OUT, leads ? 1 : 0);
        set(load, Resource.DISK, 1);
        return load;
    }

    private static void set(AggregatedMetricValues load, Resource resource, double value) {
        boolean first = true;
        for (short metric : KafkaMetricDef.resourceToMetricIds(resource)) {
            MetricValues values = new MetricValues(1);
            if (first) {
                values.set(0, value);
            }
            first = false;
            load.add(metric, values);
        }
    }
}
