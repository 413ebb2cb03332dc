import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.io.DecoderFactory;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.errors.RetriableException;
import org.apache.kafka.connect.storage.Converter;
import com.fasterxml.jackson.databind.ObjectMapper;

/**
 * Reads events for Kafka Connect's sinks: Avro behind a schema's id, as a Confluent Schema Registry frames it.
 *
 * "schema.registry.url" is where `eventlib schemas serve` answers. "events" are the types to hand on, separated by commas: of
 * any other nothing is left, and the transformation Filter with the predicate RecordIsTombstone drops that.
 */
public class EventConverter implements Converter {
    private static final int HEADER = 5;
    private static final ObjectMapper JSON = new ObjectMapper();

    private final HttpClient http = HttpClient.newHttpClient();
    private final Map<Integer, org.apache.avro.Schema> written = new ConcurrentHashMap<>();
    private final Map<org.apache.avro.Schema, Schema> known = new ConcurrentHashMap<>();
    private String registry;
    private Set<String> events = Set.of();

    @Override
    public void configure(Map<String, ?> config, boolean isKey) {
        registry = String.valueOf(config.get("schema.registry.url"));
        if (config.get("events") instanceof String names) {
            events = Set.of(names.split("\\s*,\\s*"));
        }
    }

    @Override
    public byte[] fromConnectData(String topic, Schema schema, Object value) {
        throw new DataException("events are said by services, not by connectors: write a topic that a service declares as foreign");
    }

    @Override
    public SchemaAndValue toConnectData(String topic, byte[] value) {
        if (value == null || value.length < HEADER || value[0] != 0) {
            return SchemaAndValue.NULL;
        }
        org.apache.avro.Schema schema = written.computeIfAbsent(ByteBuffer.wrap(value, 1, 4).getInt(), this::fetched);
        if (!events.isEmpty() && !events.contains(schema.getName())) {
            return SchemaAndValue.NULL;
        }
        try {
            var decoder = DecoderFactory.get().binaryDecoder(value, HEADER, value.length - HEADER, null);
            GenericRecord record = new GenericDatumReader<GenericRecord>(schema).read(null, decoder);
            Schema ours = known.computeIfAbsent(schema, EventConverter::translated);
            return new SchemaAndValue(ours, translated(ours, record));
        } catch (IOException | RuntimeException error) {
            throw new DataException("a record of " + topic + " is no " + schema.getFullName(), error);
        }
    }

    private org.apache.avro.Schema fetched(int id) {
        try {
            var request = HttpRequest.newBuilder(URI.create(registry + "/schemas/ids/" + id)).build();
            var answer = http.send(request, HttpResponse.BodyHandlers.ofString());
            if (answer.statusCode() != 200) {
                throw new DataException("schema " + id + ": the registry answers " + answer.statusCode() + " " + answer.body());
            }
            return new org.apache.avro.Schema.Parser().parse(JSON.readTree(answer.body()).get("schema").asText());
        } catch (IOException error) {
            throw new RetriableException("the registry at " + registry + " does not answer", error);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new RetriableException(error);
        }
    }

    private static Schema translated(org.apache.avro.Schema schema) {
        switch (schema.getType()) {
            case RECORD:
                SchemaBuilder made = SchemaBuilder.struct().name(schema.getFullName()).optional();
                schema.getFields().forEach(field -> made.field(field.name(), translated(field.schema())));
                return made.build();
            case UNION:
                List<org.apache.avro.Schema> others = schema.getTypes().stream().filter(each -> each.getType() != org.apache.avro.Schema.Type.NULL).toList();
                if (others.size() != 1) {
                    throw new DataException("a union of several types: " + schema);
                }
                return translated(others.get(0));
            case ARRAY:
                return SchemaBuilder.array(translated(schema.getElementType())).optional().build();
            case INT:
                return Schema.OPTIONAL_INT32_SCHEMA;
            case LONG:
                return Schema.OPTIONAL_INT64_SCHEMA;
            case FLOAT:
                return Schema.OPTIONAL_FLOAT32_SCHEMA;
            case DOUBLE:
                return Schema.OPTIONAL_FLOAT64_SCHEMA;
            case BOOLEAN:
                return Schema.OPTIONAL_BOOLEAN_SCHEMA;
            case BYTES:
                return Schema.OPTIONAL_BYTES_SCHEMA;
            default:
                return Schema.OPTIONAL_STRING_SCHEMA;
        }
    }

    private static Object translated(Schema schema, Object value) {
        if (value instanceof GenericRecord record) {
            Struct made = new Struct(schema);
            schema.fields().forEach(field -> made.put(field, translated(field.schema(), record.get(field.name()))));
            return made;
        }
        if (value instanceof List<?> values) {
            List<Object> made = new ArrayList<>(values.size());
            values.forEach(each -> made.add(translated(schema.valueSchema(), each)));
            return made;
        }
        return schema.type() == Schema.Type.STRING && value != null ? value.toString() : value;
    }
}
