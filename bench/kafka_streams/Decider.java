import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;

/** What the shop's deciders do with an order that goes well: one state for each key, changed and kept at each event. */
abstract class Decider<S extends Decider.State> implements Processor<String, Event, String, Event> {
    private final String store;
    private ProcessorContext<String, Event> context;
    private KeyValueStore<String, S> states;
    private String key;

    Decider(String store) {
        this.store = store;
    }

    @Override
    public void init(ProcessorContext<String, Event> context) {
        this.context = context;
        states = context.getStateStore(store);
    }

    @Override
    public void process(Record<String, Event> record) {
        key = record.key();
        handle(record.value());
    }

    /** Take note of an event, and say what follows. */
    abstract void handle(Event event);

    final S state(S initial) {
        S found = states.get(key);
        return found == null ? initial : found;
    }

    final void keep(S state) {
        states.put(key, state);
    }

    final void say(String topic, Event event) {
        context.forward(new Record<>(event.key(), event, now()), topic);
    }

    final long now() {
        return context.currentSystemTimeMs();
    }

    /** A state that can be kept. */
    interface State {
        void write(DataOutputStream out) throws IOException;
    }

    /** Reads a state. */
    interface Reading<S> {
        S read(DataInputStream in) throws IOException;
    }

    /** How states stand in the store and in its changelog. */
    static <S extends State> Serde<S> serde(Reading<S> reading) {
        return Serdes.serdeFrom((topic, state) -> written(state), (topic, bytes) -> read(reading, bytes));
    }

    private static byte[] written(State state) {
        if (state == null) {
            return null;
        }
        var bytes = new ByteArrayOutputStream(96);
        try {
            state.write(new DataOutputStream(bytes));
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        return bytes.toByteArray();
    }

    private static <S> S read(Reading<S> reading, byte[] bytes) {
        if (bytes == null) {
            return null;
        }
        try {
            return reading.read(new DataInputStream(new ByteArrayInputStream(bytes)));
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
