-- Called by: transfer.rs, in the transaction that fences the database, after
-- create_transfer_table.sql. The text of the error and its code come with it.
-- Guarantees: the function of the triggers refuses every change but those of the transaction that
-- copies rows. It runs as its owner, because other roles may not read the table.
CREATE OR REPLACE FUNCTION {schema}.workflow_refuse_change() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM {schema}.workflow_transfer WHERE writes = 1) THEN
        RAISE EXCEPTION USING ERRCODE = '{refusal_code}', MESSAGE = '{refusal}';
    END IF;
    RETURN NULL;
END $$
