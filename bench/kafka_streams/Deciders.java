import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;

/** The shop's five deciders. */
final class Deciders {
    private Deciders() {}

    /** Order: opens an order, follows its parts, and tells when it has ended. */
    static final class Orders extends Decider<Orders.Order> {
        Orders() {
            super("order");
        }

        record Order(
            String customerId, String country, String currency, long amountCents, int lineCount, long openedAt,
            boolean reserved, boolean shipped, long takenCents, String tracking, long endedAt) implements State {
            static final Order NEW = new Order("", "", "", 0, 0, 0, false, false, 0, "", 0);

            @Override
            public void write(DataOutputStream out) throws IOException {
                out.writeUTF(customerId);
                out.writeUTF(country);
                out.writeUTF(currency);
                out.writeLong(amountCents);
                out.writeInt(lineCount);
                out.writeLong(openedAt);
                out.writeBoolean(reserved);
                out.writeBoolean(shipped);
                out.writeLong(takenCents);
                out.writeUTF(tracking);
                out.writeLong(endedAt);
            }

            static Order read(DataInputStream in) throws IOException {
                return new Order(
                    in.readUTF(), in.readUTF(), in.readUTF(), in.readLong(), in.readInt(), in.readLong(),
                    in.readBoolean(), in.readBoolean(), in.readLong(), in.readUTF(), in.readLong());
            }

            Order with(boolean reserved, boolean shipped, long takenCents, String tracking, long endedAt) {
                return new Order(
                    customerId, country, currency, amountCents, lineCount, openedAt, reserved, shipped, takenCents,
                    tracking, endedAt);
            }
        }

        @Override
        void handle(Event event) {
            if (event instanceof Event.OrderSubmitted asked) {
                open(asked);
            } else if (event instanceof Event.StockReserved) {
                Order order = state(Order.NEW);
                keep(order.with(true, order.shipped, order.takenCents, order.tracking, order.endedAt));
            } else if (event instanceof Event.OrderDispatched parcel) {
                Order order = state(Order.NEW);
                keep(order.with(order.reserved, order.shipped, order.takenCents, parcel.tracking(), order.endedAt));
            } else if (event instanceof Event.PaymentTaken money) {
                Order order = state(Order.NEW);
                complete(event.key(), order.with(
                    order.reserved, order.shipped, money.amountCents(), order.tracking, order.endedAt));
            } else if (event instanceof Event.StockShipped) {
                Order order = state(Order.NEW);
                complete(event.key(), order.with(
                    order.reserved, true, order.takenCents, order.tracking, order.endedAt));
            }
        }

        private void open(Event.OrderSubmitted asked) {
            if (state(Order.NEW).openedAt != 0) {
                return;
            }
            long amount = 0;
            for (Event.Line line : asked.lines()) {
                amount += line.quantity() * line.unitPriceCents();
            }
            long now = now();
            keep(new Order(
                asked.customerId(), asked.country(), asked.currency(), amount, asked.lines().size(), now, false, false,
                0, "", 0));
            say("orders", new Event.OrderPlaced(
                asked.key(), asked.customerId(), asked.country(), asked.currency(), amount, asked.lines(), now));
        }

        private void complete(String key, Order order) {
            if (order.endedAt == 0 && order.shipped && order.takenCents > 0) {
                say("orders", new Event.OrderCompleted(key, order.amountCents, order.currency));
                keep(order.with(order.reserved, true, order.takenCents, order.tracking, now()));
            } else {
                keep(order);
            }
        }
    }

    /** Shelf: the units of one product. */
    static final class Shelves extends Decider<Shelves.Shelf> {
        Shelves() {
            super("shelf");
        }

        record Shelf(int onHand, int reserved, int shipped) implements State {
            static final Shelf NEW = new Shelf(0, 0, 0);

            @Override
            public void write(DataOutputStream out) throws IOException {
                out.writeInt(onHand);
                out.writeInt(reserved);
                out.writeInt(shipped);
            }

            static Shelf read(DataInputStream in) throws IOException {
                return new Shelf(in.readInt(), in.readInt(), in.readInt());
            }
        }

        @Override
        void handle(Event event) {
            Shelf shelf = state(Shelf.NEW);
            if (event instanceof Event.StockReceived units) {
                keep(new Shelf(shelf.onHand + units.quantity(), shelf.reserved, shelf.shipped));
            } else if (event instanceof Event.LineRequested line) {
                int units = line.quantity();
                if (units > shelf.onHand) {
                    throw new IllegalStateException("shelf " + line.key() + " is empty: put more on it");
                }
                keep(new Shelf(shelf.onHand - units, shelf.reserved + units, shelf.shipped));
                say("stock.lines", new Event.LineReserved(line.orderId(), line.lineNo(), line.key(), units));
            } else if (event instanceof Event.LineShipped line) {
                keep(new Shelf(shelf.onHand, shelf.reserved - line.quantity(), shelf.shipped + line.quantity()));
            }
        }
    }

    /** Reservation: all lines of an order, over its shelves. */
    static final class Reservations extends Decider<Reservations.Reservation> {
        Reservations() {
            super("reservation");
        }

