-- Partitions the large tables of a journal in PostgreSQL (docs/scale.md tells when). Once, by the owner of the tables,
-- with every server stopped:
--
--     psql --single-transaction -v ON_ERROR_STOP=1 -f partitions.sql DATABASE
--
-- The tables become partitioned ones of the same names, with the same columns, keys, checks and indexes, and their rows
-- are moved; programs and later migrations see no difference. What a user was granted on them has to be granted
-- again. The tables as they were stay in the schema counterfoil_before until somebody drops it.

DO $$
DECLARE
    partitions CONSTANT integer := 16;
    -- What is kept by run goes by run: a call touches one partition of each. What is compared across runs goes by what
    -- it is compared by. All other tables are small.
    large CONSTANT jsonb := '{
        "runs": "namespace, run", "operations": "namespace, run", "attempts": "namespace, run",
        "receipts": "namespace, run", "findings": "namespace, run", "events": "namespace, run",
        "bodies": "namespace, run", "external_ids": "namespace, operation",
        "fingerprints": "namespace, fingerprint"}';
    name text;
    keys text;
    columns text;
    made record;
BEGIN
    -- So that every name comes with its schema.
    SET LOCAL search_path = pg_catalog;
    CREATE TEMPORARY TABLE kept ON COMMIT DROP AS
        SELECT 0 AS step, relname, pg_get_constraintdef(pg_constraint.oid) AS definition, conname AS named, contype
        FROM pg_constraint JOIN pg_class ON pg_class.oid = conrelid
        WHERE relnamespace = 'counterfoil'::regnamespace AND large ? relname
        UNION ALL
        SELECT 1, relname, pg_get_indexdef(indexrelid), '', 'i'
        FROM pg_index JOIN pg_class ON pg_class.oid = indrelid
        WHERE relnamespace = 'counterfoil'::regnamespace AND large ? relname
            AND NOT EXISTS (SELECT 1 FROM pg_constraint WHERE conindid = indexrelid AND contype IN ('p', 'u'));

    CREATE SCHEMA counterfoil_before;
    FOR name IN SELECT jsonb_object_keys(large) LOOP
        EXECUTE format('ALTER TABLE counterfoil.%I SET SCHEMA counterfoil_before', name);
    END LOOP;
    FOR name, keys IN SELECT * FROM jsonb_each_text(large) LOOP
        EXECUTE format(
            'CREATE TABLE counterfoil.%I (LIKE counterfoil_before.%I INCLUDING DEFAULTS INCLUDING GENERATED '
            'INCLUDING STORAGE INCLUDING COMPRESSION) PARTITION BY HASH (%s)', name, name, keys);
        FOR number IN 0 .. partitions - 1 LOOP
            EXECUTE format(
                'CREATE TABLE counterfoil.%I PARTITION OF counterfoil.%I FOR VALUES WITH (MODULUS %s, REMAINDER %s)',
                name || '_p' || number, name, partitions, number);
        END LOOP;
        SELECT string_agg(quote_ident(attname), ', ') INTO columns FROM pg_attribute
        WHERE attrelid = format('counterfoil_before.%I', name)::regclass AND attnum > 0 AND NOT attisdropped
            AND attgenerated = '';
        EXECUTE format(
            'INSERT INTO counterfoil.%I (%s) SELECT %s FROM counterfoil_before.%I', name, columns, columns, name);
    END LOOP;
    -- Keys and checks, then indexes, then what refers to keys.
    FOR made IN SELECT * FROM pg_temp.kept ORDER BY contype = 'f', step, contype = 'c' LOOP
        IF made.step = 1 THEN
            EXECUTE made.definition;
        ELSE
            EXECUTE format(
                'ALTER TABLE counterfoil.%I ADD CONSTRAINT %I %s', made.relname, made.named, made.definition);
        END IF;
    END LOOP;
END
$$;

ANALYZE;
