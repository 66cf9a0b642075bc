package groupd;

import java.io.IOException;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.Utils;
import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.core.config.Configurator;

/**
 * Copies records from one topic to another in transactions that commit the group's offsets, too. Arguments come in
 * pairs: --bootstrap-server, --command-config (client properties), --from, --to, --group (which is the
 * transactional id as well), --count. Standard error says which requests were sent.
 */
public final class Copier {
    private static final Duration POLL = Duration.ofMillis(200);

    private Copier() {}

    public static void main(String[] arguments) throws IOException {
        Map<String, String> given = new HashMap<>();
        for (int i = 0; i < arguments.length; i += 2) {
            given.put(arguments[i].substring(2), arguments[i + 1]);
        }
        Properties settings = Utils.loadProps(given.get("command-config"));
        settings.put("bootstrap.servers", given.get("bootstrap-server"));
        settings.put("group.id", given.get("group"));
        settings.put("transactional.id", given.get("group"));
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        Configurator.setLevel("org.apache.kafka.clients.NetworkClient", Level.DEBUG);
        try (KafkaProducer<byte[], byte[]> producer =
                        new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
                KafkaConsumer<byte[], byte[]> consumer =
                        new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            producer.initTransactions();
            consumer.subscribe(List.of(given.get("from")));
            int left = Integer.parseInt(given.get("count"));
            while (left > 0) {
                left -= copied(consumer.poll(POLL), given.get("to"), producer, consumer);
            }
        } finally {
            Configurator.setLevel("org.apache.kafka.clients.NetworkClient", Level.WARN);
        }
    }

    private static int copied(
            ConsumerRecords<byte[], byte[]> records,
            String topic,
            KafkaProducer<byte[], byte[]> producer,
            KafkaConsumer<byte[], byte[]> consumer) {
        if (records.isEmpty()) {
            return 0;
        }
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        producer.beginTransaction();
        for (ConsumerRecord<byte[], byte[]> record : records) {
            producer.send(new ProducerRecord<>(topic, record.key(), record.value()));
            TopicPartition partition = new TopicPartition(record.topic(), record.partition());
            offsets.put(partition, new OffsetAndMetadata(record.offset() + 1));
        }
        producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
        producer.commitTransaction();
        return records.count();
    }
}
