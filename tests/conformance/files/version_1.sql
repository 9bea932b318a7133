-- A journal as counterfoil 0.1.0 left it: schema version 1, something in every state. Never change this file.
PRAGMA application_id = 1131693676;
PRAGMA user_version = 1;
BEGIN TRANSACTION;
CREATE TABLE attempts (
    namespace TEXT NOT NULL,
    run TEXT NOT NULL,
    operation TEXT NOT NULL,
    number INTEGER NOT NULL CHECK (number >= 0),
    generation INTEGER NOT NULL CHECK (generation >= 0),
    principal TEXT,
    conversation TEXT,
    connection TEXT,
    call_id TEXT,
    reason TEXT NOT NULL,
    granted_at INTEGER NOT NULL,
    lease_until INTEGER NOT NULL,
    ended_at INTEGER,
    outcome TEXT NOT NULL CHECK (outcome IN ('open', 'unknown', 'refused', 'silent')),
    is_touched INTEGER NOT NULL CHECK (is_touched IN (0, 1)),
    retryable INTEGER NOT NULL CHECK (retryable IN (0, 1)),
    retry_at INTEGER,
    error TEXT,
    set_back INTEGER NOT NULL,
    context TEXT,
    workflow_version TEXT,
    PRIMARY KEY (namespace, run, operation, number),
    FOREIGN KEY (namespace, operation) REFERENCES operations (namespace, id),
    CHECK ((number = 0) = (generation = 0)),
    CHECK ((number = 0) = (principal IS NULL)),
    CHECK (outcome <> 'open' OR ended_at IS NULL),
    CHECK (granted_at <= lease_until)
) STRICT, WITHOUT ROWID;
INSERT INTO "attempts" VALUES('default','run-1','op_lznyycoqct2ck4lnguac',1,1,'local','conversation-1','connection-1','toolu_call_00000011','first_attempt',1795953600000000,1795953900000000,1795953600000000,'refused',1,1,NULL,'it broke',0,NULL,NULL);
INSERT INTO "attempts" VALUES('default','run-1','op_s7n3c7jovn5n4a5ufumt',1,1,'local','conversation-1','connection-1','toolu_call_00000006','first_attempt',1795953600000000,1795953900000000,1795953600000000,'refused',1,1,NULL,'it broke',0,NULL,NULL);
INSERT INTO "attempts" VALUES('default','run-1','op_spcyfyvvdc4oxxbmprqm',1,1,'local','conversation-1','connection-1','toolu_call_00000001','first_attempt',1795953600000000,1795953900000000,NULL,'open',1,1,NULL,NULL,0,NULL,NULL);
INSERT INTO "attempts" VALUES('default','run-1','op_x4g7awor5i54hia2z3dt',1,1,'local','conversation-1','connection-1','toolu_call_00000003','first_attempt',1795953600000000,1795953900000000,1795953600000000,'unknown',1,1,NULL,'it broke',0,'sha256:019068c95b70aeea86552d13e15ab2a0697e9578151406577aeaf3e7ce1f7616','1');
INSERT INTO "attempts" VALUES('default','run-1','op_y23p4fsta64526yjs2ek',1,1,'local','conversation-1','connection-1','toolu_call_00000008','first_attempt',1795953600000000,1795953900000000,NULL,'open',1,1,NULL,NULL,0,NULL,NULL);
INSERT INTO "attempts" VALUES('default','run-1','op_y5isk6vtswjyfexqzd4m',1,1,'local','conversation-2','connection-2','toolu_call_00000019','first_attempt',1795953600000000,1795957200000000,NULL,'open',0,1,NULL,NULL,0,NULL,NULL);
INSERT INTO "attempts" VALUES('default','run-2','op_nttwwyfasyueedfq3wnb',1,1,'local','conversation-1','connection-1','toolu_call_00000015','first_attempt',1795953600000000,1795953900000000,NULL,'unknown',1,1,NULL,NULL,0,NULL,NULL);
INSERT INTO "attempts" VALUES('default','run-3','op_t6fh3yhgivmtj4jmxluq',1,1,'local','conversation-1','connection-1','toolu_call_00000017','first_attempt',1795953600000000,1795953900000000,NULL,'open',1,1,NULL,NULL,0,NULL,NULL);
CREATE TABLE bodies (
    namespace TEXT NOT NULL,
    run TEXT NOT NULL,
    digest TEXT NOT NULL,
    body TEXT NOT NULL,
    stored_at INTEGER NOT NULL,
    PRIMARY KEY (namespace, run, digest)
) STRICT, WITHOUT ROWID;
INSERT INTO "bodies" VALUES('default','run-1','sha256:019068c95b70aeea86552d13e15ab2a0697e9578151406577aeaf3e7ce1f7616','{"model":"m-1"}',1795953600000000);
INSERT INTO "bodies" VALUES('default','run-1','sha256:05df6b4348dfda717207379c4d3cd04ce02885608ce6edc791bbd42c906852ca','{"status":250}',1795953600000000);
INSERT INTO "bodies" VALUES('default','run-1','sha256:15a176125257486719827c99e4cd2ec4f626949dc707df6fc0c17de94268509c','{"q":"alice"}',1795953600000000);
INSERT INTO "bodies" VALUES('default','run-1','sha256:3fab847189a664ae4e00ab97fc67ecfa53c407cdfb2e8de470b44e5ab9535cad','{"status":401}',1795953600000000);
INSERT INTO "bodies" VALUES('default','run-1','sha256:7601b27ea88914e076bd2e26f417123a0f15ba9ac2803aad93533c1627812246','"Dear Alice"',1795953600000000);
INSERT INTO "bodies" VALUES('default','run-1','sha256:f3033ffca509e7443a175c33e2476e0796f8d670bf23a22b7bfb3d9630af0fbb','{"n":1,"token":"[redacted:token:512fadc45e1813bbd6e41bbfade2]"}',1795953600000000);
INSERT INTO "bodies" VALUES('default','run-1','sha256:fbcdcec89a7d90666cfe94fb9a0b19f2fa8cc0e02519ffb76da1191001c55b84','{"text":"again"}',1795953600000000);
CREATE TABLE compensations (
    namespace TEXT NOT NULL,
    original TEXT NOT NULL,
    run TEXT NOT NULL,
    operation TEXT NOT NULL,
    PRIMARY KEY (namespace, original, operation)
) STRICT, WITHOUT ROWID;
INSERT INTO "compensations" VALUES('default','op_nttwwyfasyueedfq3wnb','run-3','op_t6fh3yhgivmtj4jmxluq');
CREATE TABLE contexts (
    namespace TEXT NOT NULL,
    digest TEXT NOT NULL,
    body TEXT NOT NULL,
    stored_at INTEGER NOT NULL,
    PRIMARY KEY (namespace, digest)
) STRICT, WITHOUT ROWID;
INSERT INTO "contexts" VALUES('default','sha256:019068c95b70aeea86552d13e15ab2a0697e9578151406577aeaf3e7ce1f7616','{"model":"m-1"}',1795953600000000);
CREATE TABLE events (
    namespace TEXT NOT NULL,
    run TEXT NOT NULL,
    seq INTEGER NOT NULL CHECK (seq >= 1),
    operation TEXT NOT NULL,
    kind TEXT NOT NULL,
    at INTEGER NOT NULL,
    caller TEXT NOT NULL,
    data TEXT NOT NULL,
    hash TEXT NOT NULL CHECK (length(hash) = 64),
    PRIMARY KEY (namespace, run, seq)
) STRICT, WITHOUT ROWID;
INSERT INTO "events" VALUES('default','run-1',1,'op_spcyfyvvdc4oxxbmprqm','operation_created',1795953600000000,'{"call_id":"toolu_call_00000001","client":"test","connection":"connection-1","conversation":"conversation-1","principal":"local"}','{"began":{"connection":"connection-1","conversation":"conversation-1","principal":"local"},"description":{"action":"email.send","args_digest":"sha256:f3033ffca509e7443a175c33e2476e0796f8d670bf23a22b7bfb3d9630af0fbb","args_keyed":"hmac-sha256:3afb90e9f168cdcb3be24a63541443225daa48a2dfd2be823190c4a663a26783","args_redacted":true,"fingerprint":"v1:sha256:01df4dbb9f3f63800b6655f7cedf1de44d79341161c5e36e4423e1ac112df23e","payload_digest":"sha256:7601b27ea88914e076bd2e26f417123a0f15ba9ac2803aad93533c1627812246","payload_keyed":"hmac-sha256:8f6b7cc5aaa68b95dfe6fe5a63bbec7016a761af3675978ef1016d38f9b6c35c","payload_redacted":false,"target":"done@example.org","target_folded":"done@example.org"},"key":"done","namespace":"default","position":1,"run":"run-1","since_floor":1795953600000000}','77df04d4e742e4bdd78860f73b4924072cf3d1b6de1fb2c7fc6a664f3412c42b');
INSERT INTO "events" VALUES('default','run-1',2,'op_spcyfyvvdc4oxxbmprqm','terms_fixed',1795953600000000,'{"call_id":"toolu_call_00000001","client":"test","connection":"connection-1","conversation":"conversation-1","principal":"local"}','{"lookup":{"args_digest":"sha256:15a176125257486719827c99e4cd2ec4f626949dc707df6fc0c17de94268509c","tool":"search_sent"}}','0ff8ff74e70697a2e091035462513af67f343abb8d8cfe01cf698cb4a1da570b');
INSERT INTO "events" VALUES('default','run-1',3,'op_spcyfyvvdc4oxxbmprqm','terms_fixed',1795953600000000,'{"call_id":"toolu_call_00000001","client":"test","connection":"connection-1","conversation":"conversation-1","principal":"local"}','{"lookup":{"args_digest":"sha256:15a176125257486719827c99e4cd2ec4f626949dc707df6fc0c17de94268509c","tool":"search_sent"},"repeat":"unsafe"}','58afc86cab93a05c0fb031bff4f47f63d494a4c2e7766aea0362130b177f9ae4');
INSERT INTO "events" VALUES('default','run-1',4,'op_spcyfyvvdc4oxxbmprqm','attempt_granted',1795953600000000,'{"call_id":"toolu_call_00000001","client":"test","connection":"connection-1","conversation":"conversation-1","principal":"local"}','{"call_id":"toolu_call_00000001","clock":{"at":1795953600000000,"boot":"boot-1","offset":1795952600000000},"generation":1,"granted_at":1795953600000000,"holder":{"connection":"connection-1","conversation":"conversation-1","principal":"local"},"lease_until":1795953900000000,"number":1,"reason":"first_attempt"}','f70ba97e9c00a586bba646f2f44a138c433ccce2cbdb288345f59600900725b9');
INSERT INTO "events" VALUES('default','run-1',5,'op_spcyfyvvdc4oxxbmprqm','receipt_recorded',1795953600000000,'{"call_id":"toolu_call_00000002","client":"test","connection":"connection-1","conversation":"conversation-1","principal":"local"}','{"assurance":1,"attempt":1,"call_id":"toolu_call_00000002","evidence_digest":"sha256:05df6b4348dfda717207379c4d3cd04ce02885608ce6edc791bbd42c906852ca","external_id":"m-done","final":true,"is_accepted":true,"is_foreign":false,"is_set_aside":false,"is_unannounced":false,"is_undo":false,"kind":"message","number":1,"recorded_at":1795953600000000,"source":"response","system":"smtp"}','02c0abcc48e8f70da79f1ecf47b6b1ab03963bc9f7a37f4a658bb6fadd9e9230');
INSERT INTO "events" VALUES('default','run-1',6,'op_x4g7awor5i54hia2z3dt','operation_created',1795953600000000,'{"call_id":"toolu_call_00000003","client":"test","connection":"connection-1","context":"sha256:019068c95b70aeea86552d13e15ab2a0697e9578151406577aeaf3e7ce1f7616","conversation":"conversation-1","principal":"local","workflow_version":"1"}','{"began":{"connection":"connection-1","conversation":"conversation-1","principal":"local"},"description":{"action":"email.send","args_redacted":false,"fingerprint":"v1:sha256:4449a401a315413476f0dfacbb21355019cbb0b246b00af839420946929c2594","payload_digest":"sha256:fbcdcec89a7d90666cfe94fb9a0b19f2fa8cc0e02519ffb76da1191001c55b84","payload_keyed":"hmac-sha256:e6f0d16e6262639c2f29300e5bad688da6755d13123504e0cf393c94ee80a99f","payload_redacted":false,"target":"in-doubt@example.org","target_folded":"in-doubt@example.org"},"key":"in-doubt","namespace":"default","position":2,"run":"run-1","since_floor":1795953600000000}','fb07fb60e92f5362b916b869d2980fc07b9608054e16c4db8ef5f3acf4eb6fd5');
INSERT INTO "events" VALUES('default','run-1',7,'op_x4g7awor5i54hia2z3dt','terms_fixed',1795953600000000,'{"call_id":"toolu_call_00000003","client":"test","connection":"connection-1","context":"sha256:019068c95b70aeea86552d13e15ab2a0697e9578151406577aeaf3e7ce1f7616","conversation":"conversation-1","principal":"local","workflow_version":"1"}','{"key_ttl_seconds":86400,"repeat":"keyed"}','0e0e65ab50184c700f197c5f17572d0bfb6487802c76f7d1a644da543f68e837');
INSERT INTO "events" VALUES('default','run-1',8,'op_x4g7awor5i54hia2z3dt','attempt_granted',1795953600000000,'{"call_id":"toolu_call_00000003","client":"test","connection":"connection-1","context":"sha256:019068c95b70aeea86552d13e15ab2a0697e9578151406577aeaf3e7ce1f7616","conversation":"conversation-1","principal":"local","workflow_version":"1"}','{"call_id":"toolu_call_00000003","clock":{"at":1795953600000000,"boot":"boot-1","offset":1795952600000000},"context":"sha256:019068c95b70aeea86552d13e15ab2a0697e9578151406577aeaf3e7ce1f7616","generation":1,"granted_at":1795953600000000,"holder":{"connection":"connection-1","conversation":"conversation-1","principal":"local"},"lease_until":1795953900000000,"number":1,"reason":"first_attempt","workflow_version":"1"}','af21dd0b7a9b76981be1089578b3df6c47cbd2b76d1aaaadd70fe8d10fa9574d');
INSERT INTO "events" VALUES('default','run-1',9,'op_x4g7awor5i54hia2z3dt','attempt_ended',1795953600000000,'{"call_id":"toolu_call_00000004","client":"test","connection":"connection-1","conversation":"conversation-1","principal":"local"}','{"attempt":1,"ended_at":1795953600000000,"error":"it broke","outcome":"unknown","retryable":true}','a61e54129e982a8672a94901479e7b5de3aa03a695e814427147340f5631ea09');
INSERT INTO "events" VALUES('default','run-1',10,'op_x4g7awor5i54hia2z3dt','finding_recorded',1795953600000000,'{"call_id":"toolu_call_00000005","client":"test","connection":"connection-1","conversation":"conversation-1","principal":"local"}','{"as_of":1795953600000000,"attempt":1,"by":"lookup","call_id":"toolu_call_00000005","checked_with":"search_sent","finding":"inconclusive","is_persons":false,"is_unsettling":true,"number":1,"recorded_at":1795953600000000}','92436bd04934dd701707d45738484a86139492a599e968a584f91b09ab5c9769');
INSERT INTO "events" VALUES('default','run-1',11,'op_s7n3c7jovn5n4a5ufumt','operation_created',1795953600000000,'{"call_id":"toolu_call_00000006","client":"test","connection":"connection-1","conversation":"conversation-1","principal":"local"}','{"began":{"connection":"connection-1","conversation":"conversation-1","principal":"local"},"description":{"action":"email.send","args_redacted":false,"fingerprint":"v1:sha256:68f902ebbeeff34dbb79c049b76ddbee80aedeb57ebb94cbeb0fbf79cdaf2d63","payload_redacted":false,"target":"failed@example.org","target_folded":"failed@example.org"},"key":"failed","namespace":"default","position":3,"run":"run-1","since_floor":1795953600000000}','fe0f757663fb13efc5b92b00cbce79970e7d7a6cf681626253e24f43aa3b003e');
INSERT INTO "events" VALUES('default','run-1',12,'op_s7n3c7jovn5n4a5ufumt','terms_fixed',1795953600000000,'{"call_id":"toolu_call_00000006","client":"test","connection":"connection-1","conversation":"conversation-1","principal":"local"}','{"repeat":"unsafe"}','55858d69dc31e7fa8daba056e9537aa72eece3dba8569177ae2a012dd50bef0d');
INSERT INTO "events" VALUES('default','run-1',13,'op_s7n3c7jovn5n4a5ufumt','attempt_granted',1795953600000000,'{"call_id":"toolu_call_00000006","client":"test","connection":"connection-1","conversation":"conversation-1","principal":"local"}','{"call_id":"toolu_call_00000006","clock":{"at":1795953600000000,"boot":"boot-1","offset":1795952600000000},"generation":1,"granted_at":1795953600000000,"holder":{"connection":"connection-1","conversation":"conversation-1","principal":"local"},"lease_until":1795953900000000,"number":1,"reason":"first_attempt"}','9c14359ce90c431975b2d4068fe72d0f3ef1ca7775264f936a58c037eec992a5');
INSERT INTO "events" VALUES('default','run-1',14,'op_s7n3c7jovn5n4a5ufumt','attempt_ended',1795953600000000,'{"call_id":"toolu_call_00000007","client":"test","connection":"connection-1","conversation":"conversation-1","principal":"local"}','{"attempt":1,"ended_at":1795953600000000,"error":"it broke","evidence_digest":"sha256:3fab847189a664ae4e00ab97fc67ecfa53c407cdfb2e8de470b44e5ab9535cad","outcome":"refused","retryable":true}','64df6d9b699aeae9307b156a1adc66bcecb119864922ea063dfd132ccf5f9596');
INSERT INTO "events" VALUES('default','run-1',15,'op_y23p4fsta64526yjs2ek','operation_created',1795953600000000,'{"call_id":"toolu_call_00000008","client":"test","connection":"connection-1","conversation":"conversation-1","principal":"local"}','{"began":{"connection":"connection-1","conversation":"conversation-1","principal":"local"},"description":{"action":"email.send","args_redacted":false,"fingerprint":"v1:sha256:ca98b5ee0268f1df5a4ea69877e42eb05bbfb62f3f6160dcbfccd328bf8b0d1d","payload_redacted":false,"target":"twice@example.org","target_folded":"twice@example.org"},"key":"twice","namespace":"default","position":4,"run":"run-1","since_floor":1795953600000000}','ea1b72a8988fe4356a4b27e93eabc84c4d1fda987997a2b974f58629e49b4a02');
INSERT INTO "events" VALUES('default','run-1',16,'op_y23p4fsta64526yjs2ek','terms_fixed',1795953600000000,'{"call_id":"toolu_call_00000008","client":"test","connection":"connection-1","conversation":"conversation-1","principal":"local"}','{"repeat":"unsafe"}','9c01aeb5cbd7bfd3e456945b9bf69b38bbb75b4d6e372e0f95dd0bde93bf123d');
INSERT INTO "events" VALUES('default','run-1',17,'op_y23p4fsta64526yjs2ek','attempt_granted',1795953600000000,'{"call_id":"toolu_call_00000008","client":"test","connection":"connection-1","conversation":"conversation-1","principal":"local"}','{"call_id":"toolu_call_00000008","clock":{"at":1795953600000000,"boot":"boot-1","offset":1795952600000000},"generation":1,"granted_at":1795953600000000,"holder":{"connection":"connection-1","conversation":"conversation-1","principal":"local"},"lease_until":1795953900000000,"number":1,"reason":"first_attempt"}','020c3e45a42fce42669750f83933296b5e3d17cb703e7b3945cb49ad9f1d2771');
INSERT INTO "events" VALUES('default','run-1',18,'op_y23p4fsta64526yjs2ek','receipt_recorded',1795953600000000,'{"call_id":"toolu_call_00000009","client":"test","connection":"connection-1","conversation":"conversation-1","principal":"local"}','{"assurance":1,"attempt":1,"call_id":"toolu_call_00000009","external_id":"m-1","final":true,"is_accepted":true,"is_foreign":false,"is_set_aside":false,"is_unannounced":false,"is_undo":false,"kind":"message","number":1,"recorded_at":1795953600000000,"source":"response","system":"smtp"}','10eea41fa78d0fe935562ced94ef8dde585385ecd234471f759b44f8294f3a2b');
INSERT INTO "events" VALUES('default','run-1',19,'op_y23p4fsta64526yjs2ek','receipt_recorded',1795953600000000,'{"call_id":"toolu_call_00000010","client":"test","connection":"connection-1","conversation":"conversation-1","principal":"local"}','{"assurance":1,"attempt":1,"call_id":"toolu_call_00000010","external_id":"m-2","final":true,"is_accepted":true,"is_foreign":false,"is_set_aside":false,"is_unannounced":false,"is_undo":false,"kind":"message","number":2,"recorded_at":1795953600000000,"source":"response","system":"smtp"}','78bbd438c0b8ec1dd300160325c00dc2bc2ebffa7908957bb6efc692af6c7872');
INSERT INTO "events" VALUES('default','run-1',20,'op_y23p4fsta64526yjs2ek','dispute_opened',1795953600000000,'{"call_id":"toolu_call_00000010","client":"test","connection":"connection-1","conversation":"conversation-1","principal":"local"}','{"dispute":"effects"}','c89f0c96f7dcf05da314cb5f8f9ab81e134b5c2cfc55f2ee8008b6c5182b977b');
INSERT INTO "events" VALUES('default','run-1',21,'op_lznyycoqct2ck4lnguac','operation_created',1795953600000000,'{"call_id":"toolu_call_00000011","client":"test","connection":"connection-1","conversation":"conversation-1","principal":"local"}','{"began":{"connection":"connection-1","conversation":"conversation-1","principal":"local"},"description":{"action":"email.send","args_redacted":false,"fingerprint":"v1:sha256:177c8edf049915448dcc33b7e11a68dba7d4d145bd03afe8a9396779a7f797c9","payload_redacted":false,"target":"given-up@example.org","target_folded":"given-up@example.org"},"key":"given-up","namespace":"default","position":5,"run":"run-1","since_floor":1795953600000000}','2f0047c3588c683b799ac2979d0c4745f9821c5df52bce2f13e2785ef695da08');
INSERT INTO "events" VALUES('default','run-1',22,'op_lznyycoqct2ck4lnguac','terms_fixed',1795953600000000,'{"call_id":"toolu_call_00000011","client":"test","connection":"connection-1","conversation":"conversation-1","principal":"local"}','{"repeat":"unsafe"}','2e35a28b000949b9934603c887ea14f6b0dbb122396525014d1cb33310b742ca');
INSERT INTO "events" VALUES('default','run-1',23,'op_lznyycoqct2ck4lnguac','attempt_granted',1795953600000000,'{"call_id":"toolu_call_00000011","client":"test","connection":"connection-1","conversation":"conversation-1","principal":"local"}','{"call_id":"toolu_call_00000011","clock":{"at":1795953600000000,"boot":"boot-1","offset":1795952600000000},"generation":1,"granted_at":1795953600000000,"holder":{"connection":"connection-1","conversation":"conversation-1","principal":"local"},"lease_until":1795953900000000,"number":1,"reason":"first_attempt"}','af95d2443c0e9b2f0293f49f84c75700fe2b57067d826c10d5c729ce41eab1fd');
INSERT INTO "events" VALUES('default','run-1',24,'op_lznyycoqct2ck4lnguac','attempt_ended',1795953600000000,'{"call_id":"toolu_call_00000012","client":"test","connection":"connection-1","conversation":"conversation-1","principal":"local"}','{"attempt":1,"ended_at":1795953600000000,"error":"it broke","evidence_digest":"sha256:3fab847189a664ae4e00ab97fc67ecfa53c407cdfb2e8de470b44e5ab9535cad","outcome":"refused","retryable":true}','276d0df4f9aead3612e3683d98156a06d0821de9f37e8cb6dc2c08a3910ea522');
INSERT INTO "events" VALUES('default','run-1',25,'op_lznyycoqct2ck4lnguac','decided',1795953600000000,'{"call_id":"toolu_call_00000013","client":"test","connection":"connection-1","conversation":"conversation-1","principal":"local"}','{"by":"agent","outcome":"cancelled","reason":"decided"}','7e09b3864a0dacc9b304adfeb9c85de2ed766d5818bf8b6653e354ca03e6ea5c');
INSERT INTO "events" VALUES('default','run-1',26,'op_aleftc3nzivexpy7wva4','operation_created',1795953600000000,'{"call_id":"toolu_call_00000014","client":"test","connection":"connection-1","conversation":"conversation-1","principal":"local"}','{"began":{"connection":"connection-1","conversation":"conversation-1","principal":"local"},"description":{"action":"email.send","args_redacted":false,"fingerprint":"v1:sha256:5d16972f7992ebad5f77ac620c7fbe3c814ae4d279f75d4115ab8000e4d6c230","payload_redacted":false,"target":"waits@example.org","target_folded":"waits@example.org"},"key":"waits","namespace":"default","position":6,"run":"run-1","since_floor":1795953600000000}','a595c6f7d3437efe594538d4681358a6ee4e08dd7fe83b739dcb063cd537872f');
INSERT INTO "events" VALUES('default','run-1',27,'op_aleftc3nzivexpy7wva4','links_added',1795953600000000,'{"call_id":"toolu_call_00000014","client":"test","connection":"connection-1","conversation":"conversation-1","principal":"local"}','{"depends_on":["failed"]}','2bfec02fe9d2a9d1562ebd6bcd9def1756f5d30ebcf2743a4bc1492be8bd255c');
INSERT INTO "events" VALUES('default','run-1',28,'op_y5isk6vtswjyfexqzd4m','operation_created',1795953600000000,'{"call_id":"toolu_call_00000019","client":"test","connection":"connection-2","conversation":"conversation-2","principal":"local"}','{"began":{"connection":"connection-2","conversation":"conversation-2","principal":"local"},"description":{"action":"email.send","args_redacted":false,"fingerprint":"v1:sha256:7c70df4735e1256fc8ff4b3de86f0daf0c4d920cd1262d70bfd68585036f1f7a","payload_redacted":false,"target":"running@example.org","target_folded":"running@example.org"},"key":"running","namespace":"default","position":7,"run":"run-1","since_floor":1795953600000000}','082f1ad808b4456d304e3d19b386d51de5c0fdf30e63d1a72e41be8c4b1001f2');
INSERT INTO "events" VALUES('default','run-1',29,'op_y5isk6vtswjyfexqzd4m','terms_fixed',1795953600000000,'{"call_id":"toolu_call_00000019","client":"test","connection":"connection-2","conversation":"conversation-2","principal":"local"}','{"repeat":"unsafe"}','9580424fe776da1c10464c5eaaf88782b30dba9bb0e36025ef6826261eaadc32');
INSERT INTO "events" VALUES('default','run-1',30,'op_y5isk6vtswjyfexqzd4m','attempt_granted',1795953600000000,'{"call_id":"toolu_call_00000019","client":"test","connection":"connection-2","conversation":"conversation-2","principal":"local"}','{"call_id":"toolu_call_00000019","clock":{"at":1795953600000000,"boot":"boot-1","offset":1795952600000000},"generation":1,"granted_at":1795953600000000,"holder":{"connection":"connection-2","conversation":"conversation-2","principal":"local"},"lease_until":1795957200000000,"number":1,"reason":"first_attempt"}','11e5d7242cbbdec5f41d853861b43c7980be2ec9cf70af97ae0a4cd8b7224605');
INSERT INTO "events" VALUES('default','run-2',1,'op_nttwwyfasyueedfq3wnb','operation_created',1795953600000000,'{"call_id":"toolu_call_00000015","client":"test","connection":"connection-1","conversation":"conversation-1","principal":"local"}','{"began":{"connection":"connection-1","conversation":"conversation-1","principal":"local"},"description":{"action":"pay.send","args_redacted":false,"fingerprint":"v1:sha256:f1064bbc95b59f72da8c356c57f36d39b354722f425466399225ce7fd09cec51","payload_redacted":false,"target":"pay@example.org","target_folded":"pay@example.org"},"key":"pay","namespace":"default","position":1,"run":"run-2","since_floor":1795953600000000}','2f579249dc72f20d5ad588d554db6501f2a5d939765589604c822b3c8af4c8d0');
INSERT INTO "events" VALUES('default','run-2',2,'op_nttwwyfasyueedfq3wnb','terms_fixed',1795953600000000,'{"call_id":"toolu_call_00000015","client":"test","connection":"connection-1","conversation":"conversation-1","principal":"local"}','{"repeat":"unsafe"}','b873b91329e4fb490430eb5312752f28ac6cf6c86f990d672c4267681e02a074');
INSERT INTO "events" VALUES('default','run-2',3,'op_nttwwyfasyueedfq3wnb','attempt_granted',1795953600000000,'{"call_id":"toolu_call_00000015","client":"test","connection":"connection-1","conversation":"conversation-1","principal":"local"}','{"call_id":"toolu_call_00000015","clock":{"at":1795953600000000,"boot":"boot-1","offset":1795952600000000},"generation":1,"granted_at":1795953600000000,"holder":{"connection":"connection-1","conversation":"conversation-1","principal":"local"},"lease_until":1795953900000000,"number":1,"reason":"first_attempt"}','8d06630b13b6a745553d9ce9679559855ee5fa34a221c362a1baefb43b8eca87');
INSERT INTO "events" VALUES('default','run-2',4,'op_nttwwyfasyueedfq3wnb','receipt_recorded',1795953600000000,'{"call_id":"toolu_call_00000016","client":"test","connection":"connection-1","conversation":"conversation-1","principal":"local"}','{"assurance":1,"attempt":1,"call_id":"toolu_call_00000016","external_id":"t-1","final":true,"is_accepted":true,"is_foreign":false,"is_set_aside":false,"is_unannounced":false,"is_undo":false,"kind":"transaction","number":1,"recorded_at":1795953600000000,"source":"response","system":"bank"}','d44bf82439bc6d748ea97ee1454b11f9a699489d0d0c99895994274ef6dbb519');
INSERT INTO "events" VALUES('default','run-2',5,'op_nttwwyfasyueedfq3wnb','decided',1795953600000000,'{"call_id":"toolu_call_00000018","client":"test","connection":"connection-1","conversation":"conversation-1","principal":"local"}','{"by":"compensation","outcome":"compensated","reason":"op_t6fh3yhgivmtj4jmxluq"}','6c7ffe7c211117d3d5a16634ad40c9c87ad38085b95c79b52ef79514baf2bfed');
INSERT INTO "events" VALUES('default','run-3',1,'op_t6fh3yhgivmtj4jmxluq','operation_created',1795953600000000,'{"call_id":"toolu_call_00000017","client":"test","connection":"connection-1","conversation":"conversation-1","principal":"local"}','{"began":{"connection":"connection-1","conversation":"conversation-1","principal":"local"},"compensates":"op_nttwwyfasyueedfq3wnb","description":{"action":"pay.refund","args_redacted":false,"fingerprint":"v1:sha256:bcef8b2a8f669c502093b4e51fafafebb516b576df4a41be4eb19119566232d0","payload_redacted":false,"target":"refund@example.org","target_folded":"refund@example.org"},"key":"refund","namespace":"default","position":1,"run":"run-3","since_floor":1795953600000000}','4d453cab8901fbcd4f0b68cb02b3157b1ea7fd2c9593ffef27953bb7c633eef6');
INSERT INTO "events" VALUES('default','run-3',2,'op_t6fh3yhgivmtj4jmxluq','terms_fixed',1795953600000000,'{"call_id":"toolu_call_00000017","client":"test","connection":"connection-1","conversation":"conversation-1","principal":"local"}','{"repeat":"unsafe"}','a5cd62e64af82ab924cf8087bb5b0126da36200790e3190c70583415bf6f0938');
INSERT INTO "events" VALUES('default','run-3',3,'op_t6fh3yhgivmtj4jmxluq','attempt_granted',1795953600000000,'{"call_id":"toolu_call_00000017","client":"test","connection":"connection-1","conversation":"conversation-1","principal":"local"}','{"call_id":"toolu_call_00000017","clock":{"at":1795953600000000,"boot":"boot-1","offset":1795952600000000},"generation":1,"granted_at":1795953600000000,"holder":{"connection":"connection-1","conversation":"conversation-1","principal":"local"},"lease_until":1795953900000000,"number":1,"reason":"first_attempt"}','8b4bce329521ca1a3cfa4b76fbcbc07632f7d246622b9a883060360fb74f875f');
INSERT INTO "events" VALUES('default','run-3',4,'op_t6fh3yhgivmtj4jmxluq','receipt_recorded',1795953600000000,'{"call_id":"toolu_call_00000018","client":"test","connection":"connection-1","conversation":"conversation-1","principal":"local"}','{"assurance":1,"attempt":1,"call_id":"toolu_call_00000018","external_id":"t-2","final":true,"is_accepted":true,"is_foreign":false,"is_set_aside":false,"is_unannounced":false,"is_undo":false,"kind":"transaction","number":1,"recorded_at":1795953600000000,"source":"response","system":"bank"}','34de8205eaf19b892d0c7ced3930d6234ee8b9419e470386d8a79771013f57fe');
CREATE TABLE external_ids (
    namespace TEXT NOT NULL,
    external_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    system TEXT NOT NULL,
    run TEXT NOT NULL,
    operation TEXT NOT NULL,
    stands INTEGER NOT NULL CHECK (stands IN (0, 1)),
    PRIMARY KEY (namespace, external_id, kind, system, operation)
) STRICT, WITHOUT ROWID;
INSERT INTO "external_ids" VALUES('default','m-1','message','smtp','run-1','op_y23p4fsta64526yjs2ek',1);
INSERT INTO "external_ids" VALUES('default','m-2','message','smtp','run-1','op_y23p4fsta64526yjs2ek',1);
INSERT INTO "external_ids" VALUES('default','m-done','message','smtp','run-1','op_spcyfyvvdc4oxxbmprqm',1);
INSERT INTO "external_ids" VALUES('default','t-1','transaction','bank','run-2','op_nttwwyfasyueedfq3wnb',1);
INSERT INTO "external_ids" VALUES('default','t-2','transaction','bank','run-3','op_t6fh3yhgivmtj4jmxluq',1);
CREATE TABLE findings (
    namespace TEXT NOT NULL,
    run TEXT NOT NULL,
    operation TEXT NOT NULL,
    number INTEGER NOT NULL CHECK (number >= 1),
    finding TEXT NOT NULL CHECK (finding IN ('performed', 'not_performed', 'inconclusive', 'compensated')),
    checked_with TEXT NOT NULL,
    found_by TEXT NOT NULL,
    as_of INTEGER,
    attempt INTEGER NOT NULL CHECK (attempt >= 0),
    recorded_at INTEGER NOT NULL,
    evidence_digest TEXT,
    call_id TEXT,
    is_unsettling INTEGER NOT NULL CHECK (is_unsettling IN (0, 1)),
    is_persons INTEGER NOT NULL CHECK (is_persons IN (0, 1)),
    PRIMARY KEY (namespace, run, operation, number),
    FOREIGN KEY (namespace, operation) REFERENCES operations (namespace, id)
) STRICT, WITHOUT ROWID;
INSERT INTO "findings" VALUES('default','run-1','op_x4g7awor5i54hia2z3dt',1,'inconclusive','search_sent','lookup',1795953600000000,1,1795953600000000,NULL,'toolu_call_00000005',1,0);
CREATE TABLE fingerprints (
    namespace TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    run TEXT NOT NULL,
    operation TEXT NOT NULL,
    PRIMARY KEY (namespace, fingerprint, operation)
) STRICT, WITHOUT ROWID;
INSERT INTO "fingerprints" VALUES('default','v1:sha256:01df4dbb9f3f63800b6655f7cedf1de44d79341161c5e36e4423e1ac112df23e','run-1','op_spcyfyvvdc4oxxbmprqm');
INSERT INTO "fingerprints" VALUES('default','v1:sha256:177c8edf049915448dcc33b7e11a68dba7d4d145bd03afe8a9396779a7f797c9','run-1','op_lznyycoqct2ck4lnguac');
INSERT INTO "fingerprints" VALUES('default','v1:sha256:4449a401a315413476f0dfacbb21355019cbb0b246b00af839420946929c2594','run-1','op_x4g7awor5i54hia2z3dt');
INSERT INTO "fingerprints" VALUES('default','v1:sha256:5d16972f7992ebad5f77ac620c7fbe3c814ae4d279f75d4115ab8000e4d6c230','run-1','op_aleftc3nzivexpy7wva4');
INSERT INTO "fingerprints" VALUES('default','v1:sha256:68f902ebbeeff34dbb79c049b76ddbee80aedeb57ebb94cbeb0fbf79cdaf2d63','run-1','op_s7n3c7jovn5n4a5ufumt');
INSERT INTO "fingerprints" VALUES('default','v1:sha256:7c70df4735e1256fc8ff4b3de86f0daf0c4d920cd1262d70bfd68585036f1f7a','run-1','op_y5isk6vtswjyfexqzd4m');
INSERT INTO "fingerprints" VALUES('default','v1:sha256:bcef8b2a8f669c502093b4e51fafafebb516b576df4a41be4eb19119566232d0','run-3','op_t6fh3yhgivmtj4jmxluq');
INSERT INTO "fingerprints" VALUES('default','v1:sha256:ca98b5ee0268f1df5a4ea69877e42eb05bbfb62f3f6160dcbfccd328bf8b0d1d','run-1','op_y23p4fsta64526yjs2ek');
INSERT INTO "fingerprints" VALUES('default','v1:sha256:f1064bbc95b59f72da8c356c57f36d39b354722f425466399225ce7fd09cec51','run-2','op_nttwwyfasyueedfq3wnb');
CREATE TABLE journal (
    only INTEGER NOT NULL PRIMARY KEY CHECK (only = 1),
    id TEXT NOT NULL CHECK (length(id) > 0),
    created_at INTEGER NOT NULL,
    secret TEXT NOT NULL CHECK (length(secret) >= 64)
) STRICT;
INSERT INTO "journal" VALUES(1,'J-test',1795953600000000,'5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e');
CREATE TABLE operations (
    namespace TEXT NOT NULL,
    run TEXT NOT NULL,
    key TEXT NOT NULL CHECK (length(key) BETWEEN 1 AND 200),
    id TEXT NOT NULL CHECK (length(id) = 23),
    position INTEGER NOT NULL CHECK (position >= 1),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    since_floor INTEGER NOT NULL,
    action TEXT NOT NULL CHECK (length(action) > 0),
    target_folded TEXT NOT NULL,
    args_digest TEXT,
    fingerprint TEXT NOT NULL,
    compensates TEXT,
    description TEXT NOT NULL,
    terms TEXT NOT NULL,
    links TEXT NOT NULL,
    began TEXT,
    clock TEXT NOT NULL,
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL CHECK (attempts >= 0),
    receipts INTEGER NOT NULL CHECK (receipts >= 0),
    findings INTEGER NOT NULL CHECK (findings >= 0),
    standing_receipts INTEGER NOT NULL CHECK (standing_receipts >= 0),
    dispute TEXT CHECK (dispute IN ('receipt', 'effects', 'negative')),
    disputed_at INTEGER,
    decision TEXT CHECK (decision IN ('timed_out', 'cancelled', 'compensated')),
    decided_at INTEGER,
    decided_by TEXT,
    decision_reason TEXT,
    lease_until INTEGER,
    deadline_at INTEGER,
    acknowledged_at INTEGER,
    settle_restart_at INTEGER,
    set_back INTEGER NOT NULL CHECK (set_back >= 0),
    PRIMARY KEY (namespace, run, key),
    UNIQUE (namespace, id),
    FOREIGN KEY (namespace, run) REFERENCES runs (namespace, run),
    CHECK (state IN ('planned', 'in_progress', 'in_doubt', 'failed', 'succeeded', 'timed_out', 'cancelled',
        'compensated', 'disputed')),
    CHECK ((state = 'disputed') = (dispute IS NOT NULL)),
    CHECK ((dispute IS NULL) = (disputed_at IS NULL)),
    CHECK (state = 'disputed' OR decision IS NULL OR state = decision),
    CHECK (state NOT IN ('timed_out', 'cancelled', 'compensated') OR decision IS NOT NULL),
    CHECK ((decision IS NULL) = (decided_at IS NULL) AND (decision IS NULL) = (decided_by IS NULL)),
    CHECK (standing_receipts <= receipts),
    CHECK (state <> 'succeeded' OR standing_receipts > 0),
    CHECK (state NOT IN ('planned', 'in_progress', 'in_doubt', 'failed') OR standing_receipts = 0),
    CHECK (state <> 'planned' OR attempts = 0),
    CHECK (state NOT IN ('in_progress', 'in_doubt', 'failed') OR attempts > 0),
    CHECK (state <> 'in_progress' OR lease_until IS NOT NULL)
) STRICT, WITHOUT ROWID;
INSERT INTO "operations" VALUES('default','run-1','done','op_spcyfyvvdc4oxxbmprqm',1,1795953600000000,1795953600000000,1795953600000000,'email.send','done@example.org','sha256:f3033ffca509e7443a175c33e2476e0796f8d670bf23a22b7bfb3d9630af0fbb','v1:sha256:01df4dbb9f3f63800b6655f7cedf1de44d79341161c5e36e4423e1ac112df23e',NULL,'{"action":"email.send","args_digest":"sha256:f3033ffca509e7443a175c33e2476e0796f8d670bf23a22b7bfb3d9630af0fbb","args_keyed":"hmac-sha256:3afb90e9f168cdcb3be24a63541443225daa48a2dfd2be823190c4a663a26783","args_redacted":true,"fingerprint":"v1:sha256:01df4dbb9f3f63800b6655f7cedf1de44d79341161c5e36e4423e1ac112df23e","payload_digest":"sha256:7601b27ea88914e076bd2e26f417123a0f15ba9ac2803aad93533c1627812246","payload_keyed":"hmac-sha256:8f6b7cc5aaa68b95dfe6fe5a63bbec7016a761af3675978ef1016d38f9b6c35c","payload_redacted":false,"target":"done@example.org","target_folded":"done@example.org"}','{"lookup":{"args_digest":"sha256:15a176125257486719827c99e4cd2ec4f626949dc707df6fc0c17de94268509c","tool":"search_sent"},"repeat":"unsafe"}','{}','{"connection":"connection-1","conversation":"conversation-1","principal":"local"}','{"at":1795953600000000,"boot":"boot-1","offset":1795952600000000}','succeeded',1,1,0,1,NULL,NULL,NULL,NULL,NULL,NULL,1795953900000000,NULL,NULL,NULL,0);
INSERT INTO "operations" VALUES('default','run-1','failed','op_s7n3c7jovn5n4a5ufumt',3,1795953600000000,1795953600000000,1795953600000000,'email.send','failed@example.org',NULL,'v1:sha256:68f902ebbeeff34dbb79c049b76ddbee80aedeb57ebb94cbeb0fbf79cdaf2d63',NULL,'{"action":"email.send","args_redacted":false,"fingerprint":"v1:sha256:68f902ebbeeff34dbb79c049b76ddbee80aedeb57ebb94cbeb0fbf79cdaf2d63","payload_redacted":false,"target":"failed@example.org","target_folded":"failed@example.org"}','{"repeat":"unsafe"}','{}','{"connection":"connection-1","conversation":"conversation-1","principal":"local"}','{"at":1795953600000000,"boot":"boot-1","offset":1795952600000000}','failed',1,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,1795953900000000,NULL,NULL,NULL,0);
INSERT INTO "operations" VALUES('default','run-1','given-up','op_lznyycoqct2ck4lnguac',5,1795953600000000,1795953600000000,1795953600000000,'email.send','given-up@example.org',NULL,'v1:sha256:177c8edf049915448dcc33b7e11a68dba7d4d145bd03afe8a9396779a7f797c9',NULL,'{"action":"email.send","args_redacted":false,"fingerprint":"v1:sha256:177c8edf049915448dcc33b7e11a68dba7d4d145bd03afe8a9396779a7f797c9","payload_redacted":false,"target":"given-up@example.org","target_folded":"given-up@example.org"}','{"repeat":"unsafe"}','{}','{"connection":"connection-1","conversation":"conversation-1","principal":"local"}','{"at":1795953600000000,"boot":"boot-1","offset":1795952600000000}','cancelled',1,0,0,0,NULL,NULL,'cancelled',1795953600000000,'agent','decided',1795953900000000,NULL,NULL,NULL,0);
INSERT INTO "operations" VALUES('default','run-1','in-doubt','op_x4g7awor5i54hia2z3dt',2,1795953600000000,1795953600000000,1795953600000000,'email.send','in-doubt@example.org',NULL,'v1:sha256:4449a401a315413476f0dfacbb21355019cbb0b246b00af839420946929c2594',NULL,'{"action":"email.send","args_redacted":false,"fingerprint":"v1:sha256:4449a401a315413476f0dfacbb21355019cbb0b246b00af839420946929c2594","payload_digest":"sha256:fbcdcec89a7d90666cfe94fb9a0b19f2fa8cc0e02519ffb76da1191001c55b84","payload_keyed":"hmac-sha256:e6f0d16e6262639c2f29300e5bad688da6755d13123504e0cf393c94ee80a99f","payload_redacted":false,"target":"in-doubt@example.org","target_folded":"in-doubt@example.org"}','{"key_ttl_seconds":86400,"repeat":"keyed"}','{}','{"connection":"connection-1","conversation":"conversation-1","principal":"local"}','{"at":1795953600000000,"boot":"boot-1","offset":1795952600000000}','in_doubt',1,0,1,0,NULL,NULL,NULL,NULL,NULL,NULL,1795953900000000,NULL,NULL,NULL,0);
INSERT INTO "operations" VALUES('default','run-1','running','op_y5isk6vtswjyfexqzd4m',7,1795953600000000,1795953600000000,1795953600000000,'email.send','running@example.org',NULL,'v1:sha256:7c70df4735e1256fc8ff4b3de86f0daf0c4d920cd1262d70bfd68585036f1f7a',NULL,'{"action":"email.send","args_redacted":false,"fingerprint":"v1:sha256:7c70df4735e1256fc8ff4b3de86f0daf0c4d920cd1262d70bfd68585036f1f7a","payload_redacted":false,"target":"running@example.org","target_folded":"running@example.org"}','{"repeat":"unsafe"}','{}','{"connection":"connection-2","conversation":"conversation-2","principal":"local"}','{"at":1795953600000000,"boot":"boot-1","offset":1795952600000000}','in_progress',1,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,1795957200000000,NULL,NULL,NULL,0);
INSERT INTO "operations" VALUES('default','run-1','twice','op_y23p4fsta64526yjs2ek',4,1795953600000000,1795953600000000,1795953600000000,'email.send','twice@example.org',NULL,'v1:sha256:ca98b5ee0268f1df5a4ea69877e42eb05bbfb62f3f6160dcbfccd328bf8b0d1d',NULL,'{"action":"email.send","args_redacted":false,"fingerprint":"v1:sha256:ca98b5ee0268f1df5a4ea69877e42eb05bbfb62f3f6160dcbfccd328bf8b0d1d","payload_redacted":false,"target":"twice@example.org","target_folded":"twice@example.org"}','{"repeat":"unsafe"}','{}','{"connection":"connection-1","conversation":"conversation-1","principal":"local"}','{"at":1795953600000000,"boot":"boot-1","offset":1795952600000000}','disputed',1,2,0,2,'effects',1795953600000000,NULL,NULL,NULL,NULL,1795953900000000,NULL,NULL,NULL,0);
INSERT INTO "operations" VALUES('default','run-1','waits','op_aleftc3nzivexpy7wva4',6,1795953600000000,1795953600000000,1795953600000000,'email.send','waits@example.org',NULL,'v1:sha256:5d16972f7992ebad5f77ac620c7fbe3c814ae4d279f75d4115ab8000e4d6c230',NULL,'{"action":"email.send","args_redacted":false,"fingerprint":"v1:sha256:5d16972f7992ebad5f77ac620c7fbe3c814ae4d279f75d4115ab8000e4d6c230","payload_redacted":false,"target":"waits@example.org","target_folded":"waits@example.org"}','{}','{"depends_on":["failed"]}','{"connection":"connection-1","conversation":"conversation-1","principal":"local"}','{}','planned',0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0);
INSERT INTO "operations" VALUES('default','run-2','pay','op_nttwwyfasyueedfq3wnb',1,1795953600000000,1795953600000000,1795953600000000,'pay.send','pay@example.org',NULL,'v1:sha256:f1064bbc95b59f72da8c356c57f36d39b354722f425466399225ce7fd09cec51',NULL,'{"action":"pay.send","args_redacted":false,"fingerprint":"v1:sha256:f1064bbc95b59f72da8c356c57f36d39b354722f425466399225ce7fd09cec51","payload_redacted":false,"target":"pay@example.org","target_folded":"pay@example.org"}','{"repeat":"unsafe"}','{}','{"connection":"connection-1","conversation":"conversation-1","principal":"local"}','{"at":1795953600000000,"boot":"boot-1","offset":1795952600000000}','compensated',1,1,0,1,NULL,NULL,'compensated',1795953600000000,'compensation','op_t6fh3yhgivmtj4jmxluq',1795953900000000,NULL,NULL,NULL,0);
INSERT INTO "operations" VALUES('default','run-3','refund','op_t6fh3yhgivmtj4jmxluq',1,1795953600000000,1795953600000000,1795953600000000,'pay.refund','refund@example.org',NULL,'v1:sha256:bcef8b2a8f669c502093b4e51fafafebb516b576df4a41be4eb19119566232d0','op_nttwwyfasyueedfq3wnb','{"action":"pay.refund","args_redacted":false,"fingerprint":"v1:sha256:bcef8b2a8f669c502093b4e51fafafebb516b576df4a41be4eb19119566232d0","payload_redacted":false,"target":"refund@example.org","target_folded":"refund@example.org"}','{"repeat":"unsafe"}','{}','{"connection":"connection-1","conversation":"conversation-1","principal":"local"}','{"at":1795953600000000,"boot":"boot-1","offset":1795952600000000}','succeeded',1,1,0,1,NULL,NULL,NULL,NULL,NULL,NULL,1795953900000000,NULL,NULL,NULL,0);
CREATE TABLE receipts (
    namespace TEXT NOT NULL,
    run TEXT NOT NULL,
    operation TEXT NOT NULL,
    number INTEGER NOT NULL CHECK (number >= 1),
    kind TEXT NOT NULL,
    system TEXT NOT NULL,
    external_id TEXT,
    performed_at INTEGER,
    url TEXT,
    evidence_digest TEXT,
    final INTEGER NOT NULL CHECK (final IN (0, 1)),
    source TEXT NOT NULL,
    assurance INTEGER NOT NULL CHECK (assurance BETWEEN 0 AND 3),
    attempt INTEGER NOT NULL CHECK (attempt >= 0),
    recorded_at INTEGER NOT NULL,
    call_id TEXT,
    is_accepted INTEGER NOT NULL CHECK (is_accepted IN (0, 1)),
    is_foreign INTEGER NOT NULL CHECK (is_foreign IN (0, 1)),
    is_unannounced INTEGER NOT NULL CHECK (is_unannounced IN (0, 1)),
    is_undo INTEGER NOT NULL CHECK (is_undo IN (0, 1)),
    is_set_aside INTEGER NOT NULL CHECK (is_set_aside IN (0, 1)),
    PRIMARY KEY (namespace, run, operation, number),
    FOREIGN KEY (namespace, operation) REFERENCES operations (namespace, id),
    CHECK (assurance = 0 OR external_id IS NOT NULL),
    CHECK (is_accepted = 0 OR (assurance > 0 AND final = 1 AND is_foreign = 0))
) STRICT, WITHOUT ROWID;
INSERT INTO "receipts" VALUES('default','run-1','op_spcyfyvvdc4oxxbmprqm',1,'message','smtp','m-done',NULL,NULL,'sha256:05df6b4348dfda717207379c4d3cd04ce02885608ce6edc791bbd42c906852ca',1,'response',1,1,1795953600000000,'toolu_call_00000002',1,0,0,0,0);
INSERT INTO "receipts" VALUES('default','run-1','op_y23p4fsta64526yjs2ek',1,'message','smtp','m-1',NULL,NULL,NULL,1,'response',1,1,1795953600000000,'toolu_call_00000009',1,0,0,0,0);
INSERT INTO "receipts" VALUES('default','run-1','op_y23p4fsta64526yjs2ek',2,'message','smtp','m-2',NULL,NULL,NULL,1,'response',1,1,1795953600000000,'toolu_call_00000010',1,0,0,0,0);
INSERT INTO "receipts" VALUES('default','run-2','op_nttwwyfasyueedfq3wnb',1,'transaction','bank','t-1',NULL,NULL,NULL,1,'response',1,1,1795953600000000,'toolu_call_00000016',1,0,0,0,0);
INSERT INTO "receipts" VALUES('default','run-3','op_t6fh3yhgivmtj4jmxluq',1,'transaction','bank','t-2',NULL,NULL,NULL,1,'response',1,1,1795953600000000,'toolu_call_00000018',1,0,0,0,0);
CREATE TABLE runs (
    namespace TEXT NOT NULL,
    run TEXT NOT NULL CHECK (length(run) BETWEEN 1 AND 200),
    created_at INTEGER NOT NULL,
    touched_at INTEGER NOT NULL,
    last_seq INTEGER NOT NULL CHECK (last_seq >= 0),
    head TEXT NOT NULL,
    operations INTEGER NOT NULL CHECK (operations >= 0),
    workflow TEXT,
    workflow_version TEXT,
    finished_as TEXT CHECK (finished_as IN ('completed', 'failed', 'cancelled')),
    PRIMARY KEY (namespace, run)
) STRICT, WITHOUT ROWID;
INSERT INTO "runs" VALUES('default','run-1',1795953600000000,1795953600000000,30,'11e5d7242cbbdec5f41d853861b43c7980be2ec9cf70af97ae0a4cd8b7224605',7,'weekly','1',NULL);
INSERT INTO "runs" VALUES('default','run-2',1795953600000000,1795953600000000,5,'6c7ffe7c211117d3d5a16634ad40c9c87ad38085b95c79b52ef79514baf2bfed',1,NULL,NULL,NULL);
INSERT INTO "runs" VALUES('default','run-3',1795953600000000,1795953600000000,4,'34de8205eaf19b892d0c7ced3930d6234ee8b9419e470386d8a79771013f57fe',1,NULL,NULL,NULL);
CREATE INDEX runs_by_touch ON runs (namespace, touched_at);
CREATE INDEX operations_by_effect ON operations (namespace, run, action);
CREATE INDEX operations_by_state ON operations (namespace, run, state);
CREATE UNIQUE INDEX attempts_by_call ON attempts (namespace, run, operation, call_id) WHERE call_id IS NOT NULL;
CREATE INDEX events_by_operation ON events (namespace, run, operation, seq);
COMMIT;
