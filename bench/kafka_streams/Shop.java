import java.nio.file.Path;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.state.Stores;

/**
 * The shop's four services on Kafka Streams, exactly once: the same topics, keys, twelve events and states.
 *
 * Shop HOST:PORT PREFIX STATE_DIRECTORY [SETTING=VALUE ...]: settings of Kafka Streams itself; without any, its
 * defaults. RocksDB keeps the states, with a cache before it, both as they are by default. Ends when its standard input
 * does.
 */
public final class Shop {
    private static final Serde<String> KEY = Serdes.String();
    private static final Serde<Event> EVENT = Event.serde();

    private final String prefix;
    private final CountDownLatch ended = new CountDownLatch(1);

    private Shop(String prefix) {
        this.prefix = prefix;
    }

    public static void main(String[] arguments) throws Exception {
        new Shop(arguments[1]).run(arguments[0], Path.of(arguments[2]), List.of(arguments).subList(3, arguments.length));
    }

    private void run(String bootstrap, Path directory, List<String> settings) throws Exception {
        List<KafkaStreams> services = List.of(
            service("order", order(), bootstrap, directory, settings),
            service("stock", stock(), bootstrap, directory, settings),
            service("payment", payment(), bootstrap, directory, settings),
            service("dispatch", dispatch(), bootstrap, directory, settings));
        Thread input = new Thread(this::awaitEndOfInput);
        input.setDaemon(true);
        input.start();
        services.forEach(KafkaStreams::start);
        ended.await();
        services.forEach(KafkaStreams::close);
        System.exit(0);
    }

    private KafkaStreams service(
        String name, Topology topology, String bootstrap, Path directory, List<String> settings) {
        Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, prefix + name);
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        properties.put(StreamsConfig.STATE_DIR_CONFIG, directory.toString());
        properties.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        for (String setting : settings) {
            String[] parts = setting.split("=", 2);
            properties.put(parts[0], parts[1]);
        }
        KafkaStreams streams = new KafkaStreams(topology, properties);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            ended.countDown();
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        return streams;
    }

    private Topology order() {
        Topology topology = new Topology();
        decider(topology, "order", Deciders.Orders::new, Decider.serde(Deciders.Orders.Order::read),
            "order.requests", "stock", "payments", "dispatches");
        says(topology, "order", "orders");
        return topology;
    }

    private Topology stock() {
        Topology topology = new Topology();
        decider(topology, "shelf", Deciders.Shelves::new, Decider.serde(Deciders.Shelves.Shelf::read),
            "stock.requests");
        says(topology, "shelf", "stock.lines");
        decider(topology, "reservation", Deciders.Reservations::new,
            Decider.serde(Deciders.Reservations.Reservation::read), "orders", "stock.lines", "payments", "dispatches");
        says(topology, "reservation", "stock.requests", "stock");
        return topology;
    }

    private Topology payment() {
        Topology topology = new Topology();
        decider(topology, "payment", Deciders.Payments::new, Decider.serde(Deciders.Payments.Payment::read),
            "stock", "payments", "dispatches", "orders");
        says(topology, "payment", "payments");
        return topology;
    }

    private Topology dispatch() {
        Topology topology = new Topology();
        decider(topology, "shipment", Deciders.Shipments::new, Decider.serde(Deciders.Shipments.Shipment::read),
            "payments", "dispatches", "orders");
        says(topology, "shipment", "dispatches");
        return topology;
    }

    private <S> void decider(
        Topology topology, String name, ProcessorSupplier<String, Event, String, Event> decider, Serde<S> states,
        String... topics) {
        String[] read = new String[topics.length];
        for (int i = 0; i < topics.length; i++) {
            read[i] = prefix + topics[i];
        }
        topology.addSource(name + ".in", KEY.deserializer(), EVENT.deserializer(), read);
        topology.addProcessor(name, decider, name + ".in");
        topology.addStateStore(
            Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore(name), KEY, states).withCachingEnabled(), name);
    }

    private void says(Topology topology, String decider, String... topics) {
        for (String topic : topics) {
            topology.addSink(topic, prefix + topic, KEY.serializer(), EVENT.serializer(), decider);
        }
    }

    private void awaitEndOfInput() {
        try {
            while (System.in.read() >= 0) {
            }
        } catch (java.io.IOException error) {
            // as good as its end
        }
        ended.countDown();
    }
}
