import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;

/**
 * The events of an order that goes well, with the fields that the shop's own have, as a number for the type and then
 * the fields. That is cheaper than what the shop writes: no schema, no ids, no headers.
 */
sealed interface Event {
    /** What it is about: its key on the log. */
    String key();

    /** One product of an order. */
    record Line(int lineNo, String sku, int quantity, long unitPriceCents) {}

    record OrderSubmitted(String key, String customerId, String country, String currency, List<Line> lines)
        implements Event {}

    record OrderPlaced(
        String key, String customerId, String country, String currency, long amountCents, List<Line> lines, long placedAt)
        implements Event {}

    record StockReceived(String key, int quantity) implements Event {}

    record LineRequested(String key, String orderId, int lineNo, int quantity) implements Event {}

    record LineShipped(String key, String orderId, int lineNo, int quantity) implements Event {}

    record LineReserved(String key, int lineNo, String sku, int quantity) implements Event {}

    record StockReserved(String key, long amountCents, String currency, String country) implements Event {}

    record StockShipped(String key) implements Event {}

    record ChargeRequested(String key, long amountCents, String currency, String country) implements Event {}

    record PaymentTaken(String key, long amountCents, String currency, String country, String chargeKey)
        implements Event {}

    record DispatchRequested(String key, String country) implements Event {}

    record OrderDispatched(String key, String tracking) implements Event {}

    record OrderCompleted(String key, long amountCents, String currency) implements Event {}

    /** How events stand on the log; the numbers are known to the benchmark that writes orders, too. */
    static Serde<Event> serde() {
        return Serdes.serdeFrom((topic, event) -> written(event), (topic, bytes) -> read(bytes));
    }

    private static byte[] written(Event event) {
        var bytes = new ByteArrayOutputStream(96);
        try {
            write(event, new DataOutputStream(bytes));
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        return bytes.toByteArray();
    }

    private static void write(Event event, DataOutputStream out) throws IOException {
        if (event instanceof OrderSubmitted e) {
            strings(out, 1, e.key, e.customerId, e.country, e.currency);
            lines(out, e.lines);
        } else if (event instanceof OrderPlaced e) {
            strings(out, 2, e.key, e.customerId, e.country, e.currency);
            out.writeLong(e.amountCents);
            lines(out, e.lines);
            out.writeLong(e.placedAt);
        } else if (event instanceof StockReceived e) {
            strings(out, 3, e.key);
            out.writeInt(e.quantity);
        } else if (event instanceof LineRequested e) {
            line(out, 4, e.key, e.orderId, e.lineNo, e.quantity);
        } else if (event instanceof LineShipped e) {
            line(out, 5, e.key, e.orderId, e.lineNo, e.quantity);
        } else if (event instanceof LineReserved e) {
            line(out, 6, e.key, e.sku, e.lineNo, e.quantity);
        } else if (event instanceof StockReserved e) {
            strings(out, 7, e.key, e.currency, e.country);
            out.writeLong(e.amountCents);
        } else if (event instanceof StockShipped e) {
            strings(out, 8, e.key);
        } else if (event instanceof ChargeRequested e) {
            strings(out, 9, e.key, e.currency, e.country);
            out.writeLong(e.amountCents);
        } else if (event instanceof PaymentTaken e) {
            strings(out, 10, e.key, e.currency, e.country, e.chargeKey);
            out.writeLong(e.amountCents);
        } else if (event instanceof DispatchRequested e) {
            strings(out, 11, e.key, e.country);
        } else if (event instanceof OrderDispatched e) {
            strings(out, 12, e.key, e.tracking);
        } else if (event instanceof OrderCompleted e) {
            strings(out, 13, e.key, e.currency);
            out.writeLong(e.amountCents);
        }
    }

    private static Event read(byte[] bytes) {
        var in = new DataInputStream(new ByteArrayInputStream(bytes));
        try {
            return read(in.readByte(), in);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private static Event read(int type, DataInputStream in) throws IOException {
        String key = in.readUTF();
        switch (type) {
            case 1:
                return new OrderSubmitted(key, in.readUTF(), in.readUTF(), in.readUTF(), lines(in));
            case 2:
                return new OrderPlaced(
                    key, in.readUTF(), in.readUTF(), in.readUTF(), in.readLong(), lines(in), in.readLong());
            case 3:
                return new StockReceived(key, in.readInt());
            case 4:
                return new LineRequested(key, in.readUTF(), in.readInt(), in.readInt());
            case 5:
                return new LineShipped(key, in.readUTF(), in.readInt(), in.readInt());
            case 6: {
                String sku = in.readUTF();
                return new LineReserved(key, in.readInt(), sku, in.readInt());
            }
            case 7: {
                String currency = in.readUTF(), country = in.readUTF();
                return new StockReserved(key, in.readLong(), currency, country);
            }
            case 8:
                return new StockShipped(key);
            case 9: {
                String currency = in.readUTF(), country = in.readUTF();
                return new ChargeRequested(key, in.readLong(), currency, country);
            }
            case 10: {
                String currency = in.readUTF(), country = in.readUTF(), chargeKey = in.readUTF();
                return new PaymentTaken(key, in.readLong(), currency, country, chargeKey);
            }
            case 11:
                return new DispatchRequested(key, in.readUTF());
            case 12:
                return new OrderDispatched(key, in.readUTF());
            case 13: {
                String currency = in.readUTF();
                return new OrderCompleted(key, in.readLong(), currency);
            }
            default:
                throw new IOException("no event has type " + type);
        }
    }

    private static void strings(DataOutputStream out, int type, String... texts) throws IOException {
        out.writeByte(type);
        for (String text : texts) {
            out.writeUTF(text);
        }
    }

    private static void line(DataOutputStream out, int type, String key, String other, int lineNo, int quantity)
        throws IOException {
        strings(out, type, key, other);
        out.writeInt(lineNo);
        out.writeInt(quantity);
    }

    private static void lines(DataOutputStream out, List<Line> lines) throws IOException {
        out.writeInt(lines.size());
        for (Line line : lines) {
            out.writeInt(line.lineNo);
            out.writeUTF(line.sku);
            out.writeInt(line.quantity);
            out.writeLong(line.unitPriceCents);
        }
    }

    private static List<Line> lines(DataInputStream in) throws IOException {
        int count = in.readInt();
        var found = new ArrayList<Line>(count);
        for (int i = 0; i < count; i++) {
            found.add(new Line(in.readInt(), in.readUTF(), in.readInt(), in.readLong()));
        }
        return found;
    }
}
