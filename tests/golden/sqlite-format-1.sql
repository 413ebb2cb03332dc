PRAGMA application_id=1702259815;
PRAGMA user_version=1;
BEGIN TRANSACTION;
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO "meta" VALUES('created_at_ms','1795384526135');
INSERT INTO "meta" VALUES('log_id','07a89c1d88ef597ce7aef6813fa42170');
CREATE TABLE milestones (position INTEGER PRIMARY KEY, newest_at INTEGER NOT NULL);
CREATE TABLE owners (
    service TEXT NOT NULL, partition INTEGER NOT NULL, epoch INTEGER NOT NULL, owner TEXT NOT NULL,
    seen_at INTEGER NOT NULL, PRIMARY KEY (service, partition)
) WITHOUT ROWID;
INSERT INTO "owners" VALUES('order',0,1,'vm/832/228625/7257b9d0-2d76-48ac-bbbe-865aeecba025-pid:[4026531836]/42fc9341',1795384526174);
CREATE TABLE partitions (
    number INTEGER PRIMARY KEY, topic TEXT NOT NULL, partition INTEGER NOT NULL,
    next_offset INTEGER NOT NULL DEFAULT 0, newest_at INTEGER NOT NULL DEFAULT 0,
    clean_to INTEGER NOT NULL DEFAULT 0, kept INTEGER NOT NULL DEFAULT 0, kept_bytes INTEGER NOT NULL DEFAULT 0,
    UNIQUE (topic, partition)
);
INSERT INTO "partitions" VALUES(1,'orders',0,3,1700000000002,0,0,0);
CREATE TABLE records (
    position INTEGER PRIMARY KEY, recorded_at INTEGER NOT NULL, key BLOB, value BLOB, id TEXT, type TEXT, source TEXT,
    subject TEXT, sequence INTEGER, correlation_id TEXT, causation_id TEXT, traceparent TEXT, headers TEXT
);
INSERT INTO "records" VALUES(1099511627776,1700000000000,X'6F726465722D30',X'0030','id-0','OrderPlaced','order/order','order-0',1,'cause','cause',NULL,NULL);
INSERT INTO "records" VALUES(1099511627777,1700000000001,X'6F726465722D31',X'0031','id-1','OrderPlaced','order/order','order-1',2,'cause','cause',NULL,NULL);
INSERT INTO "records" VALUES(1099511627778,1700000000002,X'6F726465722D32',X'0032','id-2','OrderPlaced','order/order','order-2',3,'cause','cause',NULL,NULL);
CREATE TABLE topics (
    name TEXT PRIMARY KEY, partitions INTEGER NOT NULL, partitioner TEXT NOT NULL, retention_ms INTEGER,
    retention_bytes INTEGER, compacted INTEGER NOT NULL, latest INTEGER NOT NULL, max_event_bytes INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO "topics" VALUES('orders',1,'murmur2',NULL,NULL,0,0,1000000);
CREATE VIEW log AS
    SELECT p.topic, p.partition, r.position & 1099511627775 AS "offset",
        strftime('%Y-%m-%dT%H:%M:%fZ', r.recorded_at / 1000.0, 'unixepoch') AS recorded_at,
        CAST(r.key AS TEXT) AS "key", r.type, r.id, r.source, r.subject, r.sequence, r.correlation_id, r.causation_id,
        r.traceparent, r.headers, length(r.value) AS bytes, r.value
    FROM partitions p CROSS JOIN records r
        ON r.position >= p.number << 40 AND r.position < (p.number + 1) << 40;
COMMIT;
