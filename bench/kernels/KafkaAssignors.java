// Kafka's server-side assignors on the groups that `bench.kernels.shapes` describes, one command a line:
//   shape ASSIGNOR MEMBERS TOPICS TOPIC_PARTITIONS HETEROGENEOUS INCREMENTAL RACKS   -> ready PARTITIONS
//   run SECONDS                              -> sample CPU_NS WALL_NS ASSIGNMENTS (averages of one assignment)
// Needs the jars of kafka-group-coordinator and of what it depends on.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

public final class KafkaAssignors {
    private static final int BUCKETS = 5;
    private static final int RACKS = 3;
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
    /** What the last assignment gave: read, so that no compiler may leave it out. */
    private static volatile GroupAssignment last;

    private ConsumerGroupPartitionAssignor assignor;
    private int members;
    private int topics;
    private int topicPartitions;
    private boolean heterogeneous;
    private boolean incremental;
    private boolean racks;
    private final List<Uuid> topicIds = new ArrayList<>();
    private final Map<Integer, Set<Uuid>> subscriptions = new HashMap<>();
    private final Map<String, MemberSubscriptionAndAssignmentImpl> specs = new HashMap<>();
    private GroupSpec spec;

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        KafkaAssignors group = null;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            if (words[0].equals("shape")) {
                group = new KafkaAssignors(words);
                System.out.println("ready " + group.count());
            } else {
                System.out.println(group.run(Double.parseDouble(words[1])));
            }
        }
    }

    private KafkaAssignors(String[] words) {
        assignor = words[1].equals("range") ? new RangeAssignor() : new UniformAssignor();
        members = Integer.parseInt(words[2]);
        topics = Integer.parseInt(words[3]);
        topicPartitions = Integer.parseInt(words[4]);
        heterogeneous = words[5].equals("1");
        incremental = words[6].equals("1");
        racks = words[7].equals("1");
        for (int topic = 0; topic < topics; topic++) {
            topicIds.add(new Uuid(0, topic + 1));
        }
        int old = incremental ? members - 1 : members;
        for (int member = 0; member < old; member++) {
            put("member" + member, member, old, Assignment.EMPTY);
        }
        spec = spec(Map.of());
        if (incremental) {
            joinOne(old);
        }
    }

    private void put(String memberId, int number, int old, Assignment assignment) {
        int bucket = heterogeneous ? Math.min(number, old - 1) / ceil(old) : 0;
        Set<Uuid> subscribed = subscriptions.computeIfAbsent(bucket, this::topicsOf);
        Optional<String> rack = racks ? Optional.of("rack" + number % RACKS) : Optional.empty();
        specs.put(memberId, new MemberSubscriptionAndAssignmentImpl(rack, Optional.empty(), subscribed, assignment));
    }

    private Set<Uuid> topicsOf(int bucket) {
        if (!heterogeneous) {
            return new HashSet<>(topicIds);
        }
        int size = ceil(topics);
        return new HashSet<>(topicIds.subList(bucket * size, Math.min((bucket + 1) * size, topics)));
    }

    private void joinOne(int old) {
        GroupAssignment first = assign();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        first.members().forEach((memberId, assignment) -> {
            MemberSubscriptionAndAssignmentImpl before = specs.get(memberId);
            assignment.partitions().forEach((topicId, partitions) -> partitions.forEach(partition ->
                owners.computeIfAbsent(topicId, each -> new HashMap<>()).put(partition, memberId)));
            specs.put(memberId, new MemberSubscriptionAndAssignmentImpl(before.rackId(), before.instanceId(),
                before.subscribedTopicIds(), new Assignment(assignment.partitions())));
        });
        put("newMember", old, old, Assignment.EMPTY);
        spec = spec(owners);
    }

    private GroupSpec spec(Map<Uuid, Map<Integer, String>> owners) {
        SubscriptionType type = heterogeneous ? SubscriptionType.HETEROGENEOUS : SubscriptionType.HOMOGENEOUS;
        return new GroupSpecImpl(specs, type, owners);
    }

    private GroupAssignment assign() {
        return assignor.assign(spec, new SubscribedTopicDescriber() {
            @Override
            public int numPartitions(Uuid topicId) {
                return topicPartitions;
            }

            @Override
            public Set<String> racksForPartition(Uuid topicId, int partition) {
                return racks ? Set.of("rack" + partition % RACKS) : Set.of();
            }
        });
    }

    private int count() {
        return assign().members().values().stream()
            .mapToInt(member -> member.partitions().values().stream().mapToInt(Set::size).sum()).sum();
    }

    private String run(double seconds) {
        int assignments = 0;
        long cpu = THREADS.getCurrentThreadCpuTime();
        long began = System.nanoTime();
        while (assignments == 0 || System.nanoTime() - began < seconds * 1e9) {
            last = assign();
            assignments++;
        }
        long cpuNs = (THREADS.getCurrentThreadCpuTime() - cpu) / assignments;
        return "sample " + cpuNs + " " + (System.nanoTime() - began) / assignments + " " + assignments;
    }

    private static int ceil(int number) {
        return (number + BUCKETS - 1) / BUCKETS;
    }
}
