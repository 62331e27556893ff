-- Beside `ledger`, which the image makes: Dagster's own storage, which backups may leave out.
CREATE DATABASE dagster;
