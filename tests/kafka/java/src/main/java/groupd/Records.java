package groupd;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.generated.CoordinatorRecordJsonConverters;
import org.apache.kafka.coordinator.transaction.TransactionCoordinatorRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/**
 * What Kafka's own classes make of records of __consumer_offsets, or of the topic that is the only argument,
 * __transaction_state. There is one record a line, and each line in and out is JSON: {"key": hex, "value": hex
 * or null} is read and answered as {"json": ...} in the form of Kafka's formatters; {"json": ...} is written
 * and answered as {"key": ..., "value": ...}.
 */
public final class Records {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HexFormat HEX = HexFormat.of();

    /** The classes that Kafka generates for the records of one topic. */
    private interface Converters {
        JsonNode keyAsJson(ApiMessage key);

        JsonNode valueAsJson(ApiMessage value, short version);

        ApiMessage keyOf(JsonNode shown, short type);

        ApiMessage valueOf(JsonNode shown, short type, short version);
    }

    private static final class OfGroups implements Converters {
        public JsonNode keyAsJson(ApiMessage key) {
            return CoordinatorRecordJsonConverters.writeRecordKeyAsJson(key);
        }

        public JsonNode valueAsJson(ApiMessage value, short version) {
            return CoordinatorRecordJsonConverters.writeRecordValueAsJson(value, version);
        }

        public ApiMessage keyOf(JsonNode shown, short type) {
            return CoordinatorRecordJsonConverters.readRecordKeyFromJson(shown, type);
        }

        public ApiMessage valueOf(JsonNode shown, short type, short version) {
            return CoordinatorRecordJsonConverters.readRecordValueFromJson(shown, type, version);
        }
    }

    private static final class OfTransactions implements Converters {
        public JsonNode keyAsJson(ApiMessage key) {
            return org.apache.kafka.coordinator.transaction.generated.CoordinatorRecordJsonConverters
                    .writeRecordKeyAsJson(key);
        }

        public JsonNode valueAsJson(ApiMessage value, short version) {
            return org.apache.kafka.coordinator.transaction.generated.CoordinatorRecordJsonConverters
                    .writeRecordValueAsJson(value, version);
        }

        public ApiMessage keyOf(JsonNode shown, short type) {
            return org.apache.kafka.coordinator.transaction.generated.CoordinatorRecordJsonConverters
                    .readRecordKeyFromJson(shown, type);
        }

        public ApiMessage valueOf(JsonNode shown, short type, short version) {
            return org.apache.kafka.coordinator.transaction.generated.CoordinatorRecordJsonConverters
                    .readRecordValueFromJson(shown, type, version);
        }
    }

    private static CoordinatorRecordSerde serde = new GroupCoordinatorRecordSerde();
    private static Converters converters = new OfGroups();

    private Records() {}

    public static void main(String[] arguments) throws IOException {
        if (arguments.length > 0 && arguments[0].equals("__transaction_state")) {
            serde = new TransactionCoordinatorRecordSerde();
            converters = new OfTransactions();
        }
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode asked = JSON.readTree(line);
            System.out.println(asked.has("json") ? written(asked.get("json")) : read(asked));
        }
    }

    private static ObjectNode read(JsonNode asked) {
        JsonNode value = asked.get("value");
        CoordinatorRecord record = serde.deserialize(
                ByteBuffer.wrap(HEX.parseHex(asked.get("key").asText())),
                value.isNull() ? null : ByteBuffer.wrap(HEX.parseHex(value.asText())));
        ObjectNode shown = JSON.createObjectNode();
        ObjectNode key = shown.putObject("key");
        key.put("type", record.key().apiKey());
        key.set("data", converters.keyAsJson(record.key()));
        if (record.value() == null) {
            shown.putNull("value");
        } else {
            short version = record.value().version();
            ObjectNode shownValue = shown.putObject("value");
            shownValue.put("version", version);
            shownValue.set("data", converters.valueAsJson(record.value().message(), version));
        }
        ObjectNode answer = JSON.createObjectNode();
        answer.set("json", shown);
        return answer;
    }

    private static ObjectNode written(JsonNode shown) {
        short type = (short) shown.get("key").get("type").asInt();
        var key = converters.keyOf(shown.get("key").get("data"), type);
        ObjectNode answer = JSON.createObjectNode();
        CoordinatorRecord record;
        if (shown.get("value").isNull()) {
            record = CoordinatorRecord.tombstone(key);
            answer.putNull("value");
        } else {
            short version = (short) shown.get("value").get("version").asInt();
            var value = converters.valueOf(shown.get("value").get("data"), type, version);
            record = CoordinatorRecord.record(key, new ApiMessageAndVersion(value, version));
            answer.put("value", HEX.formatHex(serde.serializeValue(record)));
        }
        answer.put("key", HEX.formatHex(serde.serializeKey(record)));
        return answer;
    }
}
