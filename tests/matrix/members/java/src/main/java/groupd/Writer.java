package groupd;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** A writer of the Java client, compiled once and run with old versions of it too: see tests/matrix/writers. */
public final class Writer {
    private static final int REQUEST_BYTES_MAX = 8 * 1024 * 1024;

    private final Map<String, KafkaProducer<byte[], byte[]>> producers = new HashMap<>();
    private final String topic;
    private final Properties settings = new Properties();

    private Writer(String topic) {
        this.topic = topic;
        settings.put("max.request.size", REQUEST_BYTES_MAX);
        settings.put("enable.idempotence", true);
    }

    public static void main(String[] arguments) throws IOException, GeneralSecurityException, InterruptedException {
        Writer writer = new Writer(arguments[0]);
        for (int i = 1; i < arguments.length; i++) {
            String[] pair = arguments[i].split("=", 2);
            writer.settings.put(pair[0], pair[1]);
        }
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String line = input.readLine();
        while (line != null && !line.strip().equals("close")) {
            String[] words = line.strip().split(" ");
            writer.write(words[1], Integer.parseInt(words[2]), Integer.parseInt(words[3]));
            line = input.readLine();
        }
        emit("closed", "");
        System.exit(0);
    }

    private void write(String codec, int size, int partition) throws GeneralSecurityException, InterruptedException {
        String text = size + " bytes that " + codec + " compresses. ";
        byte[] value = text.repeat(size / text.length() + 1).substring(0, size).getBytes(StandardCharsets.UTF_8);
        KafkaProducer<byte[], byte[]> producer = producers.computeIfAbsent(codec, this::producer);
        try {
            long offset = producer.send(new ProducerRecord<>(topic, partition, null, value)).get().offset();
            String digest = HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(value));
            String where = "\"partition\":\"" + topic + "-" + partition + "\",\"offset\":" + offset;
            emit("written", "," + where + ",\"sha256\":\"" + digest + "\"");
        } catch (ExecutionException error) {
            int code = Errors.forException(error.getCause()).code();
            emit("refused", ",\"code\":" + code + ",\"error\":" + Member.quote(error.getCause()));
        }
    }

    private KafkaProducer<byte[], byte[]> producer(String codec) {
        Properties compressing = new Properties();
        compressing.putAll(settings);
        compressing.put("compression.type", codec);
        return new KafkaProducer<>(compressing, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private static void emit(String event, String fields) {
        System.out.println("{\"event\":\"" + event + "\",\"at\":" + System.currentTimeMillis() + fields + "}");
        System.out.flush();
    }
}
