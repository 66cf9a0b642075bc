package groupd;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * One consumer in a process of its own, told what to do on standard input, telling what happens on standard output.
 *
 * <p>Arguments: TOPIC[,TOPIC...], pattern:RE2J or nothing (it subscribes when told to), then consumer settings as
 * name=value; "commit.each.poll=true" is ours (every poll that returned records is followed by a synchronous commit),
 * "tell.digests=true" (records are told with the SHA-256 of their values), and "members=N" (so many consumers in
 * this process, each in a thread; each gets every command, and its events say which "member" it is).
 * Commands, one a line: "commit" (commitSync of what was polled; refused if the member is out or a rebalance is under
 * way), "nap MS" (do not poll for so long, or until the next command, say "wake"), "subscribe TOPIC[,TOPIC...]",
 * "revoke MS" (giving up partitions takes so long from now on), "committed" (what the group has committed for each
 * partition of the topics), "close". Events are JSON, one a line, with "at" in ms of the wall clock: subscribing,
 * assigned, revoked, lost, records, committing, committed (acknowledged by the server), refused, napped, stored (read
 * back), failed, closing, closed. End of input closes the consumer, so that no process outlives whoever started it.
 */
public final class Member implements ConsumerRebalanceListener {
    private static final Duration POLL = Duration.ofMillis(50);

    private static final ThreadLocal<Integer> NUMBER = new ThreadLocal<>();

    private final KafkaConsumer<byte[], byte[]> consumer;
    private final Queue<String> commands = new ConcurrentLinkedQueue<>();
    private final String topics;
    private final boolean commitEachPoll;
    private final boolean tellDigests;
    private final String protocol;
    private final Map<TopicPartition, OffsetAndMetadata> polled = new HashMap<>();
    private boolean subscribed;
    private long revokeMs = 0;

    private Member(String topics, Properties settings) {
        this.topics = topics;
        this.commitEachPoll = Boolean.parseBoolean((String) settings.remove("commit.each.poll"));
        this.tellDigests = Boolean.parseBoolean((String) settings.remove("tell.digests"));
        this.protocol = settings.getProperty("group.protocol", "classic");
        this.consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    public static void main(String[] arguments) throws InterruptedException {
        Properties settings = new Properties();
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        for (int i = 1; i < arguments.length; i++) {
            String[] pair = arguments[i].split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        Object count = settings.remove("members");
        if (count == null) {
            Member member = new Member(arguments[0], settings);
            listen(List.of(member));
            System.exit(member.run());
        }
        System.exit(runAll(arguments[0], settings, Integer.parseInt((String) count)));
    }

    private static int runAll(String topics, Properties settings, int count) throws InterruptedException {
        List<Member> members = new ArrayList<>();
        List<Thread> threads = new ArrayList<>();
        AtomicInteger worst = new AtomicInteger();
        for (int i = 1; i <= count; i++) {
            int number = i;
            Member member = new Member(topics, (Properties) settings.clone());
            members.add(member);
            threads.add(new Thread(() -> {
                NUMBER.set(number);
                worst.accumulateAndGet(member.run(), Math::max);
            }, "member-" + i));
        }
        threads.forEach(Thread::start);
        listen(members);
        for (Thread thread : threads) {
            thread.join();
        }
        return worst.get();
    }

    private static void listen(List<Member> members) {
        Thread reader = new Thread(() -> readCommands(members), "commands");
        reader.setDaemon(true);
        reader.start();
    }

    private int run() {
        try (consumer) {
            if (!topics.isEmpty()) {
                subscribe();
            }
            while (step()) {
                if (subscribed) {
                    poll();
                } else {
                    LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(10));
                }
            }
            emit("closing", "");
        } catch (RuntimeException error) {
            emit("failed", "\"error\":" + quote(error.getClass().getSimpleName() + ": " + error.getMessage()));
            return 1;
        }
        emit("closed", "");
        return 0;
    }

    private void subscribe() {
        if (topics.startsWith("pattern:")) {
            String pattern = topics.substring("pattern:".length());
            if (protocol.equals("consumer")) {
                consumer.subscribe(new SubscriptionPattern(pattern), this);
            } else {
                consumer.subscribe(Pattern.compile(pattern), this);
            }
        } else {
            consumer.subscribe(Set.of(topics.split(",")), this);
        }
        subscribed = true;
    }

    /** Carries out the next command; false when it was to close. */
    private boolean step() {
        String command = commands.poll();
        if (command == null) {
            return true;
        }
        if (command.startsWith("nap ")) {
            nap(Long.parseLong(command.substring("nap ".length())));
            return true;
        }
        if (command.startsWith("revoke ")) {
            revokeMs = Long.parseLong(command.substring("revoke ".length()));
            return true;
        }
        if (command.startsWith("subscribe ")) {
            emit("subscribing", "");
            consumer.subscribe(Set.of(command.substring("subscribe ".length()).split(",")), this);
            subscribed = true;
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
            StringBuilder digests = new StringBuilder();
            for (ConsumerRecord<byte[], byte[]> record : records.records(partition)) {
                offsets.append(offsets.length() == 0 ? "" : ",").append(record.offset());
                if (tellDigests) {
                    digests.append(digests.length() == 0 ? "" : ",").append(quote(sha256(record.value())));
                }
                polled.put(partition, new OffsetAndMetadata(record.offset() + 1));
            }
            String told = tellDigests ? ",\"sha256\":[" + digests + "]" : "";
            emit("records", "\"partition\":" + quote(partition) + ",\"offsets\":[" + offsets + "]" + told);
        }
        if (commitEachPoll && !records.isEmpty()) {
            commit();
        }
    }

    private void commit() {
        Map<TopicPartition, OffsetAndMetadata> offsets = Map.copyOf(polled);
        emit("committing", "");
        try {
            consumer.commitSync(offsets);
        } catch (CommitFailedException | RetriableException error) {
            // The partitions are another's by now, or will be when poll has done its part of the rebalance.
            emit("refused", "\"error\":" + quote(error));
            return;
        }
        emit("committed", "\"offsets\":" + json(offsets));
    }

    private void nap(long ms) {
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(ms);
        while (commands.isEmpty() && System.nanoTime() < end) {
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(10));
        }
        if ("wake".equals(commands.peek())) {
            commands.remove();
        }
        emit("napped", "");
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
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(revokeMs);
        while (!partitions.isEmpty() && System.nanoTime() < end) {
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(10));
        }
        polled.keySet().removeAll(partitions);
        emit("revoked", "\"partitions\":" + json(partitions));
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        polled.keySet().removeAll(partitions);
        emit("lost", "\"partitions\":" + json(partitions));
    }

    private static void readCommands(List<Member> members) {
        try (BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                String command = line.strip();
                members.forEach(member -> member.commands.add(command));
            }
        } catch (IOException error) {
            emit("failed", "\"error\":" + quote(error));
        }
        members.forEach(member -> member.commands.add("close"));
    }

    private static String sha256(byte[] value) {
        try {
            return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(value));
        } catch (NoSuchAlgorithmException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    private static synchronized void emit(String event, String fields) {
        String at = ",\"at\":" + System.currentTimeMillis();
        if (NUMBER.get() != null) {
            at += ",\"member\":" + NUMBER.get();
        }
        System.out.println("{\"event\":\"" + event + "\"" + at + (fields.isEmpty() ? "" : "," + fields) + "}");
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
