package groupd;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Properties;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * One consumer in a process of its own, told what to do on standard input, telling what happens on standard output.
 *
 * <p>Arguments: TOPIC[,TOPIC...] or pattern:RE2J, then consumer settings as name=value; "commit.each.poll=true" is ours:
 * every poll that returned records is followed by a synchronous commit. Commands, one a line: "commit" (commitSync of
 * what was polled), "committed" (what the group has committed for each partition of the topics), "close". Events are
 * JSON, one a line: assigned, revoked, lost, records, committed (acknowledged by the server), stored (read back),
 * failed, closed. End of input closes the consumer, so that no process outlives the test that started it.
 */
public final class Member implements ConsumerRebalanceListener {
    private static final Duration POLL = Duration.ofMillis(50);

    private final KafkaConsumer<byte[], byte[]> consumer;
    private final Queue<String> commands = new ConcurrentLinkedQueue<>();
    private final String topics;
    private final boolean commitEachPoll;
    private final Map<TopicPartition, OffsetAndMetadata> polled = new HashMap<>();

    private Member(String topics, Properties settings) {
        this.topics = topics;
        this.commitEachPoll = Boolean.parseBoolean((String) settings.remove("commit.each.poll"));
        this.consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    public static void main(String[] arguments) {
        Properties settings = new Properties();
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        for (int i = 1; i < arguments.length; i++) {
            String[] pair = arguments[i].split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        Member member = new Member(arguments[0], settings);
        Thread reader = new Thread(member::readCommands, "commands");
        reader.setDaemon(true);
        reader.start();
        System.exit(member.run());
    }

    private int run() {
        try (consumer) {
            subscribe();
            while (step()) {
                poll();
            }
        } catch (RuntimeException error) {
            emit("failed", "\"error\":" + quote(error.getClass().getSimpleName() + ": " + error.getMessage()));
            return 1;
        }
        emit("closed", "");
        return 0;
    }

    private void subscribe() {
        if (topics.startsWith("pattern:")) {
            consumer.subscribe(new SubscriptionPattern(topics.substring("pattern:".length())), this);
        } else {
            consumer.subscribe(Set.of(topics.split(",")), this);
        }
    }

    /** Carries out the next command; false when it was to close. */
    private boolean step() {
        String command = commands.poll();
        if (command == null) {
            return true;
        }
        switch (command) {
            case "commit" -> commit();
            case "committed" -> readBack();
            case "close" -> {
                return false;
            }
            default -> throw new IllegalArgumentException("unknown command " + command);
        }
        return true;
    }

    private void poll() {
        ConsumerRecords<byte[], byte[]> records = consumer.poll(POLL);
        for (TopicPartition partition : records.partitions()) {
            StringBuilder offsets = new StringBuilder();
            for (ConsumerRecord<byte[], byte[]> record : records.records(partition)) {
                offsets.append(offsets.length() == 0 ? "" : ",").append(record.offset());
                polled.put(partition, new OffsetAndMetadata(record.offset() + 1));
            }
            emit("records", "\"partition\":" + quote(partition) + ",\"offsets\":[" + offsets + "]");
        }
        if (commitEachPoll && !records.isEmpty()) {
            commit();
        }
    }

    private void commit() {
        Map<TopicPartition, OffsetAndMetadata> offsets = Map.copyOf(polled);
        consumer.commitSync(offsets);
        emit("committed", "\"offsets\":" + json(offsets));
    }

    private void readBack() {
        Set<TopicPartition> partitions = new HashSet<>();
        for (String topic : consumer.subscription()) {
            for (PartitionInfo info : consumer.partitionsFor(topic)) {
                partitions.add(new TopicPartition(topic, info.partition()));
            }
        }
        emit("stored", "\"offsets\":" + json(consumer.committed(partitions)));
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        emit("assigned", "\"partitions\":" + json(partitions));
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        polled.keySet().removeAll(partitions);
        emit("revoked", "\"partitions\":" + json(partitions));
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        polled.keySet().removeAll(partitions);
        emit("lost", "\"partitions\":" + json(partitions));
    }

    private void readCommands() {
        try (BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                commands.add(line.strip());
            }
        } catch (IOException error) {
            emit("failed", "\"error\":" + quote(error));
        }
        commands.add("close");
    }

    private static synchronized void emit(String event, String fields) {
        System.out.println("{\"event\":\"" + event + "\"" + (fields.isEmpty() ? "" : "," + fields) + "}");
        System.out.flush();
    }

    private static String json(Collection<TopicPartition> partitions) {
        StringBuilder text = new StringBuilder("[");
        for (TopicPartition partition : partitions) {
            text.append(text.length() == 1 ? "" : ",").append(quote(partition));
        }
        return text.append("]").toString();
    }

    private static String json(Map<TopicPartition, OffsetAndMetadata> offsets) {
        StringBuilder text = new StringBuilder("{");
        for (Map.Entry<TopicPartition, OffsetAndMetadata> entry : offsets.entrySet()) {
            if (entry.getValue() != null) {
                text.append(text.length() == 1 ? "" : ",").append(quote(entry.getKey())).append(":");
                text.append(entry.getValue().offset());
            }
        }
        return text.append("}").toString();
    }

    static String quote(Object value) {
        StringBuilder text = new StringBuilder("\"");
        for (char c : String.valueOf(value).toCharArray()) {
            if (c == '"' || c == '\\') {
                text.append('\\').append(c);
            } else if (c < ' ') {
                text.append(String.format("\\u%04x", (int) c));
            } else {
                text.append(c);
            }
        }
        return text.append("\"").toString();
    }
}
