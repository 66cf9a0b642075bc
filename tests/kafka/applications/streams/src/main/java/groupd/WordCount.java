package groupd;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/**
 * One instance of a Kafka Streams application that counts words, in a process of its own.
 *
 * <p>Arguments: the topic with lines, the topic for counts, then settings of Kafka Streams as name=value. Words are
 * grouped by themselves, so Streams makes a topic for repartitioning them, and a changelog for the store of counts.
 * Events are JSON, one a line, with "at" in ms of the wall clock: state ("to"), died (a stream thread ended with
 * "error" and is replaced), closed. A line "close" or the end of input closes the application, so that no process
 * outlives whoever started it.
 */
public final class WordCount {
    private static final Duration CLOSING = Duration.ofSeconds(60);

    private WordCount() {}

    public static void main(String[] arguments) throws InterruptedException {
        Properties settings = new Properties();
        for (int i = 2; i < arguments.length; i++) {
            String[] pair = arguments[i].split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        CountDownLatch over = new CountDownLatch(1);
        KafkaStreams streams = new KafkaStreams(topology(arguments[0], arguments[1]), settings);
        streams.setStateListener((to, from) -> {
            emit("state", "\"to\":" + quote(to));
            if (to == KafkaStreams.State.ERROR) {
                over.countDown();
            }
        });
        streams.setUncaughtExceptionHandler(error -> {
            emit("died", "\"error\":" + quote(error + " caused by " + error.getCause()));
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.start();
        Thread reader = new Thread(() -> {
            awaitClose();
            over.countDown();
        }, "input");
        reader.setDaemon(true);
        reader.start();
        over.await();
        boolean erred = streams.state() == KafkaStreams.State.ERROR;
        boolean closed = streams.close(CLOSING);
        emit("closed", "\"well\":" + (closed && !erred));
        System.exit(closed && !erred ? 0 : 1);
    }

    private static Topology topology(String lines, String counts) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(lines, Consumed.with(Serdes.String(), Serdes.String()))
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.with("words", Serdes.String(), Serdes.String()))
            .count(Materialized.as("counts"))
            .toStream()
            .mapValues(String::valueOf)
            .to(counts, Produced.with(Serdes.String(), Serdes.String()));
        return builder.build();
    }

    private static void awaitClose() {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try {
            String line = input.readLine();
            while (line != null && !line.strip().equals("close")) {
                line = input.readLine();
            }
        } catch (IOException error) {
            emit("died", "\"error\":" + quote(error));
        }
    }

    private static synchronized void emit(String event, String fields) {
        System.out.println("{\"event\":\"" + event + "\",\"at\":" + System.currentTimeMillis() + "," + fields + "}");
        System.out.flush();
    }

    private static String quote(Object value) {
        StringBuilder text = new StringBuilder("\"");
        for (char c : String.valueOf(value).toCharArray()) {
            if (c == '"' || c == '\\') {
                text.append('\\').append(c);
            } else {
                text.append(c < ' ' ? ' ' : c);
            }
        }
        return text.append("\"").toString();
    }
}