        record Reservation(
            int asked, int answered, int lineNo, String sku, int quantity, long amountCents, String currency,
            String country, long closedAt) implements State {
            static final Reservation NEW = new Reservation(0, 0, 0, "", 0, 0, "", "", 0);

            @Override
            public void write(DataOutputStream out) throws IOException {
                out.writeInt(asked);
                out.writeInt(answered);
                out.writeInt(lineNo);
                out.writeUTF(sku);
                out.writeInt(quantity);
                out.writeLong(amountCents);
                out.writeUTF(currency);
                out.writeUTF(country);
                out.writeLong(closedAt);
            }

            static Reservation read(DataInputStream in) throws IOException {
                return new Reservation(
                    in.readInt(), in.readInt(), in.readInt(), in.readUTF(), in.readInt(), in.readLong(), in.readUTF(),
                    in.readUTF(), in.readLong());
            }
        }

        @Override
        void handle(Event event) {
            if (event instanceof Event.OrderPlaced order) {
                if (order.lines().size() != 1) {
                    throw new IllegalStateException("orders of one line are compared");
                }
                keep(new Reservation(1, 0, 0, "", 0, order.amountCents(), order.currency(), order.country(), 0));
                for (Event.Line line : order.lines()) {
                    say("stock.requests", new Event.LineRequested(line.sku(), order.key(), line.lineNo(), line.quantity()));
                }
            } else if (event instanceof Event.LineReserved line) {
                Reservation r = state(Reservation.NEW);
                keep(new Reservation(
                    r.asked, r.answered + 1, line.lineNo(), line.sku(), line.quantity(), r.amountCents, r.currency,
                    r.country, r.closedAt));
                if (r.answered + 1 == r.asked) {
                    say("stock", new Event.StockReserved(line.key(), r.amountCents, r.currency, r.country));
                }
            } else if (event instanceof Event.OrderDispatched parcel) {
                Reservation r = state(Reservation.NEW);
                say("stock.requests", new Event.LineShipped(r.sku, parcel.key(), r.lineNo, r.quantity));
                say("stock", new Event.StockShipped(parcel.key()));
                keep(new Reservation(
                    r.asked, r.answered, 0, "", 0, r.amountCents, r.currency, r.country, now()));
            }
        }
    }

    /** Payment: asks the gateway, which answers at once; as in the shop, only when the request is committed. */
    static final class Payments extends Decider<Payments.Payment> {
        Payments() {
            super("payment");
        }

        record Payment(int stage, String chargeKey, long amountCents, String currency, long endedAt) implements State {
            static final Payment NEW = new Payment(0, "", 0, "", 0);

            @Override
            public void write(DataOutputStream out) throws IOException {
                out.writeInt(stage);
                out.writeUTF(chargeKey);
                out.writeLong(amountCents);
                out.writeUTF(currency);
                out.writeLong(endedAt);
            }

            static Payment read(DataInputStream in) throws IOException {
                return new Payment(in.readInt(), in.readUTF(), in.readLong(), in.readUTF(), in.readLong());
            }
        }

        @Override
        void handle(Event event) {
            if (event instanceof Event.StockReserved stock) {
                if (state(Payment.NEW).stage == 0) {
                    keep(new Payment(1, "charge-" + stock.key(), stock.amountCents(), stock.currency(), 0));
                    say("payments", new Event.ChargeRequested(
                        stock.key(), stock.amountCents(), stock.currency(), stock.country()));
                }
            } else if (event instanceof Event.ChargeRequested charge) {
                Payment payment = state(Payment.NEW);
                keep(new Payment(2, payment.chargeKey, payment.amountCents, payment.currency, 0));
                say("payments", new Event.PaymentTaken(
                    charge.key(), charge.amountCents(), charge.currency(), charge.country(), payment.chargeKey));
            } else if (event instanceof Event.OrderCompleted) {
                Payment payment = state(Payment.NEW);
                keep(new Payment(payment.stage, payment.chargeKey, payment.amountCents, payment.currency, now()));
            }
        }
    }

    /** Shipment: asks the carrier, which answers at once; as in the shop, only when the request is committed. */
    static final class Shipments extends Decider<Shipments.Shipment> {
        Shipments() {
            super("shipment");
        }

        record Shipment(int stage, String bookingKey, long endedAt) implements State {
            static final Shipment NEW = new Shipment(0, "", 0);

            @Override
            public void write(DataOutputStream out) throws IOException {
                out.writeInt(stage);
                out.writeUTF(bookingKey);
                out.writeLong(endedAt);
            }

            static Shipment read(DataInputStream in) throws IOException {
                return new Shipment(in.readInt(), in.readUTF(), in.readLong());
            }
        }

        @Override
        void handle(Event event) {
            if (event instanceof Event.PaymentTaken money) {
                if (state(Shipment.NEW).stage == 0) {
                    keep(new Shipment(1, "booking-" + money.key(), 0));
                    say("dispatches", new Event.DispatchRequested(money.key(), money.country()));
                }
            } else if (event instanceof Event.DispatchRequested) {
                Shipment shipment = state(Shipment.NEW);
                keep(new Shipment(2, shipment.bookingKey, 0));
                say("dispatches", new Event.OrderDispatched(event.key(), shipment.bookingKey));
            } else if (event instanceof Event.OrderCompleted) {
                Shipment shipment = state(Shipment.NEW);
                keep(new Shipment(shipment.stage, shipment.bookingKey, now()));
            }
        }
    }
}
