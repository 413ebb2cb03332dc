PRAGMA application_id=1702259815;
PRAGMA user_version=2;
BEGIN TRANSACTION;
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL, checksum INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID;
INSERT INTO "meta" VALUES('created_at_ms','1795632457012',4155706137740078615);
INSERT INTO "meta" VALUES('log_id','17506fdc16d07504a5bd1a777b4d3b22',2428626552510873104);
CREATE TABLE milestones (
    position INTEGER PRIMARY KEY, newest_at INTEGER NOT NULL, checksum INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE owners (
    service TEXT NOT NULL, partition INTEGER NOT NULL, epoch INTEGER NOT NULL, owner TEXT NOT NULL,
    seen_at INTEGER NOT NULL, checksum INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (service, partition)
) WITHOUT ROWID;
CREATE TABLE partitions (
    number INTEGER PRIMARY KEY, topic TEXT NOT NULL, partition INTEGER NOT NULL,
    next_offset INTEGER NOT NULL DEFAULT 0, newest_at INTEGER NOT NULL DEFAULT 0,
    clean_to INTEGER NOT NULL DEFAULT 0, kept INTEGER NOT NULL DEFAULT 0, kept_bytes INTEGER NOT NULL DEFAULT 0,
    dense_from INTEGER NOT NULL DEFAULT 0, checked_from INTEGER NOT NULL DEFAULT 0, digest INTEGER NOT NULL DEFAULT 0,
    checksum INTEGER NOT NULL DEFAULT 0,
    UNIQUE (topic, partition)
);
INSERT INTO "partitions" VALUES(1,'orders',0,10,1700000000009,0,0,0,0,0,4071844029054572962,2035178621287357662);
CREATE TABLE records (
    position INTEGER PRIMARY KEY, recorded_at INTEGER NOT NULL, key BLOB, value BLOB, id TEXT, type TEXT, source TEXT,
    subject TEXT, sequence INTEGER, correlation_id TEXT, causation_id TEXT, traceparent TEXT, headers TEXT,
    checksum INTEGER
);
INSERT INTO "records" VALUES(1099511627776,1700000000000,X'6F726465722D30',X'0030','id-0','OrderPlaced','order/order','order-0',1,'cause','cause',NULL,NULL,265545618757340844);
INSERT INTO "records" VALUES(1099511627777,1700000000001,X'6F726465722D31',X'0031','id-1','OrderPlaced','order/order','order-1',2,'cause','cause',NULL,NULL,3269707039539589763);
INSERT INTO "records" VALUES(1099511627778,1700000000002,X'6F726465722D32',X'0032','id-2','OrderPlaced','order/order','order-2',3,'cause','cause',NULL,NULL,2090739154203304736);
INSERT INTO "records" VALUES(1099511627779,1700000000003,X'6F726465722D33',X'0033','id-3','OrderPlaced','order/order','order-3',4,'cause','cause',NULL,NULL,96663727080952828);
INSERT INTO "records" VALUES(1099511627780,1700000000004,X'6F726465722D34',X'0034','id-4','OrderPlaced','order/order','order-4',5,'cause','cause',NULL,NULL,5953892575398084780);
INSERT INTO "records" VALUES(1099511627781,1700000000005,X'6F726465722D35',X'0035','id-5','OrderPlaced','order/order','order-5',6,'cause','cause',NULL,NULL,3051288285834697422);
INSERT INTO "records" VALUES(1099511627782,1700000000006,X'6F726465722D36',X'0036','id-6','OrderPlaced','order/order','order-6',7,'cause','cause',NULL,NULL,7711369854756344697);
INSERT INTO "records" VALUES(1099511627783,1700000000007,X'6F726465722D37',X'0037','id-7','OrderPlaced','order/order','order-7',8,'cause','cause',NULL,NULL,8625813240964330763);
INSERT INTO "records" VALUES(1099511627784,1700000000008,X'6F726465722D38',X'0038','id-8','OrderPlaced','order/order','order-8',9,'cause','cause',NULL,NULL,3860051438471787747);
INSERT INTO "records" VALUES(1099511627785,1700000000009,X'6F726465722D39',X'0039','id-9','OrderPlaced','order/order','order-9',10,'cause','cause',NULL,NULL,6040261241467242614);
CREATE TABLE topics (
    name TEXT PRIMARY KEY, partitions INTEGER NOT NULL, partitioner TEXT NOT NULL, retention_ms INTEGER,
    retention_bytes INTEGER, compacted INTEGER NOT NULL, latest INTEGER NOT NULL, max_event_bytes INTEGER NOT NULL,
    checksum INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
INSERT INTO "topics" VALUES('orders',1,'murmur2',NULL,NULL,0,0,1000000,4753935671469110644);
CREATE VIEW log AS
    SELECT p.topic, p.partition, r.position & 1099511627775 AS "offset",
        strftime('%Y-%m-%dT%H:%M:%fZ', r.recorded_at / 1000.0, 'unixepoch') AS recorded_at,
        CAST(r.key AS TEXT) AS "key", r.type, r.id, r.source, r.subject, r.sequence, r.correlation_id, r.causation_id,
        r.traceparent, r.headers, length(r.value) AS bytes, r.value
    FROM partitions p CROSS JOIN records r
        ON r.position >= p.number << 40 AND r.position < (p.number + 1) << 40;
COMMIT;
