-- Every key of a table that is kept by run holds the run, so that these tables can be partitioned by namespace and run
-- (docs/scale.md). An id follows from namespace, run and key, so what is unique stays the same; the columns stand in
-- this order because an operation is also looked up by its id alone. SQLite needs none of it and keeps its keys.
ALTER TABLE attempts DROP CONSTRAINT attempts_namespace_operation_fkey;
ALTER TABLE receipts DROP CONSTRAINT receipts_namespace_operation_fkey;
ALTER TABLE findings DROP CONSTRAINT findings_namespace_operation_fkey;
ALTER TABLE operations DROP CONSTRAINT operations_namespace_id_key;
ALTER TABLE operations ADD CONSTRAINT operations_by_id UNIQUE (namespace, id, run);
ALTER TABLE attempts ADD CONSTRAINT attempts_of_operation
    FOREIGN KEY (namespace, operation, run) REFERENCES operations (namespace, id, run);
ALTER TABLE receipts ADD CONSTRAINT receipts_of_operation
    FOREIGN KEY (namespace, operation, run) REFERENCES operations (namespace, id, run);
ALTER TABLE findings ADD CONSTRAINT findings_of_operation
    FOREIGN KEY (namespace, operation, run) REFERENCES operations (namespace, id, run);
