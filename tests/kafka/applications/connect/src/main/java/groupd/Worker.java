package groupd;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.connect.cli.ConnectDistributed;
import org.apache.kafka.connect.runtime.Connect;

/**
 * One distributed worker of Kafka Connect in a process of its own: Connect's own command, without a file of settings.
 *
 * <p>Arguments: the address of its REST server, then the other settings of a worker as name=value. Events are JSON, one
 * a line, with "at" in ms of the wall clock: started, closed. A line "close" or the end of input stops the worker, so
 * that no process outlives whoever started it.
 */
public final class Worker {
    private Worker() {}

    public static void main(String[] arguments) throws IOException {
        Map<String, String> settings = new HashMap<>();
        settings.put("listeners", arguments[0]);
        for (int i = 1; i < arguments.length; i++) {
            String[] pair = arguments[i].split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        Connect<?> connect = new ConnectDistributed().startConnect(settings);
        emit("started");
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String line = input.readLine();
        while (line != null && !line.strip().equals("close")) {
            line = input.readLine();
        }
        connect.stop();
        connect.awaitStop();
        emit("closed");
        System.exit(0);
    }

    private static void emit(String event) {
        System.out.println("{\"event\":\"" + event + "\",\"at\":" + System.currentTimeMillis() + "}");
        System.out.flush();
    }
}
