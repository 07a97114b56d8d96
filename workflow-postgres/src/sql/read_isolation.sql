-- Called by: within.rs, before an event is emitted in a transaction of the application.
-- Guarantees: names the level of the transaction that is open.
SELECT current_setting('transaction_isolation') AS level
