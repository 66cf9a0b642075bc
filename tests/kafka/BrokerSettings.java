// Prints the settings that a real Kafka broker of this version knows, as JSON with one setting on each line:
//   java -cp "KAFKA/libs/*" tests/kafka/BrokerSettings.java HOST:PORT > actors/ground/kafka_settings.json
// What DescribeConfigs says of a broker (type, default, whether it changes at run time) comes from
// the running broker; what is allowed, and the settings that no broker describes, from the jars' definition.

import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.server.config.AbstractKafkaConfig;

public final class BrokerSettings {
    private static final ObjectMapper JSON = new ObjectMapper();
    /** How Kafka words a range: "[1,...]", or "[0,...,0.5]" with an upper bound. */
    private static final Pattern RANGE = Pattern.compile("\\[([-0-9.]+),\\.\\.\\.(?:,([-0-9.]+))?\\]");
    /** How Kafka words an enumeration: "[none, required]", with a note before it if case is the same. */
    private static final Pattern CHOICES = Pattern.compile("(\\(case insensitive\\) )?\\[([^\\[\\].]+)\\]");

    public static void main(String[] arguments) throws Exception {
        Map<String, ConfigEntry> described = new TreeMap<>();
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0]))) {
            String broker = admin.describeCluster().nodes().get().iterator().next().idString();
            ConfigResource resource = new ConfigResource(ConfigResource.Type.BROKER, broker);
            DescribeConfigsOptions options = new DescribeConfigsOptions().includeSynonyms(true);
            admin.describeConfigs(List.of(resource), options).all().get().get(resource).entries()
                .forEach(entry -> described.put(entry.name(), entry));
        }
        String jar = AbstractKafkaConfig.class.getProtectionDomain().getCodeSource().getLocation().getPath();
        System.out.println("{\"jar\": " + JSON.writeValueAsString(jar.substring(jar.lastIndexOf('/') + 1)) + ",");
        System.out.println("\"made by\": \"java -cp 'KAFKA/libs/*' tests/kafka/BrokerSettings.java HOST:PORT\",");
        System.out.println("\"settings\": [");
        Map<String, ConfigDef.ConfigKey> keys = new TreeMap<>(AbstractKafkaConfig.CONFIG_DEF.configKeys());
        int left = keys.size();
        for (ConfigDef.ConfigKey key : keys.values()) {
            left--;
            String line = JSON.writeValueAsString(facts(key, described.get(key.name)));
            System.out.println(line + (left > 0 ? "," : ""));
        }
        System.out.println("]}");
    }

    private static Map<String, Object> facts(ConfigDef.ConfigKey key, ConfigEntry entry) {
        Map<String, Object> facts = new LinkedHashMap<>();
        facts.put("name", key.name);
        facts.put("type", key.type.toString());
        facts.put("default", key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : null);
        if (key.validator != null) {
            bounds(key.validator.toString(), facts);
        }
        if (entry == null) {
            facts.put("described", false);
            return facts;
        }
        facts.put("read_only", entry.isReadOnly());
        if (entry.isSensitive()) {
            facts.put("sensitive", true);
        }
        checkDefault(key.name, facts.get("default"), entry);
        return facts;
    }

    private static void bounds(String allowed, Map<String, Object> facts) {
        Matcher range = RANGE.matcher(allowed);
        Matcher choices = CHOICES.matcher(allowed);
        if (range.matches()) {
            facts.put("low", number(range.group(1)));
            if (range.group(2) != null) {
                facts.put("high", number(range.group(2)));
            }
        } else if (choices.matches()) {
            facts.put("choices", choices.group(2).split(", "));
            if (choices.group(1) != null) {
                facts.put("any_case", true);
            }
        } else if (!allowed.isEmpty()) {
            facts.put("allowed", allowed);
        }
    }

    private static Number number(String text) {
        return text.contains(".") ? (Number) Double.valueOf(text) : (Number) Long.valueOf(text);
    }

    private static void checkDefault(String name, Object expected, ConfigEntry entry) {
        for (ConfigEntry.ConfigSynonym synonym : entry.synonyms()) {
            if (synonym.name().equals(name) && synonym.source() == ConfigEntry.ConfigSource.DEFAULT_CONFIG
                    && !synonym.value().equals(expected)) {
                throw new IllegalStateException(name + ": " + synonym.value() + " is not " + expected);
            }
        }
    }
}
